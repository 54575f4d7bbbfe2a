package failpoints

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/pkg/model"
)

// outcome is what became of a unit, in the words of the table.
type outcome string

const (
	once     outcome = "done once"
	second   outcome = "done once, in a second attempt"
	sameKey  outcome = "sent again under the same key"
	unknown0 outcome = "unknown, nothing was sent"
	unknown1 outcome = "unknown, sent once"
	notRun   outcome = "settled, nothing was sent"
	imported outcome = "imported"
)

// standing is what the rows say of a unit's call and of what came after it.
type standing struct {
	run      string
	attempts int
	next     int // turns that go on from it and were not discarded
	ended    string
	status   string // of the topic, as its counters say
	version  int64
}

// outcome reads what became of a unit. As long as something is under way, it
// is an error that says what.
func (u *unit) outcome(ctx context.Context) (outcome, error) {
	if failed := u.failed.Load(); failed != nil {
		return "", *failed
	}
	if u.flow.normal == imported {
		_, err := u.stage.Store.Tool(ctx, "default", u.topic+"__read_file")
		return imported, err
	}
	s, err := u.standing(ctx)
	if err != nil {
		return "", err
	}
	sent, keys := u.stage.ledger.times(u.call)
	if got := s.outcome(sent, keys); got != "" {
		return got, u.answers(ctx)
	}
	return "", fmt.Errorf("%+v, sent %d times under %d keys", s, sent, keys)
}

// outcome is "" while there is none in the table: something is under way, or
// it is wrong.
func (s standing) outcome(sent, keys int) outcome {
	goneOn := s.status == "done" && s.next == 1
	switch {
	case s.run == "succeeded" && goneOn && sent == 1 && s.attempts == 1:
		return once
	case s.run == "succeeded" && goneOn && sent == 1 && s.attempts == 2:
		return second
	case s.run == "succeeded" && goneOn && sent == 2 && keys == 1 && s.attempts == 2:
		return sameKey
	case s.run == "outcome-unknown" && s.status == "awaiting-approval" && s.next == 0 && s.attempts == 1 && sent <= 1:
		return []outcome{unknown0, unknown1}[sent]
	case (s.run == "" || s.run == "stopped" || s.run == "failed") && sent == 0 && (goneOn || s.ended == "aborted" && s.next == 0):
		return notRun
	}
	return ""
}

func (u *unit) standing(ctx context.Context) (s standing, err error) {
	err = u.stage.Rows().QueryRowContext(ctx, `
		select c.run, t.ended,
		       (select count(*) from attempts a where a.tenant_id = c.tenant_id and a.call_id = c.call_id),
		       (select count(*) from turns n where n.tenant_id = t.tenant_id and n.continues = t.turn_id and not n.discarded)
		  from calls c
		  join turns t using (tenant_id, turn_id)
		 where c.call_id = $1`, u.call).Scan(&s.run, &s.ended, &s.attempts, &s.next)
	if err != nil {
		return s, err
	}
	topic, err := u.stage.Store.Topic(ctx, "default", model.TopicID(u.topic))
	s.status, s.version = string(topic.Status()), topic.Version
	return s, err
}
