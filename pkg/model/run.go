package model

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/bugs"
)

// Claim is a worker's, or a caller's, wish to start a queued run.
type Claim struct {
	Token      string // client-made: the same token again is the same claim
	Worker     string
	Lease      time.Duration
	Digest     []byte // of the input that the claimer has before it
	Definition []byte // the hash of the tool's definition as it is now; nil when it is gone
}

// Claim starts the run: it is the commit after which the first outside byte
// may be sent. A claim re-checks what was approved against what would run;
// where they differ the call is stopped for good (I5), and so is another
// attempt under a key that its tool may have forgotten (I4). Both are written
// though [ErrNotClaimable] is returned.
func (t *Turn) Claim(c *Call, claim Claim, now time.Time) error {
	switch {
	case c.Run == RunStarted && c.ClaimToken == claim.Token:
		return nil
	case c.Run != RunQueued || now.Before(c.NotBefore):
		return ErrNotClaimable
	case !bytes.Equal(claim.Digest, c.Digest):
		t.Stop(c, "The input is not the one that was approved. The tool did not run.", now)
		t.settle(now)
		return ErrNotClaimable
	case !bytes.Equal(claim.Definition, c.Tool.Definition):
		t.Stop(c, "The tool's definition changed after it was approved. The tool did not run.", now)
		t.settle(now)
		return ErrNotClaimable
	case c.Tool.Effect == EffectKeyed && c.Uncertain && !c.keyHolds(now):
		// It waited too long: the tool may take its key for a new one (I4).
		t.Stop(c, "It was not tried again, since the tool remembers the key of that attempt no longer.", now)
		t.settle(now)
		return ErrNotClaimable
	}
	t.moveRun(c, RunStarted)
	c.Fence++
	c.ClaimToken, c.Worker, c.LeaseUntil = claim.Token, claim.Worker, now.Add(claim.Lease)
	if c.FirstStartedAt.IsZero() {
		c.FirstStartedAt = now
	}
	t.Records.Attempts = append(t.Records.Attempts, AttemptRecord{
		Call: c.ID, Fence: c.Fence, Token: claim.Token, Worker: claim.Worker, Started: true, At: now,
	})
	t.auditAttempt(c, claim.Worker, "started", c.Digest, now)
	return nil
}

// ResultKind is what an attempt knows about its end.
type ResultKind string

// The kinds of a result: the tool did it, the tool said no, nobody knows, or
// it is proven that nothing was sent.
const (
	ResultSucceeded   ResultKind = "succeeded"
	ResultFailed      ResultKind = "failed"
	ResultUnknown     ResultKind = "unknown"
	ResultNothingSent ResultKind = "nothing-sent"
)

// Result is how an attempt ended.
type Result struct {
	Kind   ResultKind
	Output []byte // of a success: the JSON value, exact
	Text   string // of a failure, or why the outcome is unknown
}

// Digest is SHA-256 over the result, to know a repeated one.
func (r Result) Digest() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n%s", r.Kind, len(r.Text), r.Text)
	h.Write(r.Output)
	return h.Sum(nil)
}

// Finish records an attempt's end, guarded by its fence and token. The same
// result again is nothing new. An unknown outcome accepts one late result of
// its own fence, the proof that nothing was sent included, until a person has
// resolved it. Errors: [ErrFenceLost] for any other attempt,
// [ErrResultConflict] for another result of this one, or after a resolution.
func (t *Turn) Finish(c *Call, fence int64, token string, r Result, now time.Time) error {
	switch {
	case (c.Fence != fence || c.ClaimToken != token) && !bugs.NoFence:
		return ErrFenceLost
	case c.Resolution != nil:
		t.refuseLate(c, r, now)
		return ErrResultConflict
	case c.ResultDigest != nil:
		if !bytes.Equal(c.ResultDigest, r.Digest()) {
			return ErrResultConflict
		}
		return nil
	case c.Run == RunUnknown && (r.Kind == ResultUnknown || r.Kind == ResultNothingSent && c.Uncertain):
		return nil
	case c.Run == RunQueued && (r.Kind == ResultUnknown || r.Kind == ResultNothingSent):
		return nil // it is said again of an attempt that is over, and it changes nothing
	case c.Run != RunStarted && c.Run != RunUnknown:
		return ErrFenceLost
	}
	t.closeAttempt(c, string(r.Kind), r.Text, now)
	t.auditAttempt(c, c.Worker, string(r.Kind), r.Digest(), now)
	switch r.Kind {
	case ResultSucceeded:
		c.NewOutput = r.Output
		t.conclude(c, RunSucceeded, CallOutputAvailable, "", r)
	case ResultFailed:
		t.conclude(c, RunFailed, CallOutputError, r.Text, r)
	case ResultNothingSent:
		t.retryUnsent(c, r, now)
	default:
		if now.Before(c.LeaseUntil) {
			c.LeaseUntil = now // its owner is done with it
		}
		t.lose(c, r, now)
	}
	t.settle(now)
	return nil
}

// conclude settles a run. r is the result as it came, by which the same one is
// known when it comes again.
func (t *Turn) conclude(c *Call, run RunState, part CallState, text string, r Result) {
	t.moveRun(c, run)
	c.ErrorText, c.Outcome, c.ResultDigest = text, "", r.Digest()
	if !c.State.Settled() {
		t.moveCall(c, part)
	}
}

