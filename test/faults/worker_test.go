package faults

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/proxy"
)

// A worker is stopped after its claim was committed and before it knows: its
// lease runs out, and when it goes on it sends nothing (18). A keyed call was
// run meanwhile by the worker that took over. One of a tool that may run once
// has not run, and when the sleeper says so everybody is told.
func TestFault18AWorkerSleepsBetweenItsClaimAndItsFirstByte(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.Ready()
	s := opens(d)
	s.sells("pay", "keyed")
	s.sells("mail", "unsafe")
	network, url := through(t, d.Database)
	d.StartWorker(0, "COUNTERSIGN_DATABASE_URL="+url, "COUNTERSIGN_WORKER_LEASE=2s")
	d.Ready()

	keyed, goOn := s.sleepsOnItsClaim(network, "pay")
	d.StartWorker(1)
	s.runIs(keyed, "succeeded")
	goOn()
	d.Workers[1].Kill()
	once, goOn := s.sleepsOnItsClaim(network, "mail")
	s.runIs(once, "outcome-unknown")
	goOn()
	if c := s.runIs(once, "failed"); len(c.Attempts) != 1 || c.State != "output-error" {
		t.Errorf("the one that may run once: %s", c.Raw)
	}
	for call, want := range map[string]int{keyed: 1, once: 0} {
		if got := s.requests(call); len(got) != want {
			t.Errorf("call %s came to its tool %d times: %+v", call, len(got), got)
		}
	}
}

// sleepsOnItsClaim orders a call, and stops the one worker when it has
// claimed it and was not told. What is returned lets it go on.
func (s *shop) sleepsOnItsClaim(network *proxy.Proxy, tool string) (call string, goOn func()) {
	s.T.Helper()
	s.Workers[0].Signal(syscall.SIGSTOP)
	call = s.order("sleeps-"+tool, tool, `{}`).ID
	lock := s.locks(call)
	s.Workers[0].Signal(syscall.SIGCONT)
	s.isWaitedFor(lock) // by the claim, which has read all it needs
	breaks(s.T, network, proxy.Faults{LoseDown: true})
	must(s.T, lock.tx.Rollback())
	s.rowIs(call, "started")
	s.Workers[0].Signal(syscall.SIGSTOP)
	return call, func() {
		if network.Counts().Lost == 0 {
			s.T.Error("no answer was lost")
		}
		must(s.T, network.Heal())
		s.Workers[0].Signal(syscall.SIGCONT)
	}
}

// A worker is stopped beyond its lease while the tool runs (19). A keyed tool
// is asked again by another worker under the same key, so that it does it
// once; the late result of a tool that may run once is accepted, once.
func TestFault19AWorkerSleepsWhileTheToolRuns(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0, "COUNTERSIGN_WORKER_LEASE=2s")
	d.Ready()
	s := opens(d)
	s.sells("pay", "keyed")
	s.sells("mail", "unsafe")
	keyed := s.order("keyed", "pay", `{"behave":"late,answer","delay":"1h"}`).ID
	once := s.order("once", "mail", `{"behave":"late","delay":"4s"}`).ID
	s.took(keyed, 1)
	s.took(once, 1)
	d.Workers[0].Signal(syscall.SIGSTOP)
	d.StartWorker(1)
	s.rowIs(once, "outcome-unknown")
	c := s.runIs(keyed, "succeeded")
	requests := s.requests(keyed)
	if len(requests) != 2 || requests[0].Key != requests[1].Key || len(begun(c)) != 2 || begun(c)[0].Outcome != "lease-lost" {
		t.Errorf("the keyed one: %+v, %s", requests, c.Raw)
	}
	d.Workers[0].Signal(syscall.SIGCONT)
	if c := s.runIs(once, "succeeded"); len(begun(c)) != 1 || c.State != "output-available" {
		t.Errorf("the one that may run once: %s", c.Raw)
	}
	s.took(keyed, 1)
	s.took(once, 1)
	if got := s.requests(once); len(got) != 1 {
		t.Errorf("it was asked %d times: %+v", len(got), got)
	}
}

// The same hints come to two workers many times over, in another order, with
// other fences and long after (25, 26, 27): nothing runs twice, and nothing
// that is done, unknown, denied or still asked for runs at all.
func TestFault25To27HintsAreRepeatedReorderedForgedAndLate(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.StartWorker(1)
	d.Ready()
	s := opens(d)
	s.sells("mail", "unsafe")
	_, err := d.Node(0).PutTool(t.Context(), "ask", client.Tool{HTTP: &client.HTTPTool{URL: s.url + "/ask"}})
	must(t, err)
	hints := hinter(t, d)

	asked, denied := s.order("asked", "ask", `{}`), s.order("denied", "ask", `{}`)
	_, err = d.As(0, "user:bob").Decide(t.Context(), denied.ApprovalID, client.Decision{Approved: false})
	must(t, err)
	unknown := s.order("unknown", "mail", behaving("500-after-effect")).ID
	s.runIs(unknown, "outcome-unknown")
	var calls []string
	for i := range 20 {
		calls = append(calls, s.order(fmt.Sprintf("t%d", i), "mail", `{"behave":"late","delay":"200ms"}`).ID)
		hints.flood(calls...)
	}
	for _, call := range calls {
		s.runIs(call, "succeeded")
	}
	all := append(calls, asked.ID, denied.ID, unknown)
	hints.flood(all...)
	testcluster.Eventually(t, "every hint is done with", hints.done)

	for _, call := range append(calls, unknown) {
		if got := s.requests(call); len(got) != 1 {
			t.Errorf("call %s came to its tool %d times", call, len(got))
		}
	}
	for _, call := range []string{asked.ID, denied.ID} {
		c, err := d.Node(0).Call(t.Context(), call)
		if err != nil || len(c.Attempts) != 0 || len(s.requests(call)) != 0 {
			t.Errorf("what nobody approved: %s, %v", c.Raw, err)
		}
	}
	if c, err := d.Node(0).Call(t.Context(), unknown); err != nil || c.Run != "outcome-unknown" {
		t.Errorf("the unknown one: %s, %v", c.Raw, err)
	}
}
