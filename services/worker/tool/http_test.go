package tool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/tool"
)

func newHTTP(t *testing.T) *tool.HTTP {
	t.Helper()
	e, err := egress.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	h := tool.NewHTTP(e)
	t.Cleanup(h.Close)
	return h
}

func toolAt(url string, effect model.Effect) model.Tool {
	return model.Tool{Tenant: "default", Definition: model.ToolDefinition{
		Name: "t", Effect: effect, HTTP: &model.HTTPTarget{Method: "POST", URL: url},
	}}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

var aCall = tool.Call{ID: "call-1", Attempt: 1, IdempotencyKey: "key-1", Input: []byte(`{}`)}

func run(ctx context.Context, t *testing.T, h *tool.HTTP, tl model.Tool, call tool.Call) model.Result {
	t.Helper()
	ready, err := h.Runner(tl).Prepare(ctx)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return ready.Run(ctx, call)
}

func TestTheRequestIsExactlyWhatWasApproved(t *testing.T) {
	t.Parallel()
	input := []byte("{ \"n\": 9007199254740993, \"e\":1E2, \"s\":\"\\u0000<\\ud800\" }")
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		got = r
	})
	tl := toolAt(url+"/do?x=1", model.EffectUnsafe)
	tl.Definition.HTTP.Method = "put"
	tl.Secrets.Headers = map[string]string{"Authorization": "Bearer s3cret"}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	res := run(ctx, t, newHTTP(t), tl, tool.Call{ID: "c7", Attempt: 3, IdempotencyKey: "k7", Input: input})
	if res.Kind != model.ResultSucceeded || string(res.Output) != "null" {
		t.Fatalf("%+v", res)
	}
	if string(body) != string(input) || got.Method != "PUT" || got.RequestURI != "/do?x=1" || got.ContentLength != int64(len(input)) {
		t.Errorf("%s %s %d %q", got.Method, got.RequestURI, got.ContentLength, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": "k7", "Countersign-Call": "c7", "Countersign-Attempt": "3",
		"Authorization": "Bearer s3cret", "Traceparent": "00-01000000000000000000000000000000-0200000000000000-01",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
}

// TestOutcomesAreAsDefiniteAsTheAnswer is the rule of design for HTTP tools (I4).
func TestOutcomesAreAsDefiniteAsTheAnswer(t *testing.T) {
	t.Parallel()
	h := newHTTP(t)
	for _, c := range []struct {
		status int
		body   string
		kind   model.ResultKind
		text   string
	}{
		{200, `{"ok": 1.50}`, model.ResultSucceeded, `{"ok": 1.50}`},
		{201, ` [9007199254740993] `, model.ResultSucceeded, `[9007199254740993]`},
		{204, ``, model.ResultSucceeded, `null`},
		{200, `plain <b>`, model.ResultSucceeded, `{"text":"plain <b>"}`},
		{200, "{\"a\":\"\x00\"}", model.ResultSucceeded, `{"text":"{\"a\":\"\u0000\"}"}`},
		{200, "\xff\xfe\x00", model.ResultSucceeded, `{"base64":"//4A"}`},
		{200, "{\"a\":\"\xff\"}", model.ResultSucceeded, `{"base64":"eyJhIjoi/yJ9"}`},
		{200, strings.Repeat("[", 600) + strings.Repeat("]", 600), model.ResultSucceeded,
			`{"text":"` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `"}`},
		{400, "no such\x00file\xff", model.ResultFailed, "no such\uFFFDfile\uFFFD"},
		{404, ``, model.ResultFailed, "The tool answered 404 Not Found."},
		{422, strings.Repeat("é", 5000), model.ResultFailed, strings.Repeat("é", 4096) + " … (cut)"},
		{408, ``, model.ResultUnknown, "408"}, {425, ``, model.ResultUnknown, "425"}, {429, `slow down`, model.ResultUnknown, "slow down"},
		{500, `oops`, model.ResultUnknown, "oops"}, {503, ``, model.ResultUnknown, "503"}, {599, ``, model.ResultUnknown, "599"},
		{302, ``, model.ResultUnknown, "302 Found"}, {304, ``, model.ResultUnknown, "304"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		for _, effect := range []model.Effect{model.EffectUnsafe, model.EffectRead} {
			res := run(t.Context(), t, h, toolAt(url, effect), aCall)
			ok := res.Kind == c.kind
			switch c.kind {
			case model.ResultSucceeded:
				ok = ok && string(res.Output) == c.text && json.Valid(res.Output)
			case model.ResultFailed:
				ok = ok && res.Text == c.text
			default:
				ok = ok && strings.Contains(res.Text, c.text)
			}
			if !ok {
				t.Errorf("%d %.40q: %s %.80q %.80s", c.status, c.body, res.Kind, res.Text, res.Output)
			}
		}
	}
}

func TestABigOutputIsNotLost(t *testing.T) {
	t.Parallel()
	whole := `"` + strings.Repeat("x", 2<<20) + `"`
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/whole" {
			io.WriteString(w, whole)
			return
		}
		for range 9 << 10 {
			io.WriteString(w, strings.Repeat("é", 512))
		}
	})
	h := newHTTP(t)
	if res := run(t.Context(), t, h, toolAt(url+"/whole", model.EffectRead), aCall); string(res.Output) != whole {
		t.Errorf("2 MB: %s, %d bytes", res.Kind, len(res.Output))
	}
	res := run(t.Context(), t, h, toolAt(url+"/more", model.EffectRead), aCall)
	var got struct {
		Truncated    bool
		Bytes        int64
		SHA256, Text string
		More         bool
	}
	if err := json.Unmarshal(res.Output, &got); err != nil {
		t.Fatal(err)
	}
	if !got.Truncated || got.Bytes != 9<<20 || len(got.SHA256) != 64 || len(got.Text) != 256<<10 || got.More {
		t.Errorf("9 MB: %v, %d bytes, sha %q, %d of text", got.Truncated, got.Bytes, got.SHA256, len(got.Text))
	}
}

