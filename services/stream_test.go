package services

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// writer is a chat backend that streams its model's chunks into a live turn.
type writer struct {
	*client.TurnStream
	t     *testing.T
	lines chan string // what Countersign answers
}

// live opens a turn live.
func (d *deployment) live(node int, topic string, open client.OpenRequest) client.OpenAnswer {
	d.T.Helper()
	out, err := d.Node(node).OpenTurn(d.T.Context(), topic, open)
	must(d.T, err)
	return out
}

// stream begins the stream of a live turn.
func (d *deployment) stream(node int, topic string, open client.OpenAnswer) *writer {
	d.T.Helper()
	s, err := d.Node(node).StreamTurn(d.T.Context(), topic, open)
	if err != nil {
		row, _ := testcluster.One[string](d.T.Context(), d.Deployment,
			`select format('fence %s until %s, now %s', live_fence, live_until, clock_timestamp()) from turns where turn_id = $1`, open.Turn.ID)
		d.T.Fatalf("begin with fence %d: %v; the row has %s", open.Fence, err, row)
	}
	d.T.Cleanup(func() { _ = s.Close() })
	w := &writer{s, d.T, make(chan string, 100)}
	go func() {
		defer close(w.lines)
		for {
			chunk, err := s.Next()
			if err != nil {
				return
			}
			w.lines <- string(chunk)
		}
	}()
	return w
}

func (w *writer) say(lines ...string) {
	w.t.Helper()
	for _, l := range lines {
		must(w.t, w.Send(json.RawMessage(l)))
	}
}

// pass hands lines over until there are no more.
func pass(from io.Reader, to chan<- string) {
	defer close(to)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text := strings.TrimPrefix(lines.Text(), "data: "); text != "" && !strings.HasPrefix(text, ":") {
			to <- text
		}
	}
}

// chunk waits for the next line, which must be a chunk of that type.
func chunk(t *testing.T, lines <-chan string, kind string) (c map[string]any) {
	t.Helper()
	select {
	case text, more := <-lines:
		if !more {
			t.Fatalf("the stream ended; want %s", kind)
		}
		if text == kind {
			return nil
		}
		if json.Unmarshal([]byte(text), &c) != nil || c["type"] != kind {
			t.Fatalf("%s; want %s", text, kind)
		}
	case <-t.Context().Done():
		t.Fatalf("no chunk came; want %s", kind)
	}
	return c
}

// window opens a window's stream as the AI SDK's client does; nil when
// nothing is active.
func (d *deployment) window(ctx context.Context, node int, topic, sdk string) <-chan string {
	d.T.Helper()
	response := d.resume(ctx, node, topic, sdk)
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	lines := make(chan string, 100)
	go pass(response.Body, lines)
	return lines
}

// resume asks for the stream of what is active.
func (d *deployment) resume(ctx context.Context, node int, topic, sdk string) *http.Response {
	d.T.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.API[node].URL+"/api/chat/"+topic+"/stream?sdk="+sdk, nil)
	must(d.T, err)
	request.Header.Set("Authorization", "Bearer "+d.Key)
	response, err := http.DefaultClient.Do(request)
	must(d.T, err)
	d.T.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent {
		problem, _ := io.ReadAll(response.Body)
		d.T.Fatalf("open a window: %d %s", response.StatusCode, problem)
	}
	return response
}

