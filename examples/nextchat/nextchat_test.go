package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

func TestMain(m *testing.M) { testservers.Main(m) }

const topic = "spring clean"

// stage is two api nodes, the page, and a tool.
type stage struct {
	*testcluster.Deployment
	t    *testing.T
	url  string
	key  string
	runs *atomic.Int32 // of the tool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dist := build(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &stage{Deployment: testcluster.Servers(t), t: t, url: "http://" + listener.Addr().String(), key: store.NewKey(), runs: new(atomic.Int32)}
	for i := range 2 {
		s.StartAPI(i, "COUNTERSIGN_ALLOW_ORIGINS="+s.url)
	}
	s.StartWorker(0)
	s.StartContinuer(0)
	s.Ready()
	_, err = s.Store.PutKey(t.Context(), "default", store.KeyRow{Name: "web", Roles: []model.Role{model.RoleBackend}, TokensDecide: true}, s.key, "test", "test")
	must(t, err)
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.runs.Add(1)
		_, _ = w.Write([]byte(`{"deleted":true}`))
	}))
	t.Cleanup(tool.Close)
	_, err = s.Node(1).PutTool(t.Context(), "delete_file", client.Tool{
		Description: "Deletes a file of the workspace, for good.", Effect: "unsafe", HTTP: &client.HTTPTool{Method: "POST", URL: tool.URL}})
	must(t, err)
	page := &http.Server{Handler: newPage([]string{s.API[0].URL, s.API[1].URL}, s.key, dist, slog.New(slog.DiscardHandler))}
	go func() { _ = page.Serve(listener) }()
	t.Cleanup(func() { _ = page.Close() })
	return s
}

// model is a turn that the chat backend of this test streams, as far as it is
// told to.
type modelTurn struct {
	t      *testing.T
	stream *client.TurnStream
	ended  chan error
}

// accept waits for a continuation of the topic and opens the turn that it
// asks for.
func (s *stage) accept() *modelTurn {
	s.t.Helper()
	api := client.New(s.API[1].URL, s.key)
	var open client.Page[client.Continuation]
	for len(open.Items) == 0 {
		var err error
		open, err = api.Continuations(s.t.Context(), client.ContinuationFilter{State: "ready", Topic: topic}, client.Wait(10*time.Second))
		must(s.t, err)
	}
	turn, err := api.OpenTurn(s.t.Context(), topic, client.OpenRequest{Continues: open.Items[0].Turn, RequestedBy: "user:alice"})
	must(s.t, err)
	stream, err := api.StreamTurn(s.t.Context(), topic, turn)
	must(s.t, err)
	m := &modelTurn{s.t, stream, make(chan error, 1)}
	s.t.Cleanup(func() { _ = stream.Close() })
	go func() {
		for {
			if _, err := stream.Next(); err != nil {
				m.ended <- err
				return
			}
		}
	}()
	m.send(`{"type":"start-step"}`, `{"type":"text-start","id":"t"}`)
	return m
}

func (m *modelTurn) send(chunks ...string) {
	m.t.Helper()
	for _, chunk := range chunks {
		must(m.t, m.stream.Send(json.RawMessage(chunk)))
	}
}

func (m *modelTurn) say(words string) {
	m.t.Helper()
	text, err := json.Marshal(words)
	must(m.t, err)
	m.send(`{"type":"text-delta","id":"t","delta":` + string(text) + `}`)
}

// end ends the turn, and waits until it is committed.
func (m *modelTurn) end(reason string) {
	m.t.Helper()
	m.send(`{"type":"finish-step"}`, `{"type":"finish","finishReason":"`+reason+`"}`)
	select {
	case <-m.ended:
	case <-m.t.Context().Done():
	}
}

// calls proposes to delete files, and ends the turn.
func (m *modelTurn) calls(paths ...string) {
	m.t.Helper()
	m.send(`{"type":"text-end","id":"t"}`)
	for _, path := range paths {
		m.send(`{"type":"tool-input-available","toolCallId":"` + path + `","toolName":"delete_file","input":{"path":"` + path + `"}}`)
	}
	m.end("tool-calls")
}

