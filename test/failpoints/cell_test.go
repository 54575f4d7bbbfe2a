package failpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/failpoint"
)

// cell is one point with one action in one flow.
type cell struct {
	row
	action string
}

func (c cell) String() string {
	name := c.name() + "=" + c.action
	if fault := c.fault(c.action); fault != "" {
		name = "fault " + fault + ": " + name
	}
	return name
}

// mostUnits bounds how many units go by until the point fires: each of them
// goes to the armed process or to the other one.
const mostUnits = 60

// play arms the point, lets units through until it fires, and waits until
// everything has come to rest.
func (c cell) play(t *testing.T, s *stage) {
	armed := s.armed(c.service())
	s.arm(t, armed, fmt.Sprintf("%s=%s@%d", c.place.Point, c.action, max(c.at, 1)), c.place.Point == failpoint.StreamsBeforeMake)
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	var ill error
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		ill = c.heal(ctx, armed)
	}()
	defer func() { // a cell that fails leaves nothing stopped behind
		cancel()
		<-healed
		_ = armed.Signal(syscall.SIGCONT)
	}()
	var units []*unit
	for n := 0; !fired(armed) && ctx.Err() == nil && n < mostUnits; n++ {
		u := s.begin(ctx, c.flow, n%c.nodes())
		units = append(units, u)
		if err := c.flow.run(u); err != nil {
			t.Fatalf("%s: %v", u.topic, err)
		}
		c.rest(ctx, t, u)
	}
	if !fired(armed) {
		t.Fatalf("it never fired, in %d units", len(units))
	}
	if <-healed; ill != nil {
		t.Fatalf("heal: %v", ill)
	}
	c.judge(ctx, t, units)
	s.keepsItsPromises(ctx, t)
}

// nodes is how many api nodes take turns in being asked first: where one is
// armed, always that one.
func (c cell) nodes() int {
	if c.service() == "api" {
		return 1
	}
	return 2
}

// armed is the process of a service in which points are armed.
func (s *stage) armed(service string) *cluster.Process {
	return map[string]*testcluster.Service{"api": s.API[0], "worker": s.Workers[0], "continuer": s.Continuers[0]}[service].Process
}

// arm starts a process again with a point armed. atStart: it may not live long
// enough to be ready.
func (s *stage) arm(t *testing.T, p *cluster.Process, spec string, atStart bool) {
	t.Helper()
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Fatalf("it did not end well: %v", err)
	}
	p.Log = &cluster.Output{}
	must(t, p.Start("COUNTERSIGN_FAIL="+spec))
	if !atStart {
		testcluster.Eventually(t, p.Name+" is ready", p.Ready)
	}
}

func fired(p *cluster.Process) bool { return p.Log.Contains(" fires: ") }

// heal waits until the point fires, and then starts what it killed, or lets
// go on what it stopped. It alone touches the process meanwhile.
func (c cell) heal(ctx context.Context, p *cluster.Process) error {
	err := cluster.Poll(ctx, func(context.Context) error {
		if !fired(p) {
			return errors.New("it did not fire")
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch c.action {
	case "kill":
		return startAgain(ctx, p)
	case "stop":
		select {
		case <-time.After(stopped):
		case <-ctx.Done():
		}
		if err := p.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	if c.flow.name == drainedWorker.name {
		return startAgain(ctx, p)
	}
	return nil
}

// startAgain waits for the end of a process and starts it with nothing armed.
func startAgain(ctx context.Context, p *cluster.Process) error {
	if err := p.Wait(); err != nil {
		return err
	}
	if err := p.Start("COUNTERSIGN_FAIL="); err != nil {
		return err
	}
	return cluster.Poll(ctx, p.Ready)
}

// rest waits until a unit is where units come to rest.
func (c cell) rest(ctx context.Context, t *testing.T, u *unit) {
	t.Helper()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		got, err := u.outcome(ctx)
		if err == nil && got != c.flow.normal && !slices.Contains(c.want(c.action), got) {
			err = fmt.Errorf("it is: %s", got)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s does not come to rest: %v", u.topic, err)
	}
}

// judge: what was struck is as the table says, and everything else as if
// nothing had happened. At most one unit was on its way at a time.
func (c cell) judge(ctx context.Context, t *testing.T, units []*unit) {
	t.Helper()
	want := c.want(c.action)
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		seen, struck := map[outcome]int{}, 0
		for _, u := range units {
			got, err := u.outcome(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", u.topic, err)
			}
			u.came = got
			if seen[got]++; got != c.flow.normal {
				struck++
			}
			if got != c.flow.normal && !slices.Contains(want, got) {
				return fmt.Errorf("%s is: %s", u.topic, got)
			}
		}
		if !slices.ContainsFunc(want, func(o outcome) bool { return seen[o] > 0 }) || struck > 1 {
			return fmt.Errorf("the outcomes are %v", seen)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("want one that is %q, and the others %q: %v", want, c.flow.normal, err)
	}
}
