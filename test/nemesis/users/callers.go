package users

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// runCall is one process of the backend that runs a call of its own: it
// claims the call when it is queued, does it, and reports. It stops when the
// call is over, whoever ran it.
func (k *talk) runCall(ctx context.Context, r *rand.Rand, process string, call client.TurnCall) {
	for n := 0; ctx.Err() == nil; n++ {
		now, err := k.lookAtCall(ctx, r, call.ID)
		switch {
		case err != nil:
		case now.Run == "queued":
			if claim, ok := k.claim(ctx, r, process, call, n); ok {
				k.perform(ctx, r, process, call, claim)
			}
		case strings.HasPrefix(now.State, "output-") || now.Run == "outcome-unknown":
			return
		}
		pause(ctx, time.Duration(150+r.IntN(150))*time.Millisecond)
	}
}

func (k *talk) lookAtCall(ctx context.Context, r *rand.Rand, call string) (client.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return k.client(k.t, r.IntN(2), "").Call(ctx, call)
}

// claim tries to get a queued call. One that was not answered is asked for
// again under its id, once: whether it was given is then known.
func (k *talk) claim(ctx context.Context, r *rand.Rand, process string, call client.TurnCall, n int) (claim client.Claim, ok bool) {
	id := fmt.Sprintf("%s-%s-%d", process, call.ToolCallID, n)
	op := history.Op{Process: process, Kind: history.Claim, Topic: k.topic, Call: call.ID, Token: id}
	done, err := k.insist(ctx, r, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) (err error) {
		claim, err = c.ClaimCall(ctx, call.ID, client.ClaimRequest{ClaimID: id, Lease: schedule.Lease.String()})
		op.Fence, op.Input = claim.Fence, string(claim.Input)
		return err
	})
	return claim, err == nil && done.Result == history.OK
}

// perform does a claimed call and reports what came of it, sometimes long
// after its lease, sometimes never.
func (k *talk) perform(ctx context.Context, r *rand.Rand, process string, call client.TurnCall, claim client.Claim) {
	result := client.Result{Fence: claim.Fence, Token: claim.Token}
	if time.Now().After(claim.LeaseUntil.Add(-time.Second)) {
		return // it was given long ago; somebody else may have it
	}
	if r.IntN(3) == 0 { // it takes its time
		pause(ctx, time.Duration(r.IntN(1500))*time.Millisecond)
	}
	k.effect(ctx, call, claim, &result)
	switch r.IntN(10) {
	case 0:
		return
	case 1, 2:
		pause(ctx, schedule.Lease+time.Duration(1000+r.IntN(2500))*time.Millisecond)
	}
	op := history.Op{Process: process, Kind: history.Report, Topic: k.topic, Call: call.ID, Fence: claim.Fence, Output: string(result.Output)}
	_, _ = k.insist(ctx, r, k.t, op, func(ctx context.Context, c *client.Client, _ *history.Op) error {
		_, err := c.ResultCall(ctx, call.ID, result)
		return err
	})
}

// once sends a request exactly once. Over a connection that was used before,
// Go's transport would send one with an Idempotency-Key again by itself.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// effect asks the tool server, as a worker would, so that its ledger knows
// what callers did, too.
func (k *talk) effect(ctx context.Context, call client.TurnCall, claim client.Claim, result *client.Result) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, k.toolURL(call.Tool), strings.NewReader(string(claim.Input)))
	if err != nil {
		panic(err) // a URL of ours
	}
	request.Header.Set("Countersign-Call", call.ID)
	request.Header.Set("Countersign-Attempt", fmt.Sprint(claim.Fence))
	request.Header.Set("Idempotency-Key", call.ID)
	response, err := once.Do(request)
	result.Unknown = true
	if err != nil {
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	switch {
	case err == nil && response.StatusCode == http.StatusOK && json.Valid(body):
		result.Unknown, result.Output = false, body
	case response.StatusCode == http.StatusConflict:
		result.Unknown, result.ErrorText = false, "the tool says no"
	}
}