// Two people, two windows, two nodes: what one asks is in both windows, and
// so is the card. One of them decides, and the answer streams into both, once,
// though one window is loaded anew in the middle of it and the other one's
// node is killed. The conversation goes on without that node.
func TestTwoWindowsOnTwoNodes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := newBrowser(t)
	alice := b.open("alice", s.url+"/?chat=spring+clean&as=alice&node=0")
	bob := b.open("bob", s.url+"/?chat=spring+clean&as=bob&node=1")

	s.aCardIsInBothWindows(alice, bob)
	s.theAnswerIsInBothWindows(alice, bob)
	if n := s.runs.Load(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
	s.everyAnswerCounts(alice, bob)
	if n := s.runs.Load(); n != 2 {
		t.Errorf("the tool ran %d times", n)
	}
	if ours, theirs := alice.read("main"), bob.read("main"); ours != theirs || strings.Count(ours, "Done:") != 1 || strings.Count(ours, "is the oldest") != 1 {
		t.Errorf("alice sees\n%s\nand bob\n%s", ours, theirs)
	}
	by, err := testcluster.One[string](t.Context(), s.Deployment, `select string_agg(actor, ', ' order by at) from audit where action in ('approval.approved', 'approval.denied')`)
	if must(t, err); by != "user:bob by key:web, user:alice by key:web, user:bob by key:web" {
		t.Errorf("decided by %s", by)
	}
}

func (s *stage) aCardIsInBothWindows(alice, bob window) {
	alice.write("Please clean up the old logs.")
	m := s.accept()
	m.say("logs/2024-11.log is the oldest. ")
	for _, w := range []window{alice, bob} {
		w.sees("article.user", "Please clean up the old logs.")
		w.sees("article.assistant .text", "is the oldest.")
	}
	m.say("I delete it, if you agree.")
	m.calls("logs/2024-11.log")
	for _, w := range []window{alice, bob} {
		w.sees(exactInput, `"path": "logs/2024-11.log"`)
		w.sees(".call.wait .facts", "asked for alice · cannot be taken back")
		w.shot("1-card")
	}
	alice.do(command{Do: "reload"})
	alice.sees(exactInput, `"path": "logs/2024-11.log"`)
}

// exactInput shows an input as the api gave it, byte by byte.
const exactInput = `.call.wait pre[data-exact="true"]`

func (s *stage) theAnswerIsInBothWindows(alice, bob window) {
	bob.fill(`.call.wait input[aria-label="Reason"]`, "it is from last year")
	bob.click(".call.wait button.yes")
	m := s.accept() // the tool has run
	m.say("Done: ")
	for _, w := range []window{alice, bob} {
		w.sees(".call.good .verdict", "Approved: it is from last year")
		w.sees("article.assistant .text", "Done:")
		w.shot("2-answering")
	}
	must(s.t, s.API[0].Stop(syscall.SIGKILL)) // alice's
	bob.do(command{Do: "reload"})
	m.say("the oldest log is deleted.")
	for _, w := range []window{alice, bob} {
		w.sees("article.assistant .text", "Done: the oldest log is deleted.")
	}
	m.send(`{"type":"text-end","id":"t"}`)
	m.end("stop")
	for _, w := range []window{alice, bob} {
		w.sees(".status.good", "ready")
		w.shot("3-done")
	}
}

// everyAnswerCounts has two people answer the two cards of one step, each in
// their own window.
func (s *stage) everyAnswerCounts(alice, bob window) {
	alice.write("And the two after it?")
	m := s.accept()
	m.say("I delete both, if you agree.")
	m.calls("logs/2024-12.log", "logs/2025-01.log")
	first, second := `.call:has(pre:text("2024-12")) `, `.call:has(pre:text("2025-01")) `
	for _, w := range []window{alice, bob} {
		w.sees(first+"button.yes", "Approve")
		w.sees(second+"button.yes", "Approve")
	}
	alice.click(first + "button.yes")
	bob.sees(first+".state", "approved")
	bob.fill(second+`input[aria-label="Reason"]`, "it is needed")
	bob.click(second + "button.not")
	m = s.accept()
	m.say("One is deleted, one is kept.")
	m.send(`{"type":"text-end","id":"t"}`)
	m.end("stop")
	for _, w := range []window{alice, bob} {
		w.sees(".call.no .verdict", "Not approved: it is needed")
		w.sees("article.assistant .text", "One is deleted, one is kept.")
		w.sees(".status.good", "ready")
		w.shot("4-two-cards")
	}
}
