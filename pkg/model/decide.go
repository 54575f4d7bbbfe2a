package model

import (
	"bytes"
	"time"
)

// Decision is one answer to an approval, as it comes in.
type Decision struct {
	ID       string // client-made, or made by the server; names the answer over retries
	Approval ApprovalID
	Approved bool
	Reason   string
	Seen     []byte // the digest of the card that was answered; nil when not said
	Edit     *Edit
	By       Principal
	Channel  string // "api", "page", "cli"
	Content  []byte // SHA-256 over all that was asked, to know a repeated id with other content
}

// Edit is a decider's replacement of the input, validated against the tool's
// schema and the policies beforehand.
type Edit struct {
	Input  []byte
	Digest []byte
}

// DecisionRecord is an answer that was committed; the table is append-only.
type DecisionRecord struct {
	ID       string
	Approval ApprovalID
	Call     CallID
	Approved bool
	Reason   string
	Digest   []byte // of what was approved, an edit included
	Edited   bool
	By       string
	Key      string
	Channel  string
	At       time.Time
	Content  []byte
}

// DecisionResult is how a decision was taken.
type DecisionResult string

// The results of a decision that is not refused.
const (
	DecisionApplied        DecisionResult = "applied"
	DecisionAlreadyApplied DecisionResult = "already-applied"
	DecisionRecorded       DecisionResult = "recorded"
)

// Answers are the decisions committed earlier that matter to one decision.
type Answers struct {
	SameID   *DecisionRecord  // the one with the same id, whatever it was about
	Approval []DecisionRecord // those for the same approval
}

// Decide answers an approval of the turn. The checks and their order are the
// contract of the decision endpoint; the numbers are its rows. An error
// leaves nothing to write but for [ErrApprovalClosed] at row 7, where this
// very commit expires the card.
func (t *Turn) Decide(d Decision, past Answers, now time.Time) (DecisionResult, error) {
	c := t.Asked(d.Approval)
	if c == nil || !d.By.Sees(t.Topic) {
		return "", ErrNotFound // 1
	}
	a := c.Approval
	if same := past.SameID; same != nil { // 2
		if !bytes.Equal(same.Content, d.Content) {
			return "", ErrDecisionIDReused
		}
		return DecisionAlreadyApplied, nil
	}
	if !a.Rule.MayDecide(d.By, t.RequestedBy) {
		return "", ErrNotPermitted // 3
	}
	switch a.State {
	case ApprovalRequested:
	case ApprovalApproved, ApprovalDenied:
		if a.State == d.verdict() && (d.Edit == nil || bytes.Equal(d.Edit.Digest, c.Digest)) {
			return DecisionAlreadyApplied, nil // 5
		}
		return "", ErrAlreadyDecided // 6
	default:
		return "", ErrApprovalClosed // 4
	}
	if t.Expire(c, now) {
		return "", ErrApprovalClosed // 7
	}
	if d.Seen != nil && !bytes.Equal(d.Seen, c.Digest) {
		return "", ErrCardStale // 8
	}
	return t.answer(c, d, past.Approval, now), nil
}

// answer takes a decision that may be given: the last approval that the
// quorum needs, or a denial, is the verdict; any other is recorded.
func (t *Turn) answer(c *Call, d Decision, earlier []DecisionRecord, now time.Time) DecisionResult {
	digest := c.Digest
	if d.Edit != nil {
		digest = d.Edit.Digest
	}
	answered, already := approvers(earlier, digest, d.By.Subject)
	if d.Approved && already {
		return DecisionRecorded
	}
	t.Records.Decisions = append(t.Records.Decisions, DecisionRecord{
		ID: d.ID, Approval: d.Approval, Call: c.ID, Approved: d.Approved, Reason: d.Reason, Digest: digest,
		Edited: d.Edit != nil, By: d.By.Subject, Key: d.By.Key, Channel: d.Channel, At: now, Content: d.Content,
	})
	if d.Edit != nil && !bytes.Equal(digest, c.Digest) {
		c.NewInput, c.Digest, c.Edited = d.Edit.Input, digest, true
		t.touch(c)
	}
	if d.Approved && answered+1 < c.Approval.Rule.Quorum {
		t.Changed = true
		t.auditDecision(c, d, "approval.recorded", now)
		return DecisionRecorded // 9
	}
	t.verdict(c, d, now)
	return DecisionApplied // 10
}

func (t *Turn) verdict(c *Call, d Decision, now time.Time) {
	a := c.Approval
	t.moveApproval(c, d.verdict())
	a.Reason, a.DecidedBy, a.DecidedAt, a.DecisionID, a.Channel = d.Reason, d.By.Subject, now, d.ID, d.Channel
	if d.Approved {
		t.moveCall(c, CallApprovalResponded)
	} else {
		t.moveCall(c, CallOutputDenied)
	}
	t.auditDecision(c, d, "approval."+string(a.State), now)
	t.settle(now)
}

func (t *Turn) auditDecision(c *Call, d Decision, action string, now time.Time) {
	t.audit(AuditRecord{At: now, Actor: d.By.Actor(), Action: action, Channel: d.Channel,
		Call: c.ID, Approval: d.Approval, Detail: d.Reason, Digest: c.Digest})
}

func (d Decision) verdict() ApprovalState {
	if d.Approved {
		return ApprovalApproved
	}
	return ApprovalDenied
}

// approvers counts the distinct people who approved exactly this digest, and
// tells whether subject is one of them: an answer counts for what it saw.
func approvers(earlier []DecisionRecord, digest []byte, subject string) (n int, already bool) {
	seen := map[string]bool{}
	for _, r := range earlier {
		if r.Approved && bytes.Equal(r.Digest, digest) && !seen[r.By] {
			seen[r.By] = true
		}
	}
	return len(seen), seen[subject]
}

// Approvers lists who has approved the call as it stands, in order.
func Approvers(earlier []DecisionRecord, digest []byte) []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range earlier {
		if r.Approved && bytes.Equal(r.Digest, digest) && !seen[r.By] {
			seen[r.By] = true
			out = append(out, r.By)
		}
	}
	return out
}
