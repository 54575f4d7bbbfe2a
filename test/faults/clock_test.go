package faults

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/test/nemesis/proxy"
)

// clock is the time that one Postgres goes by, and nothing else here does: so
// when it leaps, every node's clock has leapt as well, the other way.
type clock struct {
	t    *testing.T
	path string
}

// leaps sets it to a distance from the true time, such as "-1h" or "+2d".
func (c clock) leaps(distance string) {
	c.t.Helper()
	next := c.path + ".next" // it is read at every look, never half
	must(c.t, os.WriteFile(next, []byte(distance+"\n"), 0o644))
	must(c.t, os.Rename(next, c.path))
}

// onClock is a deployment, without a service yet, on a Postgres with a clock.
func onClock(t *testing.T, distance string) (*testcluster.Deployment, clock) {
	t.Helper()
	libraries, _ := filepath.Glob("/usr/lib*/*/faketime/libfaketime.so.1")
	more, _ := filepath.Glob("/usr/lib*/faketime/libfaketime.so.1")
	if libraries = append(libraries, more...); len(libraries) == 0 {
		t.Fatal("libfaketime is missing; on Debian and Ubuntu this brings it: scripts/setup.sh faketime")
	}
	c := clock{t, filepath.Join(testservers.Dir(t), "clock")}
	c.leaps(distance)
	ctx, cancel := context.WithTimeout(t.Context(), 2*testcluster.Deadline)
	defer cancel()
	postgres, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{Dir: testservers.Dir(t), Env: []string{
		"LD_PRELOAD=" + libraries[0], "FAKETIME_TIMESTAMP_FILE=" + c.path, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}})
	must(t, err)
	t.Cleanup(func() { must(t, postgres.Close()) })
	must(t, store.Migrate(ctx, postgres.URL()))
	return testcluster.On(t, postgres.URL()), c
}

// The clocks of Postgres and of the nodes are an hour apart, leap forth by an
// hour and back by a day, while calls are prepared, run and asked about (54).
// Postgres's alone decides. A leap forth ends leases and cards early, which
// runs nothing twice; a leap back ends them late; what had ended stays so.
func TestFault54ClocksLeap(t *testing.T) {
	t.Parallel()
	d, clock := onClock(t, "-1h")
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
	s := opens(d)
	s.sells("pay", "keyed")
	s.sells("mail", "unsafe")
	_, err := d.Node(0).PutTool(t.Context(), "ask", client.Tool{HTTP: &client.HTTPTool{URL: s.url + "/ask"}})
	must(t, err)
	card := s.asks("card", "30m")
	s.isTriedAgain()

	keyed := s.order("keyed", "pay", `{"behave":"late,answer","delay":"3s"}`).ID
	once := s.order("once", "mail", `{"behave":"late","delay":"3s"}`).ID
	s.took(keyed, 1)
	s.took(once, 1)
	clock.leaps("+0")
	s.didOnce(once, s.runIs(once, "succeeded"))
	s.runIs(keyed, "succeeded")
	s.took(keyed, 1)
	s.isExpired(card)

	back := s.order("back", "mail", `{"behave":"late","delay":"2s"}`).ID
	s.took(back, 1)
	clock.leaps("-1d")
	s.didOnce(back, s.runIs(back, "succeeded"))
	s.isExpired(card)
	again := s.asks("again", "30m")
	_, err = d.As(0, "user:bob").Decide(t.Context(), again.ApprovalID, client.Decision{Approved: true})
	must(t, err)
	s.runIs(again.ID, "succeeded")

	// The lease of a worker that died outlasts it by as much as the clock went
	// back, and no longer.
	clock.leaps("+0")
	dead := s.order("dead", "mail", behaving("hang-after-effect")).ID
	s.took(dead, 1)
	clock.leaps("-1d")
	d.Workers[0].Kill()
	d.StartWorker(1)
	d.Workers[1].Ready()
	s.runIs(s.order("next", "mail", `{}`).ID, "succeeded")
	s.runIs(dead, "started")
	clock.leaps("+0")
	s.didOnce(dead, s.runIs(dead, "outcome-unknown"))
}

// asks registers a call that somebody has to approve within a time.
func (s *shop) asks(topic, within string) client.TurnCall {
	s.T.Helper()
	out, err := s.Node(0).RegisterTurn(s.T.Context(), topic, client.TurnRequest{MessageID: "m", ExpiresIn: within,
		Parts: []client.Part{client.ToolPart("ask", "c", []byte(`{}`))}})
	must(s.T, err)
	return out.Turn.Calls[0]
}

// isTriedAgain shows that a call whose tool is away waits for it, though by
// its node's clock it was queued long ago.
func (s *shop) isTriedAgain() {
	s.T.Helper()
	network, url := through(s.T, s.url)
	breaks(s.T, network, proxy.Faults{Refuse: true})
	s.sells("away", "unsafe", func(tool *client.Tool) { tool.HTTP.URL = url })
	call := s.order("away", "away", `{}`).ID
	testcluster.Eventually(s.T, "the worker cannot reach the tool", func(context.Context) error {
		if !s.Workers[0].Log.Contains(`"call":"` + call + `"`) {
			return errors.New("it has not tried")
		}
		return nil
	})
	must(s.T, network.Heal())
	s.didOnce(call, s.runIs(call, "succeeded"))
}

func (s *shop) didOnce(id string, call client.Call) {
	s.T.Helper()
	if len(call.Attempts) != 1 || len(s.requests(id)) != 1 || len(s.effects(id)) != 1 {
		s.T.Errorf("it ran %d times: %s", len(s.requests(id)), call.Raw)
	}
}

// isExpired shows that a card is closed, and that its call does not run (I6).
func (s *shop) isExpired(call client.TurnCall) {
	s.T.Helper()
	_, err := s.As(0, "user:bob").Decide(s.T.Context(), call.ApprovalID, client.Decision{Approved: true})
	if problem, is := errors.AsType[*client.Problem](err); !is || problem.Status != http.StatusGone {
		s.T.Errorf("deciding after the deadline: %v", err)
	}
	if got := s.requests(call.ID); len(got) != 0 {
		s.T.Errorf("it ran: %+v", got)
	}
}
