package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/mcp"
	"github.com/countersign/countersign/services/worker/tool"
)

func newPool(t *testing.T, changed func(model.TenantID, string)) *mcp.Pool {
	t.Helper()
	e, err := egress.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	p := mcp.NewPool(mcp.Options{Egress: e, ToolsChanged: changed})
	t.Cleanup(p.Close)
	return p
}

func overStdio(mode string) model.MCPServer {
	return model.MCPServer{Tenant: "default", Name: "files", Command: []string{os.Args[0]}, Env: map[string]string{serverVariable: mode}}
}

func overHTTP(t *testing.T, wrap func(http.Handler) http.Handler, options *sdk.StreamableHTTPOptions) model.MCPServer {
	t.Helper()
	stop := make(chan struct{})
	server := newServer(stop)
	handler := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options))
	if wrap != nil {
		handler = wrap(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(func() { close(stop); s.CloseClientConnections(); s.Close() })
	return model.MCPServer{Tenant: "default", Name: "files", URL: s.URL}
}

// transports are the ways to the same server.
func transports(t *testing.T) map[string]model.MCPServer {
	return map[string]model.MCPServer{
		"stdio":          overStdio("run"),
		"http":           overHTTP(t, nil, nil),
		"http json":      overHTTP(t, nil, &sdk.StreamableHTTPOptions{JSONResponse: true}),
		"http stateless": overHTTP(t, nil, &sdk.StreamableHTTPOptions{Stateless: true}),
	}
}

func toolOf(s model.MCPServer, name string) model.Tool {
	hints := map[string]string{"echo": `{"readOnlyHint":true,"idempotentHint":false}`, "fail": `{"idempotentHint":true,"readOnlyHint":false}`,
		"env": `{"destructiveHint":false,"idempotentHint":false,"readOnlyHint":false}`}[name]
	return model.Tool{Tenant: s.Tenant, Definition: model.ToolDefinition{
		Name: model.ToolName(s.Name, name), Description: "does " + name, InputSchema: json.RawMessage(schema),
		Annotations: json.RawMessage(hints), MCP: &model.MCPTarget{Tool: name, Command: s.Command, URL: s.URL},
	}}
}

func run(ctx context.Context, t *testing.T, p *mcp.Pool, s model.MCPServer, name, input string) model.Result {
	t.Helper()
	ready, err := p.Runner(s, toolOf(s, name)).Prepare(ctx)
	if err != nil {
		t.Fatalf("prepare %s: %v", name, err)
	}
	return ready.Run(ctx, tool.Call{ID: "c1", Attempt: 2, IdempotencyKey: "k1", Input: []byte(input)})
}

func TestListImportsEveryPageWithSchemasAndEffects(t *testing.T) {
	t.Parallel()
	for name, server := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, err := newPool(t, nil).List(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			effects := map[string]model.Effect{}
			for _, tl := range tools {
				effects[tl.Name] = tl.Effect
				if string(tl.InputSchema) != `{"properties":{"n":{"maximum":9007199254740993,"type":"number"}},"type":"object"}` || tl.Description != "does "+tl.Name {
					t.Errorf("%s: %s %q", tl.Name, tl.InputSchema, tl.Description)
				}
			}
			if len(tools) != 11 || effects["echo"] != model.EffectRead || effects["fail"] != model.EffectIdempotent || effects["env"] != model.EffectUnsafe || effects["hang"] != model.EffectUnsafe {
				t.Errorf("%d tools, %v", len(tools), effects)
			}
			d := tools[0].Definition(server)
			if d.Name != "files__"+tools[0].Name || d.MCP.Tool != tools[0].Name || d.Executor != model.ExecutorWorker {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestArgumentsAndResultsPassUnrounded(t *testing.T) {
	t.Parallel()
	for name, server := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const input = `{"n":9007199254740993,"e":1.50,"s":"<\u0000é"}`
			res := run(t.Context(), t, newPool(t, nil), server, "echo", input)
			var output struct {
				Content           []struct{ Text string }
				StructuredContent struct {
					N, E json.Number
					S    string
				}
			}
			if err := json.Unmarshal(res.Output, &output); err != nil || res.Kind != model.ResultSucceeded {
				t.Fatalf("%+v, %v", res, err)
			}
			got := output.StructuredContent
			if got.N != "9007199254740993" || got.E != "1.50" || got.S != "<\x00é" {
				t.Errorf("%s", res.Output)
			}
			if !strings.HasPrefix(string(res.Output), `{"content":[`) {
				t.Errorf("%.60s", res.Output)
			}
		})
	}
}

// TestOutcomesAreAsDefiniteAsTheAnswer shows I4 for what an MCP server can say.
func TestOutcomesAreAsDefiniteAsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, server := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, nil)
			if res := run(t.Context(), t, p, server, "fail", `{}`); res.Kind != model.ResultFailed || res.Text != "no such\nfile" {
				t.Errorf("isError: %+v", res)
			}
			if res := run(t.Context(), t, p, server, "broken", `{}`); res.Kind != model.ResultUnknown || !strings.Contains(res.Text, "disk on fire") {
				t.Errorf("an error from within the tool: %+v", res)
			}
			if res := run(t.Context(), t, p, server, "echo", `[1]`); res.Kind != model.ResultFailed {
				t.Errorf("an array: %+v", res)
			}
			if res := run(t.Context(), t, p, server, "nul", `{}`); string(res.Output) != `{"content":[{"type":"text","text":"a\u0000b"}]}` {
				t.Errorf("NUL: %s", res.Output)
			}
			if res := run(t.Context(), t, p, server, "huge", `{}`); len(res.Output) < 2<<20 || !json.Valid(res.Output) {
				t.Errorf("2 MB: %s, %d bytes", res.Kind, len(res.Output))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if res := run(ctx, t, p, server, "hang", `{}`); res.Kind != model.ResultUnknown || !strings.Contains(res.Text, "ran out") {
				t.Errorf("a timeout: %+v", res)
			}
			if res := run(t.Context(), t, p, server, "echo", `{}`); res.Kind != model.ResultSucceeded {
				t.Errorf("after the timeout: %+v", res)
			}
		})
	}
}

