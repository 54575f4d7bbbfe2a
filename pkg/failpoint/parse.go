package failpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// action is what happens where a point fires.
type action string

const (
	kill   action = "kill"
	stop   action = "stop"
	fail   action = "error"
	delay  action = "delay"
	panics action = "panic"
)

// arming is one item of COUNTERSIGN_FAIL.
type arming struct {
	action action
	pause  time.Duration // of delay
	first  int           // the hit that fires, counted from 1
	times  int           // how many hits fire from there on
}

// fires tells whether the n-th hit does.
func (a arming) fires(n int) bool { return n >= a.first && n < a.first+a.times }

func (a arming) String() string {
	if a.action == delay {
		return fmt.Sprintf("delay(%s)", a.pause)
	}
	return string(a.action)
}

// parse reads the value of COUNTERSIGN_FAIL.
func parse(text string) (map[Point]arming, error) {
	armed := map[Point]arming{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, what, _ := strings.Cut(item, "=")
		if !slices.ContainsFunc(Points(), func(p Place) bool { return p.Point == Point(name) }) {
			return nil, fmt.Errorf("%q is no fail point; there are:\n%s", name, names())
		}
		one, err := parseAction(what)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		armed[Point(name)] = one
	}
	return armed, nil
}

var errAction = errors.New("what happens is one of kill, stop, error, delay(time) and panic, " +
	"then @n for the first hit that fires, then xm for how many do")

// parseAction reads action[@n][xm].
func parseAction(text string) (arming, error) {
	a := arming{first: 1, times: 1}
	what, counts, counted := strings.Cut(text, "@")
	if counted {
		first, times, several := strings.Cut(counts, "x")
		if !number(first, &a.first) || several && !number(times, &a.times) {
			return arming{}, errAction
		}
	}
	name, rest, waits := strings.Cut(what, "(")
	a.action = action(name)
	switch {
	case a.action == delay && waits && strings.HasSuffix(rest, ")"):
		pause, err := time.ParseDuration(strings.TrimSuffix(rest, ")"))
		if a.pause = pause; err != nil || pause < 0 {
			return arming{}, errAction
		}
	case waits, !slices.Contains([]action{kill, stop, fail, panics}, a.action):
		return arming{}, errAction
	}
	return a, nil
}

func number(text string, n *int) bool {
	got, err := strconv.Atoi(text)
	*n = got
	return err == nil && got > 0
}

func names() string {
	var out strings.Builder
	for _, p := range Points() {
		fmt.Fprintf(&out, "  %-28s %-10s %s\n", p.Point, p.Service, p.Gap)
	}
	return out.String()
}
