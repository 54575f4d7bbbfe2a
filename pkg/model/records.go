package model

import (
	"fmt"
	"time"
)

// Records are the rows that a transaction appends beside what it changes.
type Records struct {
	Decisions []DecisionRecord
	Attempts  []AttemptRecord
	Audit     []AuditRecord
}

// AttemptRecord opens (Started) or closes an attempt's row.
type AttemptRecord struct {
	Call    CallID
	Fence   int64
	Token   string
	Worker  string
	Started bool
	At      time.Time
	Outcome string
	Detail  string
}

// AttemptRefused is the outcome of an attempt whose result came after a person
// had resolved the call. The others are a result's kind and "lease-lost".
const AttemptRefused = "refused"

// AuditRecord is one line of the audit: who, what, when, through which
// channel, under which rule (I10).
type AuditRecord struct {
	At       time.Time
	Actor    string
	Action   string
	Channel  string
	Topic    TopicID
	Turn     TurnID
	Call     CallID
	Approval ApprovalID
	Detail   string
	Digest   []byte
}

// audit completes a record with what the turn knows.
func (t *Turn) audit(r AuditRecord) {
	r.Topic, r.Turn = t.Topic, t.ID
	if r.Actor == "" {
		r.Actor = "countersign"
	}
	t.Records.Audit = append(t.Records.Audit, r)
}

// AuditRegistration records who registered the turn and what the policies
// said about each call of it.
func (t *Turn) AuditRegistration(actor, channel string, now time.Time) {
	if len(t.Calls) == 0 {
		t.audit(AuditRecord{At: now, Actor: actor, Action: "turn.registered", Channel: channel})
	}
	t.AuditCalls(actor, channel, t.Calls, now)
}

// AuditReply records who asked for a reply; dropped names the message from
// which on the conversation was begun anew, or "".
func (t *Turn) AuditReply(actor, channel string, dropped MessageID, now time.Time) {
	r := AuditRecord{At: now, Actor: actor, Action: "reply.requested", Channel: channel}
	if dropped != "" {
		r.Detail = "anew from the message " + string(dropped)
	}
	t.audit(r)
}

// AuditCalls records what the policies said about calls that were just made.
// A call about which somebody is asked is in its approval's own records.
func (t *Turn) AuditCalls(actor, channel string, calls []*Call, now time.Time) {
	for _, c := range calls {
		r := AuditRecord{At: now, Actor: actor, Channel: channel, Call: c.ID, Digest: c.Digest}
		switch {
		case c.AllowedBy != "":
			r.Action, r.Detail = "call.allowed", c.AllowedBy
		case c.Approval != nil && c.Approval.State == ApprovalDenied:
			r.Action, r.Detail, r.Approval = "call.denied", c.Approval.DecidedBy, c.Approval.ID
		case c.Approval != nil:
			r.Action, r.Approval = "approval.requested", c.Approval.ID
		default:
			r.Action, r.Detail = "call.refused", c.ErrorText
		}
		t.audit(r)
	}
}

// auditAttempt records that an attempt started, with the digest of what runs,
// or how it ended, with the digest of its result.
func (t *Turn) auditAttempt(c *Call, actor, what string, digest []byte, now time.Time) {
	t.audit(AuditRecord{At: now, Actor: actor, Action: "attempt." + what, Call: c.ID, Digest: digest,
		Detail: fmt.Sprintf("attempt %d", c.Fence)})
}

// AuditCancel records who ended the turn.
func (t *Turn) AuditCancel(actor, channel string, now time.Time) {
	t.audit(AuditRecord{At: now, Actor: actor, Action: "turn.cancelled", Channel: channel})
}
