package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/proxy"
)

// Two api nodes, of which the first has a network of its own to Postgres.
func TestFaultsOfAPINodes(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	network, url := through(t, d.Database)
	d.StartAPI(0, "COUNTERSIGN_DATABASE_URL="+url)
	d.StartAPI(1)
	d.Ready()
	s := opens(d)
	_, err := d.Node(1).PutTool(t.Context(), "ask", client.Tool{Executor: "caller"})
	must(t, err)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *shop)
	}{
		{"Fault4TheClientLeavesDuringTheCommit", clientLeaves},
		{"Fault27SignalsAreForgedReorderedAndRepeated", signalsLie},
		{"Fault52TheAnswerOfACommitIsLost", func(t *testing.T, s *shop) { commitIsLost(t, s, network) }},
		{"Fault52ANodeIsPartedFromPostgres", func(t *testing.T, s *shop) { partedFromPostgres(t, s, network) }},
	} {
		t.Run(test.name, func(t *testing.T) { // one after the other: each has the network to itself
			own := *s
			own.Deployment = d.In(t)
			test.run(t, &own)
		})
	}
}

// impatient is a client of an address that tries once.
func (s *shop) impatient(address string) *client.Client {
	return client.New(address, s.Key, client.WithActor("user:bob"), client.WithTries(1))
}

// verdict is a decision under an id of the client's own.
func verdict(id string) client.Decision { return client.Decision{Approved: true, DecisionID: id} }

// stands shows that a decision was recorded once, and that who asks for it
// again is told so (I3).
func (s *shop) stands(node int, approval, id string) {
	s.T.Helper()
	answer, err := s.As(node, "user:bob").Decide(s.T.Context(), approval, verdict(id))
	if err != nil || answer.Result != "already-applied" {
		s.T.Errorf("the same decision again: %s, %v", answer.Result, err)
	}
	if n, err := testcluster.One[int](s.T.Context(), s.Deployment, `select count(*) from decisions where decision_id = $1`, id); err != nil || n != 1 {
		s.T.Errorf("%d rows of it, %v", n, err)
	}
}

// decided waits until a decision is committed.
func (s *shop) decided(id string) {
	s.T.Helper()
	testcluster.Eventually(s.T, "the decision is committed", func(ctx context.Context) error {
		n, err := testcluster.One[int](ctx, s.Deployment, `select count(*) from decisions where decision_id = $1`, id)
		if err == nil && n == 0 {
			err = errors.New("it is not")
		}
		return err
	})
}

// The connection of somebody who decides is cut while the commit is under way:
// the commit goes on.
func clientLeaves(t *testing.T, s *shop) {
	front, url := through(t, s.API[1].URL)
	call := s.order("leaves", "ask", `{}`)
	lock := s.locks(call.ID)
	gone := make(chan error, 1)
	go func() {
		_, err := s.impatient(url).Decide(context.Background(), call.ApprovalID, verdict("leaves"))
		gone <- err
	}()
	s.isWaitedFor(lock)
	if n := front.Cut(); n != 1 {
		t.Errorf("%d connections were cut", n)
	}
	if err := <-gone; err == nil {
		t.Error("the client was answered")
	}
	must(t, lock.tx.Rollback())
	s.decided("leaves")
	s.stands(0, call.ApprovalID, "leaves")
}

// A window sees a topic's versions in their order and to the last, whatever
// the signals say that come to its node.
func signalsLie(t *testing.T, s *shop) {
	hints := hinter(t, s.Deployment)
	const topic = "lies"
	first := s.order(topic, "ask", `{}`)
	lie := func() {
		for _, version := range []int64{1 << 50, 3, 1, 2, 2, 1, 1 << 50, 7, 4} {
			body := fmt.Sprintf(`{"tenant":"default","topic":%q,"version":%d}`, topic, version)
			must(t, hints.nc.Publish(bus.SignalSubject("default", topic), []byte(body)))
		}
		must(t, hints.nc.Flush())
	}
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	lie()
	before, decided := int64(0), false
	for e, err := range s.Node(1).Events(ctx, topic, client.FromNow) {
		must(t, err)
		if e.Status == nil {
			continue
		}
		if e.Version <= before {
			t.Errorf("version %d came after %d", e.Version, before)
		}
		before = e.Version
		lie()
		if !decided {
			decided = true
			_, err := s.As(0, "user:bob").Decide(ctx, first.ApprovalID, client.Decision{Approved: false})
			must(t, err)
			lie()
		}
		if len(e.Status.Turns) == 1 && e.Status.Turns[0].State == "continuing" {
			return
		}
	}
}

// A decision is committed, and the node that asked for it never hears so. It
// says that it does not know, soon; the decision stands.
func commitIsLost(t *testing.T, s *shop, network *proxy.Proxy) {
	call := s.order("lost", "ask", `{}`)
	lock := s.locks(call.ID)
	told := make(chan error, 1)
	go func() {
		_, err := s.impatient(s.API[0].URL).Decide(context.Background(), call.ApprovalID, verdict("lost"))
		told <- err
	}()
	s.isWaitedFor(lock)
	lost := network.Counts().Lost
	breaks(t, network, proxy.Faults{LoseDown: true})
	must(t, lock.tx.Rollback())
	s.decided("lost")
	s.stands(1, call.ApprovalID, "lost")
	if err := <-told; !unavailable(err) {
		t.Errorf("the client was told %v", err)
	}
	if network.Counts().Lost == lost {
		t.Error("no answer was lost")
	}
	must(t, network.Heal())
	s.API[0].Ready()
	s.stands(0, call.ApprovalID, "lost")
}

func unavailable(err error) bool {
	problem, is := errors.AsType[*client.Problem](err)
	return is && problem.Status == http.StatusServiceUnavailable && problem.RetryAfter > 0
}

// While Postgres is out of its reach, by silence or by refusal, a node answers
// 503 and the other one works; nothing that failed comes to be later.
func partedFromPostgres(t *testing.T, s *shop, network *proxy.Proxy) {
	for name, f := range map[string]proxy.Faults{"silent": parted, "refusing": {Refuse: true}} {
		call := s.order(name, "ask", `{}`)
		breaks(t, network, f)
		if f.Refuse {
			network.Cut()
		}
		var both sync.WaitGroup
		both.Go(func() {
			_, err := s.impatient(s.API[0].URL).Decide(t.Context(), call.ApprovalID, verdict("over "+name))
			if !unavailable(err) {
				t.Errorf("%s: deciding: %v", name, err)
			}
		})
		both.Go(func() {
			if _, err := s.impatient(s.API[0].URL).Approval(t.Context(), call.ApprovalID); !unavailable(err) {
				t.Errorf("%s: reading: %v", name, err)
			}
		})
		both.Wait()
		testcluster.Eventually(t, name+": it says that it is not ready", func(ctx context.Context) error {
			err := s.API[0].Process.Ready(ctx)
			if err == nil {
				return errors.New("it says that it is")
			}
			if !strings.Contains(err.Error(), "503") {
				return err
			}
			return nil
		})
		answer, err := s.As(1, "user:ann").Decide(t.Context(), call.ApprovalID, client.Decision{Approved: false, DecisionID: name})
		if err != nil || answer.Result != "applied" {
			t.Errorf("%s: the other node: %s, %v", name, answer.Result, err)
		}
		must(t, network.Heal())
		s.API[0].Ready()
		if _, err := s.impatient(s.API[0].URL).Decide(t.Context(), call.ApprovalID, verdict("over "+name)); !client.Is(err, "already-decided") {
			t.Errorf("%s: the same decision when it is over: %v", name, err)
		}
	}
}