func TestReadingEndsEvenIfTheAnswerDoesNot(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("x", 1<<20))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	res := run(t.Context(), t, newHTTP(t), toolAt(url, model.EffectRead), aCall)
	if res.Kind != model.ResultSucceeded || !strings.Contains(string(res.Output[:200]), `"bytes":67108864`) || !strings.Contains(string(res.Output[:200]), `"more":true`) {
		t.Errorf("%s %.200s", res.Kind, res.Output)
	}
}

// rawServer answers each connection with a script; it counts requests.
func rawServer(t *testing.T, script func(conn net.Conn, request *http.Request)) (string, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	var conns sync.WaitGroup
	var open sync.Map
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		conns.Wait()
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(conn, nil)
			conns.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					requests.Add(1)
					script(conn, req)
				}
			})
		}
	}()
	return "http://" + l.Addr().String(), &requests
}

// TestACutConnectionIsUnknownAndNeverSentAgain: whatever the effect, however
// the connection ends, one run is one request (I4).
func TestACutConnectionIsUnknownAndNeverSentAgain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing":      "",
		"half a line":  "HTTP/1.1 20",
		"no body":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
		"half a body":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":",
		"half a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc",
		"garbage":      "\x00\x01\x02 nonsense\r\n\r\n",
		"upgrade":      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello",
	} {
		for _, effect := range []model.Effect{model.EffectUnsafe, model.EffectKeyed, model.EffectRead} {
			url, requests := rawServer(t, func(conn net.Conn, _ *http.Request) {
				io.WriteString(conn, answer)
				conn.Close()
			})
			res := run(t.Context(), t, newHTTP(t), toolAt(url, effect), aCall)
			if res.Kind != model.ResultUnknown || requests.Load() != 1 || res.Text == "" {
				t.Errorf("%s, %s: %+v after %d requests", name, effect, res, requests.Load())
			}
		}
	}
}

// TestADyingIdleConnectionIsNeverRetried: the second call meets a connection
// that the server closes on it. A transport that repeats requests carrying an
// Idempotency-Key would send it twice.
func TestADyingIdleConnectionIsNeverRetried(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	var seen atomic.Int64
	url, requests := rawServer(t, func(conn net.Conn, _ *http.Request) {
		if seen.Add(1)%2 == 1 {
			io.WriteString(conn, ok)
			return
		}
		conn.Close()
	})
	h := newHTTP(t)
	for _, effect := range []model.Effect{model.EffectKeyed, model.EffectRead} {
		for _, method := range []string{"POST", "GET"} {
			tl := toolAt(url, effect)
			tl.Definition.HTTP.Method = method
			before := requests.Load()
			first := run(t.Context(), t, h, tl, aCall)
			second := run(t.Context(), t, h, tl, aCall)
			if first.Kind != model.ResultSucceeded || second.Kind != model.ResultUnknown || requests.Load()-before != 2 {
				t.Errorf("%s %s: %s, %s, %d requests", effect, method, first.Kind, second.Kind, requests.Load()-before)
			}
		}
	}
}