func TestTheCallsIdentityTravels(t *testing.T) {
	t.Parallel()
	for name, server := range transports(t) {
		res := run(t.Context(), t, newPool(t, nil), server, "meta", `{}`)
		for _, want := range []string{`"countersign/call":"c1"`, `"countersign/attempt":2`, `"countersign/idempotency-key":"k1"`} {
			if !strings.Contains(string(res.Output), want) {
				t.Errorf("%s: %s not in %s", name, want, res.Output)
			}
		}
	}
}

// TestADeadServerIsUnknownAndReplaced: the process dies in the middle of a
// call; that call is unknown, the next preparation starts another process.
func TestADeadServerIsUnknownAndReplaced(t *testing.T) {
	t.Parallel()
	p, server := newPool(t, nil), overStdio("run")
	for range 2 {
		if res := run(t.Context(), t, p, server, "crash", `{}`); res.Kind != model.ResultUnknown {
			t.Errorf("%+v", res)
		}
		if res := run(t.Context(), t, p, server, "echo", `{}`); res.Kind != model.ResultSucceeded {
			t.Errorf("afterwards: %+v", res)
		}
	}
}

// TestASessionThatDiesBeforeTheCallSentNothing: prepared, then dead.
func TestASessionThatDiesBeforeTheCallSentNothing(t *testing.T) {
	t.Parallel()
	p, server := newPool(t, nil), overStdio("run")
	ready, err := p.Runner(server, toolOf(server, "echo")).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t.Context(), t, p, server, "crash", `{}`)
	if res := ready.Run(t.Context(), tool.Call{Input: []byte(`{}`)}); res.Kind != model.ResultNothingSent {
		t.Errorf("%+v", res)
	}
}

// answering answers tools/call itself and hands everything else on.
func answering(calls *atomic.Int64, answer func(http.ResponseWriter)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if strings.Contains(string(body), `"tools/call"`) {
				calls.Add(1)
				answer(w)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		})
	}
}

func TestOverHTTPTheEvidenceDecides(t *testing.T) {
	t.Parallel()
	hijack := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			fmt.Fprint(conn, text)
			conn.Close()
		}
	}
	status := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "said so", code) }
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		kind   model.ResultKind
	}{
		"cut":          {hijack(""), model.ResultUnknown},
		"cut in JSON":  {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"json"), model.ResultUnknown},
		"cut in SSE":   {hijack("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"json"), model.ResultUnknown},
		"not JSON-RPC": {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), model.ResultUnknown},
		"HTML":         {hijack("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"), model.ResultUnknown},
		"redirect":     {hijack("HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"), model.ResultUnknown},
		"500":          {status(500), model.ResultUnknown},
		"503":          {status(503), model.ResultUnknown},
		"429":          {status(429), model.ResultUnknown},
		"lost session": {status(404), model.ResultUnknown},
		"401":          {status(401), model.ResultFailed},
		"400":          {status(400), model.ResultFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := overHTTP(t, answering(&calls, c.answer), nil)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			res := run(ctx, t, newPool(t, nil), server, "echo", `{}`)
			if res.Kind != c.kind || calls.Load() != 1 || ctx.Err() != nil {
				t.Errorf("%+v after %d requests, %v", res, calls.Load(), ctx.Err())
			}
		})
	}
}

func TestConfiguredHeadersTravelAndTheProtocolsStand(t *testing.T) {
	t.Parallel()
	var bad atomic.Int64
	server := overHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cret" || r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json" {
				bad.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}, nil)
	server.Headers = map[string]string{"Authorization": "Bearer s3cret", "Content-Type": "text/plain"}
	run(t.Context(), t, newPool(t, nil), server, "echo", `{}`)
	if bad.Load() != 0 {
		t.Errorf("%d requests without the headers", bad.Load())
	}
}

