package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Behaviour is how one request goes.
type Behaviour string

// What a server can do. "Dies" ends the whole process by SIGKILL, every other
// request of it included.
const (
	Answer            Behaviour = "answer"              // the effect, and what it was
	Late              Behaviour = "late"                // the effect at once, the answer after the delay
	LateEffect        Behaviour = "late-effect"         // the effect after the delay, though the caller may have left, and the answer
	Hang              Behaviour = "hang"                // no effect and no answer
	HangAfterEffect   Behaviour = "hang-after-effect"   // the effect and no answer
	DieBeforeEffect   Behaviour = "die-before-effect"   //
	DieAfterEffect    Behaviour = "die-after-effect"    //
	CloseBeforeEffect Behaviour = "close-before-effect" // the connection is reset
	CloseAfterEffect  Behaviour = "close-after-effect"  //
	CloseInAnswer     Behaviour = "close-in-answer"     // after the effect, with half of the answer sent
	FailBeforeEffect  Behaviour = "500-before-effect"   //
	FailAfterEffect   Behaviour = "500-after-effect"    //
	Refuse            Behaviour = "refuse"              // a definite no: 409 and no effect
	Garbage           Behaviour = "garbage"             // the effect, answered with what is not JSON
	NUL               Behaviour = "nul"                 // the effect, answered with JSON that holds \u0000
	BadUTF8           Behaviour = "bad-utf8"            // the effect, answered with bytes that are no text
	Huge              Behaviour = "huge"                // the effect, answered with 2 MB of JSON
)

// Behaviours lists them all.
var Behaviours = []Behaviour{Answer, Late, LateEffect, Hang, HangAfterEffect, DieBeforeEffect, DieAfterEffect, CloseBeforeEffect,
	CloseAfterEffect, CloseInAnswer, FailBeforeEffect, FailAfterEffect, Refuse, Garbage, NUL, BadUTF8, Huge}

// defaultDelay is how late "late" is where nobody says.
const defaultDelay = 2 * time.Second

// wish is what a caller asks for.
type wish struct {
	behave Behaviour // empty: whatever the schedule says
	delay  time.Duration
	honour bool // one effect per idempotency key
}

// asked reads what the n-th request (from 1) of a call asks for. The input's
// fields count before those of the query:
//
//	behave  a behaviour, or several with commas between: the n-th request of
//	        a call takes the n-th, later ones take the last
//	delay   a Go duration
//	key     "honour" or "ignore", the default
func asked(query url.Values, input []byte, n int) (wish, error) {
	var fields struct{ Behave, Delay, Key string }
	if bytes.HasPrefix(bytes.TrimSpace(input), []byte("{")) {
		// An input of another shape asks for nothing; it is a tool's all the same.
		_ = json.Unmarshal(input, &fields)
	}
	w := wish{delay: defaultDelay}
	key := first(fields.Key, query.Get("key"))
	w.honour = key == "honour"
	if key != "" && key != "ignore" && !w.honour {
		return w, fmt.Errorf("key is honour or ignore, not %q", key)
	}
	if d := first(fields.Delay, query.Get("delay")); d != "" {
		var err error
		if w.delay, err = time.ParseDuration(d); err != nil {
			return w, err
		}
	}
	list := first(fields.Behave, query.Get("behave"))
	if list == "" {
		return w, nil
	}
	names := strings.Split(list, ",")
	w.behave = Behaviour(strings.TrimSpace(names[min(max(n, 1), len(names))-1]))
	return w, w.behave.check()
}

func (b Behaviour) check() error {
	if slices.Contains(Behaviours, b) {
		return nil
	}
	return fmt.Errorf("%w %q", errNoBehaviour, b)
}

var errNoBehaviour = errors.New("there is no behaviour")

// effect tells whether there is one before the answer is due.
func (b Behaviour) effect() bool {
	switch b {
	case Hang, DieBeforeEffect, CloseBeforeEffect, FailBeforeEffect, Refuse:
		return false
	}
	return true
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
