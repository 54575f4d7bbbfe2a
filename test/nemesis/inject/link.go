package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/test/nemesis/proxy"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// faults are what each kind does to a link's proxy.
var faults = map[schedule.Kind]proxy.Faults{
	schedule.Cut:      {Refuse: true},
	schedule.Snap:     {Latency: 200 * time.Millisecond},
	schedule.Delay:    {Latency: 50 * time.Millisecond, Jitter: 250 * time.Millisecond},
	schedule.HalfOpen: {LoseUp: true, LoseDown: true, Swallow: true},
	schedule.LoseBack: {LoseDown: true},
	schedule.LoseTo:   {LoseUp: true},
}

// link breaks a link and heals it. What a half-open connection held back goes
// with it, as it would behind a router that forgot it.
func (i *Injector) link(ctx context.Context, f schedule.Fault) (string, error) {
	link := i.site.Link(f.Target)
	if link == nil {
		return "", errors.New("there is no such link")
	}
	before, wrong := link.Counts(), faults[f.Kind]
	if f.Kind == schedule.Delay && strings.HasSuffix(f.Target, ">redis") {
		// Within the time for which Redis is waited for: what is late there
		// arrives, behind what the other node sent later.
		wrong = proxy.Faults{Latency: 40 * time.Millisecond}
	}
	if err := link.Set(wrong); err != nil {
		return "", err
	}
	if f.Kind == schedule.Cut {
		link.Cut()
	}
	pause(ctx, f.For)
	switch f.Kind {
	case schedule.Snap, schedule.HalfOpen, schedule.LoseBack:
		link.Cut()
	}
	return did(before, link.Counts()), link.Heal()
}

// did says what a link's fault did; "" when nobody used it.
func did(before, after proxy.Counts) string {
	cut, lost := after.Cut-before.Cut, after.Lost-before.Lost
	late, swallowed := after.Delayed-before.Delayed, after.Swallowed-before.Swallowed
	if cut+lost+late+swallowed == 0 {
		return ""
	}
	return fmt.Sprintf("%d connections reset, %d pieces lost, %d late, %d connections swallowed", cut, lost, late, swallowed)
}
