package failpoint

import (
	"strings"
	"testing"
	"time"
)

func TestWhatIsArmedIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[Point]arming{
		"":                         {},
		"decide.after-commit=kill": {"decide.after-commit": {kill, 0, 1, 1}},
		"run.after-effect=stop@3":  {RunAfterEffect: {stop, 0, 3, 1}},
		"claim.before-commit=error@1x2, ack.before=delay(20ms)@2,sweep.before-signal=panic": {
			"claim.before-commit": {fail, 0, 1, 2}, AckBefore: {delay, 20 * time.Millisecond, 2, 1}, SweepBeforeSignal: {panics, 0, 1, 1},
		},
	} {
		got, err := parse(text)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		for p, a := range want {
			if got[p] != a {
				t.Errorf("%s: %s is %+v, want %+v", text, p, got[p], a)
			}
		}
	}
}

func TestWhatCannotBeArmedIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"decide.after=kill":            "append-messages.before-commit",
		"kill":                         "ack.before",
		"ack.before":                   "kill, stop, error, delay(time) and panic",
		"ack.before=explode":           "kill, stop, error",
		"ack.before=kill@0":            "@n",
		"ack.before=kill@1x":           "@n",
		"ack.before=kill(3s)":          "delay(time)",
		"ack.before=delay":             "delay(time)",
		"ack.before=delay(soon)":       "delay(time)",
		"ack.before=delay(3s":          "delay(time)",
		"ack.before=kill,nowhere=kill": "run.after-effect",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAPointFiresFromOneHitForSome(t *testing.T) {
	t.Parallel()
	a := arming{action: kill, first: 3, times: 2}
	for n, want := range map[int]bool{1: false, 2: false, 3: true, 4: true, 5: false} {
		if a.fires(n) != want {
			t.Errorf("hit %d fires: %v", n, !want)
		}
	}
}

// Every point is one place, with a service and a sentence.
func TestPointsAreToldApart(t *testing.T) {
	t.Parallel()
	seen := map[Point]bool{}
	for _, p := range Points() {
		if seen[p.Point] || p.Service == "" || !strings.HasSuffix(p.Gap, ".") {
			t.Errorf("%+v", p)
		}
		seen[p.Point] = true
	}
	if len(seen) < 40 {
		t.Errorf("there are only %d points", len(seen))
	}
}
