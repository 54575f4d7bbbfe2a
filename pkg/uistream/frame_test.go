package uistream

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReaderTakesBothForms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"lines":              {"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}", `{"a":1} {"b":2} {"c":3}`},
		"events":             {"data: {\"a\":1}\n\ndata:{\"b\":2}\n\n", `{"a":1} {"b":2}`},
		"events of CRLF":     {"data: {\"a\":1}\r\n\r\ndata: {\"b\":2}\r\n\r\n", `{"a":1} {"b":2}`},
		"comments and names": {": hello\n\nevent: x\nid: 3\nretry: 5\ndata: {\"a\":1}\n\n", `{"a":1}`},
		"several lines":      {"data: {\"a\":\ndata: 1}\n\n", "{\"a\":\n1}"},
		"its end":            {"data: {\"a\":1}\n\ndata: [DONE]\n\ndata: {\"b\":2}\n\n", `{"a":1}`},
		"no blank line":      {"data: {\"a\":1}", `{"a":1}`},
		"nothing":            {"", ""},
	} {
		var got []string
		r := NewReader(strings.NewReader(test.text))
		var err error
		for err == nil {
			var text []byte
			if text, err = r.Next(); err == nil {
				got = append(got, string(text))
			}
		}
		if !errors.Is(err, io.EOF) || strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, test.want, err)
		}
	}
	if _, err := NewReader(strings.NewReader(strings.Repeat("x", MaxLine+1))).Next(); !errors.Is(err, ErrLine) {
		t.Errorf("a long line: %v", err)
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	got := string(AppendComment(AppendFrame(nil, []byte(`{"a":1}`)), "keep-alive")) + Done
	if want := "data: {\"a\":1}\n\n: keep-alive\n\ndata: [DONE]\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
