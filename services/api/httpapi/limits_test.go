package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// Payloads right below, at and above each limit are kept byte by byte, or
// refused before anything is written (fault 61).
func TestFault61PayloadsAtTheirLimits(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const input, body = 256 << 10, 1 << 20
	sized := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for i, n := range []int{input - 1, input} {
		got := s.post("/v1/topics/kept"+string(rune('a'+i))+"/turns", `{"executor":"caller","parts":[`+toolPart("x", "c", sized(n))+`]}`).want(201)
		if kept := s.get("/v1/calls/" + got.text("turn.calls.0.id") + "/input").want(200).body; string(kept) != sized(n) {
			t.Errorf("of an input of %d bytes %d are kept", n, len(kept))
		}
	}
	padded := func(n int) call { // a body of n bytes with a small content
		content := `{"messageId":"m","parts":[{"type":"text","text":"hi"}]}`
		return register(content + strings.Repeat(" ", n-len(content)))
	}
	s.refuse([]bad{
		{"an input above its limit", one(toolPart("x", "c", sized(input+1))), 422, "invalid", "/parts/0/input"},
		{"a body above its limit", padded(body + 1), 413, "too-large", ""},
		{"depth 100,000", one(toolPart("x", "c", strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000))), 400, "malformed-json", ""},
	})
	s.do(padded(body - 1)).want(201)
	s.do(padded(body)).want(200)
}

// Numbers that no double holds are kept as they were written (fault 59).
func TestFault59NumbersAreKeptAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for name, input := range map[string]string{
		"large": `{"n":1e400}`, "negative-zero": `{"n":-0}`, "beyond-int64": `{"n":9223372036854775808}`, "exact": `{"n":1E2, "m":0.10}`,
	} {
		got := s.do(call{method: http.MethodPost, path: "/v1/topics/" + name + "/turns",
			body: `{"executor":"caller","parts":[` + toolPart("x", "c", input) + `]}`}).want(201)
		if kept := s.get("/v1/calls/" + got.text("turn.calls.0.id") + "/input").want(200).body; string(kept) != input {
			t.Errorf("%s: kept is %s", input, kept)
		}
	}
}
