package services

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// Calls that the backend runs itself, by two nodes of it over two api nodes:
// the same fence as a worker's, so that no call is run twice (I4).
func TestI4TwoNodesOfABackendRunEachCallOnce(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartAPI(1)
	d.StartContinuer(0, "COUNTERSIGN_SWEEP_INTERVAL=100ms")
	d.Ready()
	for name, test := range map[string]func(*testing.T, *deployment){
		"of two claims at once one wins":             claimedOnce,
		"a lost lease goes to the other node":        callerLosesLease,
		"a late result of an unsafe call is taken":   callerIsLate,
		"a heartbeat tells that the turn was ended":  callerIsCancelled,
		"a claim is refused where a worker runs it":  notTheCallers,
		"a definition that changed is never started": changedUnderTheCaller,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d.in(t))
		})
	}
}

// own registers a call that policy allows and its caller runs.
func (d *deployment) own(topic, tool, effect string) string {
	d.T.Helper()
	d.allow(tool, effect, "", func(t *client.Tool) { t.HTTP, t.Executor = nil, "caller" })
	return d.start(topic, tool)[0].ID
}

func claimedOnce(t *testing.T, d *deployment) {
	for i := range 20 {
		id := d.own(fmt.Sprintf("claims-%d", i), "both_want", "unsafe")
		var claims [2]client.Claim
		var errs [2]error
		var nodes sync.WaitGroup
		for n := range 2 {
			nodes.Go(func() {
				claims[n], errs[n] = d.Node(n).ClaimCall(t.Context(), id, client.ClaimRequest{ClaimID: fmt.Sprintf("node-%d", n)})
			})
		}
		nodes.Wait()
		won := 0
		if errs[0] != nil {
			won = 1
		}
		if errs[won] != nil || !client.Is(errs[1-won], "not-claimable") || claims[won].Fence != 1 {
			t.Fatalf("both claimed: %+v, %v", claims, errs)
		}
		// The winner lost its answer and asks the other api node: the same.
		again, err := d.Node(1-won).ClaimCall(t.Context(), id, client.ClaimRequest{ClaimID: fmt.Sprintf("node-%d", won)})
		if err != nil || again.Token != claims[won].Token || again.Fence != 1 || string(again.Input) != `{"n":1}` {
			t.Fatalf("the same claim again: %+v, %v", again, err)
		}
		beat, err := d.Node(won).HeartbeatCall(t.Context(), id, 1, again.Token)
		if err != nil || beat.Cancel || !beat.LeaseUntil.After(claims[won].LeaseUntil) {
			t.Fatalf("heartbeat: %+v, %v", beat, err)
		}
		d.finishOnce(id, again)
	}
}

// finishOnce ends a call; the same result again is nothing new, and another is
// refused.
func (d *deployment) finishOnce(id string, claim client.Claim) {
	d.T.Helper()
	result := client.Result{Fence: claim.Fence, Token: claim.Token, Output: json.RawMessage(`{"ok":1.0}`)}
	for n := range 2 {
		must(d.T, second(d.Node(n).ResultCall(d.T.Context(), id, result)))
	}
	result.Output = json.RawMessage(`{"ok":2}`)
	if _, err := d.Node(0).ResultCall(d.T.Context(), id, result); !client.Is(err, "result-conflict") {
		d.T.Errorf("another result of the same attempt: %v", err)
	}
	if c := d.runIs(id, "succeeded"); len(c.Attempts) != 1 {
		d.T.Errorf("attempts: %s", c.Raw)
	}
}

// leaseRunsOut lets the time of a started call's lease pass.
func (d *deployment) leaseRunsOut(id string) {
	d.T.Helper()
	d.Change(`update calls set lease_until = clock_timestamp() - interval '1 second' where call_id = $1 and run = 'started'`, id)
}

func callerLosesLease(t *testing.T, d *deployment) {
	id := d.own("lost", "repeatable", "idempotent")
	first, err := d.Node(0).ClaimCall(t.Context(), id, client.ClaimRequest{Lease: "1m"})
	must(t, err)
	d.leaseRunsOut(id)
	d.runIs(id, "queued")
	var again client.Claim
	testcluster.Eventually(t, "the other node claims it", func(ctx context.Context) (err error) {
		again, err = d.Node(1).ClaimCall(ctx, id, client.ClaimRequest{})
		return err
	})
	if again.Fence != 2 || again.Token == first.Token {
		t.Fatalf("the second claim: %+v", again)
	}
	if _, err := d.Node(0).HeartbeatCall(t.Context(), id, first.Fence, first.Token); !client.Is(err, "fence-lost") {
		t.Errorf("a heartbeat of the first attempt: %v", err)
	}
	late := client.Result{Fence: first.Fence, Token: first.Token, Output: json.RawMessage(`"first"`)}
	if _, err := d.Node(0).ResultCall(t.Context(), id, late); !client.Is(err, "fence-lost") {
		t.Errorf("a result of the first attempt: %v", err)
	}
	must(t, second(d.Node(1).ResultCall(t.Context(), id, client.Result{Fence: 2, Token: again.Token, Output: json.RawMessage(`"second"`)})))
	if got, _ := d.output("lost"); string(got) != `"second"` {
		t.Errorf("the result is %s", got)
	}
}

func callerIsLate(t *testing.T, d *deployment) {
	id := d.own("late", "once_only", "unsafe")
	claim, err := d.Node(0).ClaimCall(t.Context(), id, client.ClaimRequest{})
	must(t, err)
	d.leaseRunsOut(id)
	d.runIs(id, "outcome-unknown")
	if _, err := d.Node(1).ClaimCall(t.Context(), id, client.ClaimRequest{}); !client.Is(err, "not-claimable") {
		t.Errorf("a second claim of an unsafe call: %v", err)
	}
	d.finishOnce(id, claim)
	d.status("late", "pending") // it waits for its next turn, not for a person
}

func callerIsCancelled(t *testing.T, d *deployment) {
	id := d.own("ended", "long_one", "unsafe")
	claim, err := d.Node(0).ClaimCall(t.Context(), id, client.ClaimRequest{})
	must(t, err)
	must(t, second(d.Node(1).Cancel(t.Context(), "ended", "")))
	beat, err := d.Node(0).HeartbeatCall(t.Context(), id, claim.Fence, claim.Token)
	if err != nil || !beat.Cancel {
		t.Errorf("heartbeat: %+v, %v", beat, err)
	}
	d.finishOnce(id, claim)
	d.status("ended", "aborted")
	if got, _ := d.output("ended"); string(got) != `{"ok":1.0}` {
		t.Errorf("its result is recorded all the same: %s", got)
	}
}

func notTheCallers(t *testing.T, d *deployment) {
	d.allow("for_workers", "unsafe", "http://127.0.0.1:1")
	id := d.start("workers", "for_workers")[0].ID
	if _, err := d.Node(0).ClaimCall(t.Context(), id, client.ClaimRequest{}); !client.Is(err, "not-claimable") {
		t.Errorf("a caller claimed a worker's call: %v", err)
	}
}

// I5 holds for callers too.
func changedUnderTheCaller(t *testing.T, d *deployment) {
	id := d.own("changed", "moving", "unsafe")
	must(t, second(d.Node(0).PutTool(t.Context(), "moving", client.Tool{Effect: "unsafe", Executor: "caller", Description: "now something else"})))
	if _, err := d.Node(1).ClaimCall(t.Context(), id, client.ClaimRequest{}); !client.Is(err, "not-claimable") {
		t.Errorf("claimed after its definition changed: %v", err)
	}
	d.runIs(id, "stopped")
}
