package model

import (
	"strings"
	"testing"
	"time"
)

// A call of which an attempt had started never ends as one that did not run,
// whatever its effect, and whatever becomes of the next attempt.
func TestWhatHadStartedIsNeverSaidNotToHaveRun(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, turn *Turn, c *Call, at time.Time){
		"cancelled": func(_ *testing.T, turn *Turn, _ *Call, at time.Time) {
			turn.End(TurnAborted, OutcomeCancelled, TextCancelled, at)
		},
		"the last attempt sent nothing": func(t *testing.T, turn *Turn, c *Call, at time.Time) {
			for int(c.Fence) < c.Tool.MaxAttempts {
				claimAt(t, turn, at)
				if err := turn.Finish(c, c.Fence, c.ClaimToken, Result{Kind: ResultNothingSent, Text: "refused"}, at); err != nil {
					t.Fatal(err)
				}
				at = at.Add(time.Minute)
			}
		},
	}
	for _, effect := range []Effect{EffectRead, EffectIdempotent, EffectKeyed} {
		for name, end := range ends {
			turn, c := running(t, effect)
			at := start.Add(time.Minute)
			if err := turn.Finish(c, c.Fence, c.ClaimToken, Result{Kind: ResultUnknown, Text: "cut off"}, at); err != nil {
				t.Fatal(err)
			}
			if c.Run != RunQueued {
				t.Fatalf("%s, %s: its run is %s", effect, name, c.Run)
			}
			end(t, turn, c, at.Add(time.Minute))
			if c.Run == RunStopped || strings.Contains(c.ErrorText, "did not run") {
				t.Errorf("%s, %s: its run is %s: %s", effect, name, c.Run, c.ErrorText)
			}
			if turn.Err() != nil {
				t.Errorf("%s, %s: %v", effect, name, turn.Err())
			}
		}
	}
}