// One conversation, streamed in on one node and seen on another: a call is
// committed before any window is shown it (I7), the stream ends where people
// are asked, and the answer that follows comes to the windows as it is made.
func TestI7AStreamOverTwoNodes(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))

	turn := d.live(0, "chat", client.OpenRequest{MessageID: "m"})
	w := d.stream(0, "chat", turn)
	early := d.window(t.Context(), 1, "chat", "6")
	chunk(t, early, "start")
	w.say(`{"type":"start","messageId":"m"}`, `{"type":"start-step"}`, `{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Hel"}`)
	for _, kind := range []string{"start-step", "text-start", "text-delta"} {
		chunk(t, early, kind)
	}
	late := d.window(t.Context(), 1, "chat", "6") // it is told all of it
	for _, kind := range []string{"start", "start-step", "text-start", "text-delta"} {
		chunk(t, late, kind)
	}
	w.say(`{"type":"text-delta","id":"t","delta":"lo"}`, `{"type":"text-end","id":"t"}`,
		`{"type":"tool-input-start","toolCallId":"c","toolName":"delete_file"}`,
		`{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{\"path\":\"x\"}"}`,
		`{"type":"tool-input-available","toolCallId":"c","toolName":"delete_file","input":{"path":"x"}}`)
	chunk(t, w.lines, "tool-input-available")
	asked := chunk(t, w.lines, "tool-approval-request")
	for _, window := range []<-chan string{early, late} {
		for _, kind := range []string{"text-delta", "text-end", "tool-input-start", "tool-input-delta", "tool-input-available"} {
			chunk(t, window, kind)
		}
		if seen := chunk(t, window, "tool-approval-request"); seen["approvalId"] != asked["approvalId"] {
			t.Errorf("the card: %v, want %v", seen, asked)
		}
	}
	must(t, second(d.As(1, "user:bob").Decide(t.Context(), asked["approvalId"].(string), client.Decision{Approved: true})))
	w.say(`{"type":"finish-step"}`, `{"type":"finish","finishReason":"tool-calls"}`)

	// The stream goes on over the run and into the turn that answers it.
	for _, window := range []<-chan string{early, late} {
		if out := chunk(t, window, "tool-output-available"); out["output"] != "gone" {
			t.Errorf("output: %v", out)
		}
	}
	next := d.live(1, "chat", client.OpenRequest{Continues: turn.Turn.ID})
	again := d.stream(1, "chat", next)
	again.say(`{"type":"text-start","id":"1"}`, `{"type":"text-delta","id":"1","delta":"Done."}`, `{"type":"text-end","id":"1"}`, `{"type":"finish"}`)
	for _, window := range []<-chan string{early, late} {
		for _, kind := range []string{"finish-step", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish", "[DONE]"} {
			chunk(t, window, kind)
		}
	}
	if d.window(t.Context(), 0, "chat", "6") != nil {
		t.Error("a stream is open though nothing is active")
	}
	d.status("chat", "done")
	if ran := tool.ran(); len(ran) != 1 {
		t.Errorf("the tool ran %d times", len(ran))
	}
	testcluster.Eventually(t, "both nodes' windows have one message of two steps", func(ctx context.Context) error {
		page, err := d.Node(1).Messages(ctx, "chat", client.Paging{})
		if err == nil && (len(page.Items) != 1 || len(page.Items[0].Parts) != 5) {
			err = fmt.Errorf("messages: %+v", page.Items)
		}
		return err
	})
}

