package bus

import (
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// ErrDisconnected says that NATS cannot be reached now. What was to be
// published is still in its row, and a sweep publishes it later.
var ErrDisconnected = errors.New("not connected to NATS")

// Action is what becomes of a delivered message.
type Action string

const (
	// Ack is for a message that is done with, or that leaves nothing to do.
	Ack Action = "ack"
	// Nak gives it back, to be seen again after a delay.
	Nak Action = "nak"
	// Term is for one that can never mean anything; it is counted as garbage.
	Term Action = "term"
)

type disposition struct {
	action Action
	delay  time.Duration
}

// unknownErrorDelay is how long a message rests after an error that is not in
// the table: long enough not to spin on a fault of ours.
const unknownErrorDelay = 5 * time.Second

// dispositions is the table at the bus edge. A run hint only says "this call
// may be queued", so most verdicts of the store mean that there is nothing to
// run (any more), which is an acknowledgement. Verdicts on a request that a
// run cannot make are terminated: seeing the message again cannot help.
var dispositions = map[error]disposition{
	model.ErrNotFound:             {Term, 0}, // forged, or of a database that was replaced
	model.ErrNotPermitted:         {Term, 0},
	model.ErrInvalid:              {Term, 0},
	model.ErrTurnConflict:         {Term, 0},
	model.ErrMessageConflict:      {Term, 0},
	model.ErrTurnOpen:             {Term, 0},
	model.ErrTurnEnded:            {Ack, 0}, // the call was stopped with its turn
	model.ErrContinuationAccepted: {Ack, 0},
	model.ErrContinuationEnded:    {Ack, 0},
	model.ErrDecisionIDReused:     {Term, 0},
	model.ErrAlreadyDecided:       {Ack, 0},
	model.ErrApprovalClosed:       {Ack, 0},
	model.ErrCardStale:            {Ack, 0}, // the store stopped the call and says why on its row
	model.ErrNotClaimable:         {Ack, 0},
	model.ErrFenceLost:            {Ack, 0}, // a later attempt has a message of its own
	model.ErrResultConflict:       {Ack, 0},
	model.ErrAttemptMayBeAlive:    {Ack, 0},
	model.ErrAlreadyResolved:      {Ack, 0},
	model.ErrNotUnknown:           {Ack, 0},
	model.ErrVersionUnknown:       {Nak, time.Second},
	model.ErrUnavailable:          {Nak, 2 * time.Second},
	model.ErrIllegalTransition:    {Term, 0}, // a fault of ours; the row keeps the truth and the sweep its watch
}

// Disposition says what to do with a delivered message after err, which may
// wrap a sentinel of pkg/model; nil is [Ack]. The delay belongs to [Nak].
func Disposition(err error) (Action, time.Duration) {
	if err == nil {
		return Ack, 0
	}
	for _, sentinel := range model.Sentinels {
		if d, ok := dispositions[sentinel]; ok && errors.Is(err, sentinel) {
			return d.action, d.delay
		}
	}
	return Nak, unknownErrorDelay
}
