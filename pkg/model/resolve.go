package model

import (
	"bytes"
	"encoding/json"
	"time"
)

// ResolutionOutcome is what a person found out about a run whose outcome
// nobody knew.
type ResolutionOutcome string

// The outcomes: the effect took place, it did not, or nobody can find out.
const (
	ResolvedHappened     ResolutionOutcome = "happened"
	ResolvedDidNotHappen ResolutionOutcome = "did-not-happen"
	ResolvedClosed       ResolutionOutcome = "closed"
)

// ResolutionOutcomes lists them all.
var ResolutionOutcomes = []ResolutionOutcome{ResolvedHappened, ResolvedDidNotHappen, ResolvedClosed}

// Resolution is a person's word on a run of unknown outcome, as it comes in.
type Resolution struct {
	Outcome  ResolutionOutcome
	Output   []byte // with happened: what the tool would have answered, a JSON value; nil when nobody knows
	Evidence string // how the person knows; with happened never empty
	By       Principal
	Channel  string // "api", "page", "cli"
}

// Resolved is the resolution that stands; it is final.
type Resolved struct {
	Outcome  ResolutionOutcome
	Output   []byte
	Evidence string
	By       string // the person
	Channel  string
	At       time.Time
	Changed  bool // by the transaction that holds the turn
}

// ResolutionResult is how a resolution was taken.
type ResolutionResult string

// The results of a resolution that is not refused.
const (
	ResolutionApplied        ResolutionResult = "applied"
	ResolutionAlreadyApplied ResolutionResult = "already-applied"
)

// QuarantineMargin is added to the time in which an attempt may still be
// alive, for what its worker's machine had already handed to the network.
const QuarantineMargin = 30 * time.Second

// AttemptMayBeAlive says from when a run can be resolved. It is an
// [ErrAttemptMayBeAlive].
type AttemptMayBeAlive struct {
	Until time.Time     // by the database's clock
	Wait  time.Duration // how long that is from now; at least a second
}

func (e *AttemptMayBeAlive) Error() string {
	return ErrAttemptMayBeAlive.Error() + ", until " + e.Until.UTC().Format(time.RFC3339)
}

func (e *AttemptMayBeAlive) Unwrap() error { return ErrAttemptMayBeAlive }

// ResolvableAt is when the last attempt cannot be alive any more: its lease
// has ended, a worker that was paused at that moment has used up the tool's
// time since, and a margin has passed.
func (c *Call) ResolvableAt() time.Time { return c.LeaseUntil.Add(c.Tool.Timeout + QuarantineMargin) }

// Resolve settles a run whose outcome nobody knows by a person's word. The
// checks and their order are the contract of the resolution endpoint. Whoever
// may decide about a call may resolve it. Errors: [ErrNotFound] where the topic
// does not exist for the person, [ErrNotPermitted], [ErrAlreadyResolved] when another resolution or the tool's own result
// stands, [ErrNotUnknown], [AttemptMayBeAlive]; none of them writes anything.
func (t *Turn) Resolve(c *Call, r Resolution, now time.Time) (ResolutionResult, error) {
	if !r.By.Sees(t.Topic) {
		return "", ErrNotFound
	}
	if !t.mayResolve(c, r.By) {
		return "", ErrNotPermitted
	}
	if stands := c.Resolution; stands != nil {
		if stands.Outcome == r.Outcome && (r.Output == nil || bytes.Equal(r.Output, stands.Output)) {
			return ResolutionAlreadyApplied, nil
		}
		return "", ErrAlreadyResolved
	}
	switch c.Run {
	case RunSucceeded, RunFailed, RunClosed:
		return "", ErrAlreadyResolved
	case RunStarted, RunUnknown:
	default:
		return "", ErrNotUnknown
	}
	if until := c.ResolvableAt(); c.Run == RunStarted || now.Before(until) {
		return "", &AttemptMayBeAlive{Until: until, Wait: max(until.Sub(now), time.Second)}
	}
	t.resolve(c, r, now)
	return ResolutionApplied, nil
}

// mayResolve asks for the role that decides, and where people were asked about
// the call, for one of them: who could not have approved it cannot say that
// it happened either.
func (t *Turn) mayResolve(c *Call, by Principal) bool {
	if c.Approval == nil {
		return by.Has(RoleApprover)
	}
	return c.Approval.Rule.MayDecide(by, t.RequestedBy)
}

func (t *Turn) resolve(c *Call, r Resolution, now time.Time) {
	run, part := RunFailed, CallOutputError
	switch r.Outcome {
	case ResolvedHappened:
		run, part = RunSucceeded, CallOutputAvailable
		if r.Output == nil {
			r.Output = confirmed(r.Evidence)
		}
		c.NewOutput, c.Outcome, c.ErrorText = r.Output, "", ""
	case ResolvedDidNotHappen:
		c.Outcome, c.ErrorText = "", withEvidence(TextDidNotHappen, r.Evidence)
	default:
		run, c.ErrorText = RunClosed, withEvidence(TextClosed, r.Evidence) // the outcome stays unknown
	}
	t.moveRun(c, run)
	if !c.State.Settled() {
		t.moveCall(c, part)
	}
	c.Resolution = &Resolved{
		Outcome: r.Outcome, Output: r.Output, Evidence: r.Evidence, By: r.By.Subject, Channel: r.Channel, At: now, Changed: true,
	}
	t.audit(AuditRecord{At: now, Actor: r.By.Actor(), Action: "call.resolved", Channel: r.Channel, Call: c.ID,
		Detail: withEvidence(string(r.Outcome)+".", r.Evidence), Digest: c.Digest})
	t.settle(now)
}

// The fixed texts with which the model is told what a person found out.
const (
	TextHappened     = "The tool's answer was lost. A person looked and confirmed that the call took effect."
	TextDidNotHappen = "The tool's answer was lost. A person looked and found that the call did not take effect."
	TextClosed       = "It is not known whether the call took effect, and nobody could find out. It may have. " +
		"It must not be repeated blindly: look first, or ask."
)

func withEvidence(text, evidence string) string {
	if evidence == "" {
		return text
	}
	return text + " Evidence: " + evidence
}

// confirmed is the output of a call that took effect and whose own output
// nobody has.
func confirmed(evidence string) []byte {
	out, _ := json.Marshal(map[string]string{"text": withEvidence(TextHappened, evidence)}) // a text can always be encoded
	return out
}

// refuseLate notes on its attempt, once, a result that came after a person's
// resolution: what stands stays, and the contradiction can be seen.
func (t *Turn) refuseLate(c *Call, r Result, now time.Time) {
	if c.ResultDigest != nil || r.Kind == ResultUnknown {
		return
	}
	c.ResultDigest = r.Digest()
	t.touch(c)
	text := "Its result, " + string(r.Kind) + ", came after the call was resolved as " + string(c.Resolution.Outcome) + " and was refused."
	if r.Text != "" {
		text += " It said: " + r.Text
	}
	t.closeAttempt(c, AttemptRefused, text, now)
	t.auditAttempt(c, c.Worker, AttemptRefused, c.ResultDigest, now)
}