// What cannot be taken is refused with its reason and nothing written; the
// turn stays live, and its writer begins anew.
func TestRefusedChunksWriteNothing(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.Ready()
	turn := d.live(0, "chat", client.OpenRequest{MessageID: "m"})
	for line, want := range map[string]string{
		`{"type":"start-step"}{`:                                                                           "follows the JSON value",
		`{"type":"nope"}`:                                                                                  "no chunk of that type",
		`{"type":"start","messageId":"another"}`:                                                           "messageId",
		`{"type":"text-delta","id":"t","delta":"x"}`:                                                       "no text of that id",
		`{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}`:                               "only Countersign",
		`{"type":"tool-output-available","toolCallId":"c","output":{"forged":true}}`:                       "no such call",
		`{"type":"tool-input-available","toolCallId":"c","toolName":"x","input":{"__proto__":{}}}`:         "__proto__",
		`{"type":"tool-input-available","toolCallId":"c d\u0000","toolName":"x","input":{}}`:               "toolCallId",
		`{"type":"tool-input-available","toolCallId":"c","toolName":"x","input":{bad}}`:                    "invalid character",
		`{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{"}`:                                "no tool-input-start",
		`{"type":"start-step"}`:                                                                            "one step",
		`{"type":"reset-step"}`:                                                                            "only Countersign",
		`{"type":"tool-approval-response","approvalId":"a","approved":true}`:                               "only Countersign",
		`{"type":"tool-output-denied","toolCallId":"c"}`:                                                   "only Countersign",
		`{"type":"message-metadata","messageMetadata":{"__proto__":{}}}`:                                   "__proto__",
		`{"type":"data-countersign-note","data":{}}`:                                                       "keeps for itself",
		`{"type":"tool-input-available","toolCallId":"c","toolName":"x","input":{"a":1,"a":2}}`:            "twice",
		`{"type":"tool-input-available","toolCallId":"c","toolName":"x","input":` + "\"\xff\"" + `}`:       "UTF-8",
		`{"type":"text-start","id":"t","providerMetadata":{"p":{"__proto__":{}}}}`:                         "__proto__",
		`{"type":"text-start","id":"t","providerMetadata":5}`:                                              "providerMetadata",
		`{"type":"file","url":"","mediaType":"image/png"}`:                                                 "/parts/1/url",
		`{"type":"custom","kind":"a.b"}`:                                                                   "both versions",
		`{"type":"tool-input-available","toolCallId":"c","toolName":"","input":1,"providerExecuted":true}`: "/parts/1/type",
	} {
		w := d.stream(0, "chat", turn)
		w.say(`{"type":"start-step"}`, line)
		refused := chunk(t, w.lines, "error")
		if text, _ := refused["errorText"].(string); !strings.Contains(text, want) {
			t.Errorf("%s: %q, want it to say %s", line, text, want)
		}
		if _, more := <-w.lines; more {
			t.Errorf("%s: the answer goes on", line)
		}
		turn.Fence = w.Fence
	}
	if n, err := testcluster.One[int](t.Context(), d.Deployment, `select count(*) from calls`); err != nil || n != 0 {
		t.Errorf("%d calls were written, %v", n, err)
	}
	stale := turn
	stale.Fence--
	if _, err := d.Node(0).StreamTurn(t.Context(), "chat", stale); !client.Is(err, "fence-lost") {
		t.Errorf("an old fence: %v", err)
	}
	if d.API[0].Log.Contains("panic") {
		t.Errorf("the api panicked:\n%s", d.API[0].Log.Tail(20))
	}
	w := d.stream(0, "chat", turn)
	w.say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"At last."}`, `{"type":"text-end","id":"t"}`, `{"type":"finish"}`)
	if line, more := <-w.lines; more {
		t.Errorf("the end was answered: %s", line)
	}
	d.status("chat", "done")
}

// A step has at most 64 calls, each under an id of its own: those before one
// that is refused stand, and nothing of that one is written.
func TestAStreamOfTooManyCalls(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.Ready()
	refused := func(topic string, ids ...int) (why string) {
		w := d.stream(0, topic, d.live(0, topic, client.OpenRequest{MessageID: "m"}))
		go func() {
			for _, i := range ids {
				if w.Send(json.RawMessage(fmt.Sprintf(`{"type":"tool-input-available","toolCallId":"c%d","toolName":"x","input":{}}`, i))) != nil {
					return // nobody reads any more
				}
			}
		}()
		for line := range w.lines {
			if kindOf(line) == "error" {
				why = line
			}
		}
		return why
	}
	var many []int
	for i := range 65 {
		many = append(many, i)
	}
	for i, test := range []struct {
		ids  []int
		want string
		rows int
	}{{many, "more than 64 calls", 64}, {[]int{0, 1, 0}, "used twice", 2}} {
		topic := fmt.Sprint("chat-", i)
		if said := refused(topic, test.ids...); !strings.Contains(said, test.want) {
			t.Errorf("%q, want it to say %s", said, test.want)
		}
		if n, err := testcluster.One[int](t.Context(), d.Deployment, `select count(*) from calls where topic_id = $1`, topic); err != nil || n != test.rows {
			t.Errorf("%d calls were written, want %d (%v)", n, test.rows, err)
		}
	}
}

// The node that takes a stream in dies. Its turn made no call, so what it said
// does not count: windows that can forget it are told to, the others are cut
// off and resume; and whoever answers next is seen in all of them.
func TestAStreamsNodeDies(t *testing.T) {
	t.Parallel()
	d := servers(t)
	for i := range 2 {
		d.StartAPI(i)
	}
	d.StartContinuer(0)
	d.Ready()
	asked := d.settled("chat", client.Sink{Type: "none"})
	live := d.live(0, "chat", client.OpenRequest{Continues: asked.ID})
	w := d.stream(0, "chat", live)
	v7, v6 := d.window(t.Context(), 1, "chat", "7"), d.window(t.Context(), 1, "chat", "6")
	w.say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Lost"}`)
	for _, window := range []<-chan string{v7, v6} {
		for _, kind := range []string{"start", "start-step", "tool-input-available", "tool-output-error", "finish-step", "start-step", "text-start", "text-delta"} {
			chunk(t, window, kind)
		}
	}
	d.API[0].Kill()
	d.Change(`update turns set live_until = clock_timestamp() where turn_id = $1`, live.Turn.ID)
	chunk(t, v7, "reset-step")
	if line, more := <-v6; more {
		t.Errorf("a client that cannot forget is told more: %s", line)
	}
	again := d.live(1, "chat", client.OpenRequest{Continues: asked.ID})
	next := d.stream(1, "chat", again)
	v6 = d.window(t.Context(), 1, "chat", "6")
	next.say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Found."}`, `{"type":"text-end","id":"t"}`, `{"type":"finish"}`)
	for _, kind := range []string{"start", "start-step", "tool-input-available", "tool-output-error", "finish-step"} {
		chunk(t, v6, kind)
	}
	for _, window := range []<-chan string{v7, v6} {
		for _, kind := range []string{"start-step", "text-start", "text-delta", "text-end", "finish-step", "finish", "[DONE]"} {
			chunk(t, window, kind)
		}
	}
}

