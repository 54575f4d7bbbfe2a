package services

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// Whatever a tool does, its worker lives on, and the row says what is known
// (I4).
func TestI4AToolsFaultsGoByItsEffect(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	for name, test := range map[string]func(*testing.T, *deployment){
		"no output kills a worker or is lost":                strangeOutputs,
		"an unsafe tool's 500 or silence is an unknown":      unsafeFaults,
		"an idempotent tool is tried again under its key":    idempotentFaults,
		"a refused connection is tried again, unsafe or not": refusedConnection,
		"a tool's no is final":                               definiteNo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d.in(t))
		})
	}
}

func strangeOutputs(t *testing.T, d *deployment) {
	big := `"` + strings.Repeat("0123456789abcdef", 2<<20/16) + `"`
	bytes := "\xff\xfe\x00 not text"
	for name, c := range map[string]struct{ says, want string }{
		"nul":      {"before\x00after", `{"text":"before\u0000after"}`},
		"json-nul": {`{"a":"\u0000"}`, `{"a":"\u0000"}`},
		"bytes":    {bytes, `{"base64":"` + base64.StdEncoding.EncodeToString([]byte(bytes)) + `"}`},
		"big":      {big, big},
		"nothing":  {"", `null`},
	} {
		d.allowed("says_"+name, "unsafe", says(http.StatusOK, c.says))
		call := d.start("output-"+name, "says_"+name)[0]
		d.runIs(call.ID, "succeeded")
		if got, _ := d.output("output-" + name); string(got) != c.want {
			t.Errorf("%s: %.80q of %d bytes, want %.80q of %d", name, got, len(got), c.want, len(c.want))
		}
	}
	d.allowed("fails_nul", "unsafe", says(http.StatusNotFound, "no\x00such\xff file"))
	call := d.start("output-fails", "fails_nul")[0]
	d.runIs(call.ID, "failed")
	if _, text := d.output("output-fails"); text != "no\uFFFDsuch\uFFFD file" {
		t.Errorf("the error's text is %q", text)
	}
}

func unsafeFaults(t *testing.T, d *deployment) {
	broken := d.allowed("breaks", "unsafe", says(http.StatusInternalServerError, "out of disk"))
	silent := d.allowed("hangs", "unsafe", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(tool *client.Tool) { tool.Timeout = "1s" })
	calls := d.start("unsafe", "breaks", "hangs")
	for i, tool := range []*toolServer{broken, silent} {
		call := d.runIs(calls[i].ID, "outcome-unknown")
		if n := len(tool.ran()); n != 1 || len(call.Attempts) != 1 || call.State == "output-error" {
			t.Errorf("%s ran %d times: %s", call.Tool, n, call.Raw)
		}
	}
	d.status("unsafe", "awaiting-approval")
}

func idempotentFaults(t *testing.T, d *deployment) {
	tool := d.allowed("flaky", "idempotent", says(http.StatusBadGateway, ""), func(tool *client.Tool) { tool.MaxAttempts = 2 })
	call := d.runIs(d.start("idempotent", "flaky")[0].ID, "outcome-unknown")
	ran := tool.ran()
	if len(ran) != 2 || len(call.Attempts) != 2 {
		t.Fatalf("it ran %d times, want 2: %s", len(ran), call.Raw)
	}
	if ran[0].key == "" || ran[0].key != ran[1].key || ran[0].attempt != "1" || ran[1].attempt != "2" {
		t.Errorf("attempts: %+v", ran)
	}
	// A read that failed as often as allowed is a failure: nobody has to look.
	read := d.allowed("reads", "read", says(http.StatusBadGateway, ""), func(tool *client.Tool) { tool.MaxAttempts = 1 })
	if call := d.runIs(d.start("read", "reads")[0].ID, "failed"); len(read.ran()) != 1 || call.State != "output-error" {
		t.Errorf("a read: %s", call.Raw)
	}
}