func TestPreparationTellsWhatCannotBeMended(t *testing.T) {
	t.Parallel()
	p, stdio := newPool(t, nil), overStdio("run")
	changed := toolOf(stdio, "echo")
	changed.Definition.Description = "harmless"
	other := toolOf(stdio, "echo")
	other.Definition.MCP.Command = []string{"other"}
	inside := model.MCPServer{Name: "x", URL: "http://10.0.0.1/mcp"}
	refused := model.MCPServer{Name: "x", URL: "http://127.0.0.1:1/mcp"}
	missing := model.MCPServer{Name: "x", Command: []string{"/no/such/program"}}
	for name, c := range map[string]struct {
		server  model.MCPServer
		tool    model.Tool
		forGood bool
		says    string
	}{
		"changed description": {stdio, changed, true, "otherwise than it was approved"},
		"another server":      {stdio, other, true, "another one"},
		"no such tool":        {stdio, toolOf(stdio, "gone"), true, "no tool"},
		"inside address":      {inside, toolOf(inside, "echo"), true, "COUNTERSIGN_ALLOW_TARGETS"},
		"nobody listens":      {refused, toolOf(refused, "echo"), false, "refused"},
		"no program":          {missing, toolOf(missing, "echo"), false, "no such"},
		"no target":           {model.MCPServer{Name: "x"}, toolOf(model.MCPServer{Name: "x"}, "echo"), true, "neither"},
		"ends at once":        {overStdio("silent"), toolOf(overStdio("silent"), "echo"), false, "not in the mood"},
	} {
		_, err := p.Runner(c.server, c.tool).Prepare(t.Context())
		if err == nil || errors.Is(err, tool.ErrForGood) != c.forGood || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPreparationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	p, server := newPool(t, nil), overStdio("deaf")
	if _, err := p.Runner(server, toolOf(server, "echo")).Prepare(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := p.List(ctx, server); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestAChangedListIsNoticed(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]model.MCPServer{"stdio": overStdio("run"), "http": overHTTP(t, nil, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := make(chan string, 10)
			p := newPool(t, func(tenant model.TenantID, name string) { changes <- string(tenant) + "/" + name })
			if _, err := p.Runner(server, toolOf(server, "added")).Prepare(t.Context()); !errors.Is(err, tool.ErrForGood) {
				t.Fatal(err)
			}
			run(t.Context(), t, p, server, "more", `{}`)
			select {
			case got := <-changes:
				if got != "default/files" {
					t.Error(got)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no word of the change")
			}
			if res := run(t.Context(), t, p, server, "added", `{}`); res.Kind != model.ResultSucceeded {
				t.Errorf("%+v", res)
			}
		})
	}
}

func TestAProcessSeesNoEnvironmentButItsOwn(t *testing.T) {
	server := overStdio("run")
	t.Setenv("COUNTERSIGN_DATABASE_URL", "postgres://secret")
	res := run(t.Context(), t, newPool(t, nil), server, "env", `{}`)
	for _, line := range strings.Split(string(res.Output), `\n`) {
		if strings.Contains(line, "secret") || strings.Contains(line, "GOFLAGS") {
			t.Errorf("inherited: %s", line)
		}
	}
	if !strings.Contains(string(res.Output), "PATH=") {
		t.Errorf("no PATH: %s", res.Output)
	}
}

func TestCloseLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	p, server := newPool(t, nil), overStdio("run")
	res := run(t.Context(), t, p, server, "spawn", `{}`)
	var output struct{ StructuredContent int }
	if err := json.Unmarshal(res.Output, &output); err != nil {
		t.Fatal(err)
	}
	p.Close()
	deadline := time.Now().Add(10 * time.Second)
	for !exited(output.StructuredContent) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", output.StructuredContent)
		}
	}
	if _, err := p.Runner(server, toolOf(server, "echo")).Prepare(t.Context()); err == nil {
		t.Error("a closed pool prepares")
	}
}

// exited tells whether a process has ended; one that nobody reaped counts.
func exited(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestCloseBreaksOffWhatRuns(t *testing.T) {
	t.Parallel()
	for name, server := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, nil)
			ready, err := p.Runner(server, toolOf(server, "hang")).Prepare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan model.Result, 1)
			go func() { done <- ready.Run(t.Context(), tool.Call{Input: []byte(`{}`)}) }()
			p.Close()
			select {
			case res := <-done:
				if res.Kind != model.ResultUnknown && res.Kind != model.ResultNothingSent {
					t.Errorf("%+v", res)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the call goes on")
			}
		})
	}
}

func TestManyCallsShareOneSessionPerTenant(t *testing.T) {
	t.Parallel()
	for name, server := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, nil)
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					mine := server
					mine.Tenant = model.TenantID(fmt.Sprint("tenant-", i%2))
					ready, err := p.Runner(mine, toolOf(mine, "echo")).Prepare(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					res := ready.Run(t.Context(), tool.Call{Input: fmt.Appendf(nil, `{"n":%d}`, i)})
					if want := fmt.Sprintf(`"structuredContent":{"n":%d}}`, i); !strings.HasSuffix(string(res.Output), want) {
						t.Errorf("%d: %+v %s", i, res.Kind, res.Output)
					}
				})
			}
			wg.Wait()
		})
	}
}