// A stream breaks off, and its writer begins anew in the same turn. What the
// first one said does not count: no window goes on as if it did.
func TestAStreamIsBegunAnew(t *testing.T) {
	t.Parallel()
	d := servers(t)
	for i := range 2 {
		d.StartAPI(i)
	}
	d.Ready()
	turn := d.live(0, "chat", client.OpenRequest{MessageID: "m"})
	first := d.stream(0, "chat", turn)
	v7, v6 := d.window(t.Context(), 1, "chat", "7"), d.window(t.Context(), 1, "chat", "6")
	first.say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Half"}`)
	for _, window := range []<-chan string{v7, v6} {
		for _, kind := range []string{"start", "start-step", "text-start", "text-delta"} {
			chunk(t, window, kind)
		}
	}
	must(t, first.Close())
	turn.Fence = first.Fence
	second := d.stream(1, "chat", turn)
	second.say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Whole."}`, `{"type":"text-end","id":"t"}`)
	for _, kind := range []string{"reset-step", "start-step", "text-start", "text-delta", "text-end"} {
		chunk(t, v7, kind)
	}
	second.say(`{"type":"finish","finishReason":"length"}`)
	chunk(t, v7, "finish-step")
	if end := chunk(t, v7, "finish"); end["finishReason"] != "length" {
		t.Errorf("the end: %v", end)
	}
	if line, more := <-v6; more {
		t.Errorf("a client that cannot forget is told more: %s", line)
	}
	page, err := d.Node(0).Messages(t.Context(), "chat", client.Paging{})
	if err != nil || len(page.Items) != 1 || len(page.Items[0].Parts) != 2 || !strings.Contains(string(page.Items[0].Parts[1]), "Whole.") {
		t.Errorf("messages: %+v, %v", page.Items, err)
	}
	for i := range 2 {
		if d.API[i].Log.Contains("panic") {
			t.Errorf("an api node panicked:\n%s", d.API[i].Log.Tail(20))
		}
	}
}

// I9: another tenant's live turn takes no chunk, and its stream shows none.
func TestI9AnotherTenantsStream(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.Ready()
	turn := d.live(0, "chat", client.OpenRequest{MessageID: "m"})
	d.stream(0, "chat", turn).say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Secret"}`)
	must(t, d.Store.EnsureTenant(t.Context(), "other"))
	stranger := *d.Deployment
	stranger.Key = store.NewKey()
	row := store.KeyRow{Name: "other", Roles: []model.Role{model.RoleBackend, model.RoleViewer}}
	must(t, second(d.Store.PutKey(t.Context(), "other", row, stranger.Key, "test", "test")))
	other := &deployment{&stranger}
	if _, err := other.Node(0).StreamTurn(t.Context(), "chat", turn); !client.Is(err, "not-found") {
		t.Errorf("another tenant's stream begins: %v", err)
	}
	if other.window(t.Context(), 0, "chat", "6") != nil {
		t.Error("another tenant's window is open")
	}
}