func TestOnlyRepeatableCallsShareConnections(t *testing.T) {
	t.Parallel()
	for effect, want := range map[model.Effect]int{model.EffectUnsafe: 3, model.EffectRead: 1, model.EffectIdempotent: 1, "": 3} {
		remotes := map[string]bool{}
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) { remotes[r.RemoteAddr] = true })
		h := newHTTP(t)
		for range 3 {
			run(t.Context(), t, h, toolAt(url, effect), aCall)
		}
		if len(remotes) != want {
			t.Errorf("%q: %d connections, want %d", effect, len(remotes), want)
		}
	}
}

func TestAnAnswerThatComesTooLateIsUnknown(t *testing.T) {
	t.Parallel()
	url, _ := rawServer(t, func(conn net.Conn, _ *http.Request) {
		io.Copy(io.Discard, conn) // until the caller hangs up
	})
	ready, err := newHTTP(t).Runner(toolAt(url, model.EffectRead)).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	res := ready.Run(ctx, aCall)
	if res.Kind != model.ResultUnknown || !strings.Contains(res.Text, "ran out") {
		t.Errorf("%+v", res)
	}
}

func TestPreparationTellsWhatCannotBeMended(t *testing.T) {
	t.Parallel()
	h := newHTTP(t)
	for url, forGood := range map[string]bool{
		"http://10.0.0.1/": true, "http://169.254.169.254/latest": true, "http://[::1]/": true, "file:///etc/passwd": true,
		"http://u:p@127.0.0.1/": true, "http://name.invalid/": false, "http://127.0.0.1:1/": false,
	} {
		_, err := h.Runner(toolAt(url, model.EffectUnsafe)).Prepare(t.Context())
		if err == nil || errors.Is(err, tool.ErrForGood) != forGood {
			t.Errorf("%s: %v", url, err)
		}
	}
	for name, value := range map[string]string{"Host": "x", "idempotency-key": "x", "Transfer-Encoding": "x", "a b": "x", "X": "a\r\nb: c"} {
		tl := toolAt("http://127.0.0.1:1/", model.EffectUnsafe)
		tl.Secrets.Headers = map[string]string{name: value}
		if _, err := h.Runner(tl).Prepare(t.Context()); !errors.Is(err, tool.ErrForGood) {
			t.Errorf("header %q: %v", name, err)
		}
	}
}

// TestNothingIsSentBeforeRun: preparing and releasing has no effect, and a
// connection that died in between proves that nothing was sent.
func TestNothingIsSentBeforeRun(t *testing.T) {
	t.Parallel()
	accepted := make(chan net.Conn, 4)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	h := newHTTP(t)
	runner := h.Runner(toolAt("http://"+l.Addr().String(), model.EffectUnsafe))

	ready, err := runner.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := <-accepted
	ready.Release()
	ready.Release()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("released: read %d, %v", n, err)
	}
	if res := ready.Run(t.Context(), aCall); res.Kind != model.ResultNothingSent {
		t.Errorf("run after release: %+v", res)
	}

	ready, err = runner.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res := ready.Run(ctx, aCall); res.Kind != model.ResultNothingSent && res.Kind != model.ResultUnknown {
		t.Errorf("run with an ended context: %+v", res)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	h := newHTTP(t)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			effect := []model.Effect{model.EffectRead, model.EffectUnsafe}[i%2]
			call := aCall
			call.Input = fmt.Appendf(nil, `{"i":%d}`, i)
			ready, err := h.Runner(toolAt(url, effect)).Prepare(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if res := ready.Run(t.Context(), call); string(res.Output) != string(call.Input) {
				t.Errorf("%d: %+v", i, res)
			}
		})
	}
	wg.Wait()
}
