package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

func TestEverySentinelHasADisposition(t *testing.T) {
	t.Parallel()
	for _, sentinel := range model.Sentinels {
		want, ok := dispositions[sentinel]
		if !ok {
			t.Errorf("no disposition for %q: add it to the table", sentinel)
			continue
		}
		action, delay := Disposition(fmt.Errorf("claim call x: %w", sentinel))
		if action != want.action || delay != want.delay {
			t.Errorf("Disposition(%q) = %s %v, want %s %v", sentinel, action, delay, want.action, want.delay)
		}
		if (action == Nak) != (delay > 0) {
			t.Errorf("%q: a delay belongs to nak and only to it, got %s %v", sentinel, action, delay)
		}
	}
	if len(dispositions) != len(model.Sentinels) {
		t.Errorf("%d dispositions for %d sentinels", len(dispositions), len(model.Sentinels))
	}
}

func TestErrorsWithoutASentinelAreSeenAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("disk full"), context.DeadlineExceeded, context.Canceled} {
		if action, delay := Disposition(err); action != Nak || delay < time.Second {
			t.Errorf("Disposition(%v) = %s %v, want nak after a while", err, action, delay)
		}
	}
	if action, _ := Disposition(nil); action != Ack {
		t.Errorf("Disposition(nil) = %s, want ack", action)
	}
}
