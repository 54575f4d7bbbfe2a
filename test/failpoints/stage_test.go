package failpoints

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

const (
	// lease is the workers': short, and still long beside what a busy machine
	// takes for a renewal.
	lease = 3 * time.Second
	// stopped is how long a process that a point stopped stays so.
	stopped = lease + time.Second
)

// stage is a deployment that many cells use, one after the other: servers,
// two of each service, tools, and a chat backend.
type stage struct {
	*testcluster.Deployment
	ledger  *ledger
	backend *httptest.Server
	key     string // of chats

	mu    sync.Mutex
	units map[string]*unit // by topic
}

func newStage(t *testing.T) *stage {
	t.Helper()
	d := testcluster.Servers(t, tag)
	d.Env = append(d.Env, "COUNTERSIGN_API_MAX_CONNS=4", "COUNTERSIGN_API_SWEEP_INTERVAL=500ms", "COUNTERSIGN_API_DRAIN=0s")
	provider := newProvider(t)
	for i := range 2 {
		d.StartAPI(i)
		d.StartWorker(i, append(provider, "COUNTERSIGN_WORKER_LEASE="+lease.String())...)
		d.StartContinuer(i)
	}
	d.Ready()
	s := &stage{Deployment: d, ledger: newLedger(t), units: map[string]*unit{}}
	s.backend = httptest.NewServer(http.HandlerFunc(s.receive))
	t.Cleanup(s.backend.Close)
	s.tools(t)
	s.key = s.chatKey(t)
	return s
}

// tools defines the tools, each asked about, since nobody may say otherwise.
func (s *stage) tools(t *testing.T) {
	t.Helper()
	for name, tool := range map[string]client.Tool{
		"unsafe": {Effect: "unsafe"}, "keyed": {Effect: "keyed", KeyRetention: "24h"},
		"slow": {Effect: "unsafe"}, "broken": {Effect: "unsafe"}, "caller": {Effect: "idempotent", Executor: "caller"},
	} {
		if tool.Executor == "" {
			tool.HTTP = &client.HTTPTool{Method: "POST", URL: s.ledger.URL + "/" + name}
		}
		tool.Timeout = "20s"
		_, err := s.Node(0).PutTool(t.Context(), name, tool)
		must(t, err)
	}
}

// workspace is the command of an example of an MCP server.
func (s *stage) workspace(root string) []string {
	return []string{filepath.Join(s.Programs, "workspace"), "--root", root}
}

// event is what a webhook gets.
type event struct {
	Type string `json:"type"`
	Data struct {
		ContinuationID string `json:"continuationId"`
		Topic          string `json:"topic"`
		MessageID      string `json:"messageId"`
		CallID         string `json:"callId"`
	} `json:"data"`
}

// receive is the backend's webhook. It answers first and works then, as the
// unit whose topic it is says.
func (s *stage) receive(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var e event
	if json.Unmarshal(body, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(s.hand(e))
}

// hand gives an event to its unit. Deliveries may come twice; whatever the
// backend does for one may be done again.
func (s *stage) hand(e event) (status int) {
	u := s.unit(e.Data.Topic)
	if u == nil {
		return http.StatusGone
	}
	if !u.hears() {
		return http.StatusInternalServerError
	}
	go func() {
		act := u.flow.goOn
		if e.Type == "call.ready" {
			act = u.flow.own
		}
		if err := act(u, e); err != nil && u.ctx.Err() == nil {
			u.fail(err)
		}
	}()
	return http.StatusNoContent
}

func (s *stage) unit(topic string) *unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.units[topic]
}

// every is what this stage has seen, in no order.
func (s *stage) every() []*unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*unit
	for _, u := range s.units {
		all = append(all, u)
	}
	return all
}

// change lets time pass in the rows.
func (s *stage) change(ctx context.Context, statement string, args ...any) error {
	_, err := s.Rows().ExecContext(ctx, statement, args...)
	return err
}