// LoseLease takes a started run away from an owner whose lease has run out,
// by the tool's effect. It re-checks under the lock.
func (t *Turn) LoseLease(c *Call, now time.Time) bool {
	if c.Run != RunStarted || now.Before(c.LeaseUntil) {
		return false
	}
	const text = "The worker went away while the tool ran."
	t.closeAttempt(c, "lease-lost", text, now)
	t.auditAttempt(c, "", "lease-lost", nil, now)
	t.lose(c, Result{Kind: ResultUnknown, Text: text}, now)
	t.settle(now)
	return true
}

// lose is the class rule for an attempt of which nobody knows whether it took
// effect (I4). An ended turn never re-queues.
func (t *Turn) lose(c *Call, r Result, now time.Time) {
	mayRetry := t.Ended == "" && int(c.Fence) < c.Tool.MaxAttempts
	switch e := c.Tool.Effect; {
	case mayRetry && (e == EffectRead || e == EffectIdempotent || e == EffectKeyed && c.keyHolds(now) || bugs.RerunUnsafe):
		c.Uncertain = true
		t.requeue(c, now)
	case e == EffectRead:
		t.conclude(c, RunFailed, CallOutputError, r.Text+" It was tried as often as allowed.", r)
	default:
		t.doubt(c, r.Text, now)
	}
}

// doubt leaves a run whose outcome nobody knows to its late result, or to a
// person. Its lease stays on the row: it says how long the attempt may be
// alive.
func (t *Turn) doubt(c *Call, text string, now time.Time) {
	t.moveRun(c, RunUnknown)
	c.Outcome, c.ErrorText, c.UnknownAt = OutcomeUnknown, text, now
	t.audit(AuditRecord{At: now, Action: "call.outcome-unknown", Call: c.ID, Detail: text, Digest: c.Digest})
}

// retryUnsent follows an attempt that proved that nothing was sent, which
// makes another one safe whatever the effect. Once the run is given up as
// unknown, the proof ends it.
func (t *Turn) retryUnsent(c *Call, r Result, now time.Time) {
	switch {
	case c.Run == RunStarted && t.Ended == "" && int(c.Fence) < c.Tool.MaxAttempts:
		t.requeue(c, now)
	case c.Uncertain && c.Tool.Effect == EffectRead: // what nobody heard of did no harm
		t.conclude(c, RunFailed, CallOutputError, r.Text+" It was tried as often as allowed.", r)
	case c.Uncertain:
		t.doubt(c, r.Text, now)
	default:
		t.conclude(c, RunFailed, CallOutputError, "No attempt reached the tool. It did not run: "+r.Text, r)
	}
}

// requeue lets the run be claimed again. The token of the attempt that is over
// stays, for it to be known when it reports once more.
func (t *Turn) requeue(c *Call, now time.Time) {
	t.moveRun(c, RunQueued)
	c.Worker, c.LeaseUntil = "", time.Time{}
	c.QueuedAt, c.NotBefore = now, now.Add(retryDelay(c.Fence))
}

// retryDelay is how long a run waits after its n-th attempt: 1 s, doubled
// each time, a minute at most.
func retryDelay(n int64) time.Duration {
	return min(time.Second<<min(n-1, 10), time.Minute)
}

// keyMargin is kept from the end of a key's retention, for clocks that
// differ and for a request that takes its time.
const keyMargin = time.Minute

func (c *Call) keyHolds(now time.Time) bool {
	return now.Before(c.FirstStartedAt.Add(c.Tool.KeyRetention - keyMargin))
}

// Stop settles a call that is not going to run. Where an earlier attempt had
// started, the text does not claim that nothing happened.
func (t *Turn) Stop(c *Call, text string, now time.Time) {
	if c.Run == RunQueued {
		if c.Uncertain {
			t.moveRun(c, RunFailed)
			text = "Given up after an attempt whose outcome is not known; it may have taken effect. " + withoutClaim(text)
		} else {
			t.moveRun(c, RunStopped)
		}
	}
	t.moveCall(c, CallOutputError)
	c.Outcome, c.ErrorText = OutcomeStopped, text
	a := AuditRecord{At: now, Action: "call.stopped", Call: c.ID, Detail: text, Digest: c.Digest}
	if c.Approval != nil {
		a.Approval = c.Approval.ID
	}
	t.audit(a)
}

// withoutClaim is a reason to stop without its last sentence, which is not
// true of a call that had started.
func withoutClaim(text string) string {
	for _, claim := range []string{" The tool did not run.", " It did not run."} {
		text = strings.TrimSuffix(text, claim)
	}
	return text
}

// StopQueued is [Turn.Stop] for a run that is still queued, reporting whether
// it was.
func (t *Turn) StopQueued(c *Call, text string, now time.Time) bool {
	if c.Run != RunQueued {
		return false
	}
	t.Stop(c, text, now)
	t.settle(now)
	return true
}

func (t *Turn) closeAttempt(c *Call, outcome, detail string, now time.Time) {
	t.Records.Attempts = append(t.Records.Attempts, AttemptRecord{
		Call: c.ID, Fence: c.Fence, Token: c.ClaimToken, At: now, Outcome: outcome, Detail: detail,
	})
}