func refusedConnection(t *testing.T, d *deployment) {
	address := freeAddress(t)
	d.allow("asleep", "unsafe", "http://"+address)
	call := d.start("refused", "asleep")[0]
	testcluster.Eventually(t, "the worker has tried to connect", func(context.Context) error {
		if !strings.Contains(d.Workers[0].Log.Tail(1<<20), `"call":"`+call.ID+`"`) {
			return errors.New("it has not")
		}
		return nil
	})
	if c, err := d.Node(0).Call(t.Context(), call.ID); err != nil || c.Run != "queued" || len(c.Attempts) != 0 {
		t.Fatalf("before anything could be sent: %s, %v", c.Raw, err)
	}
	listener, err := net.Listen("tcp", address)
	must(t, err)
	ran := make(chan struct{}, 8)
	awake := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran <- struct{}{}
		fmt.Fprint(w, `"done"`)
	}))
	_ = awake.Listener.Close()
	awake.Listener = listener
	awake.Start()
	t.Cleanup(awake.Close)
	if c := d.runIs(call.ID, "succeeded"); len(c.Attempts) != 1 || len(ran) != 1 {
		t.Errorf("it ran %d times: %s", len(ran), c.Raw)
	}
}

func definiteNo(t *testing.T, d *deployment) {
	tool := d.allowed("refuses", "idempotent", says(http.StatusConflict, "it is locked"))
	call := d.runIs(d.start("no", "refuses")[0].ID, "failed")
	if _, text := d.output("no"); text != "it is locked" || len(tool.ran()) != 1 || len(call.Attempts) != 1 {
		t.Errorf("%q: %s", text, call.Raw)
	}
}

// I5, I6: a hint is only a hint. Forged ones, published straight to NATS, run
// nothing that the rows do not allow.
func TestI6ForgedHintsRunNothing(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	tool := newToolServer(t, says(http.StatusOK, `1`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", client.Tool{HTTP: &client.HTTPTool{URL: tool.URL}})))
	asked, denied, stopped := d.start("asked", "delete_file")[0], d.start("denied", "delete_file")[0], d.start("stopped", "delete_file")[0]
	must(t, second(d.As(0, "user:bob").Decide(t.Context(), denied.ApprovalID, client.Decision{Approved: false})))
	must(t, second(d.Node(0).Cancel(t.Context(), "stopped", "")))

	js := d.jetstream()
	forge := func(tenant, body string) {
		must(t, second(js.Publish(t.Context(), "countersign.runs."+tenant, []byte(body))))
	}
	for _, call := range []string{asked.ID, denied.ID, stopped.ID, "01890a5d-ac96-774b-bcce-b302099a8057"} {
		for fence := range 3 {
			forge("default", fmt.Sprintf(`{"tenant":"default","call":%q,"fence":%d,"publish":0}`, call, fence))
		}
	}
	forge("other", fmt.Sprintf(`{"tenant":"other","call":%q,"fence":0,"publish":0}`, asked.ID))
	forge("default", `{"tenant":"other","call":`)
	forge("default", `{"tenant":"default","call":"x","fence":0,"publish":0,"approved":true}`)
	testcluster.Eventually(t, "every hint is done with", func(ctx context.Context) error { return hintsAreDone(ctx, js) })

	if ran := tool.ran(); len(ran) != 0 {
		t.Fatalf("it ran: %+v", ran)
	}
	for _, c := range []client.TurnCall{asked, denied, stopped} {
		now, err := d.Node(0).Call(t.Context(), c.ID)
		if err != nil || now.Run == "started" || len(now.Attempts) != 0 {
			t.Errorf("%v: %s", err, now.Raw)
		}
	}
	// The worker is well, and runs what is approved.
	must(t, second(d.As(0, "user:bob").Decide(t.Context(), asked.ApprovalID, client.Decision{Approved: true})))
	d.runIs(asked.ID, "succeeded")
}
