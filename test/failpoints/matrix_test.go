package failpoints

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"

	"github.com/countersign/countersign/pkg/failpoint"
)

var (
	whole  = flag.Bool("matrix", false, "every point with every action, not a selection")
	update = flag.Bool("update", false, "write the table of outcomes into docs/reliability.md")
	seed   = flag.Uint64("seed", 1, "of the selection")
	only   = flag.String("only", "", "a pattern of the cells to play, such as ^run.*=kill$")
)

// lanes is how many stages play at once, whatever the number of processors:
// most of a cell's time is waiting, for a lease or for a sweep.
const lanes = 4

var actions = []string{"kill", "stop", "error"}

// I1 to I8 at every point, with every action; or at every point with one
// action, in one of its flows, chosen by the seed.
func TestMatrix(t *testing.T) {
	t.Parallel()
	cells := make(chan cell, 3*len(rows()))
	for _, c := range choose(t) {
		cells <- c
	}
	close(cells)
	var stages sync.WaitGroup
	for lane := range lanes {
		stages.Go(func() {
			t.Run(fmt.Sprintf("stage %d", lane), func(t *testing.T) { play(t, cells) })
		})
	}
	stages.Wait()
}

// play plays cells on a stage of its own as long as there are any.
func play(t *testing.T, cells <-chan cell) {
	s := newStage(t)
	s.consumeStream(t)
	for c := range cells {
		t.Run(c.String(), func(t *testing.T) { c.play(t, s) })
	}
	s.staysSo(t)
}

func choose(t *testing.T) (chosen []cell) {
	pattern := regexp.MustCompile(*only)
	random := rand.New(rand.NewPCG(*seed, 0))
	t.Logf("seed %d", *seed)
	for _, place := range failpoint.Points() {
		lines := rowsOf(place)
		drawn := random.IntN(len(lines))
		for i, r := range lines {
			one := r.pick(random)
			for _, action := range actions {
				c := cell{r, action}
				if (*whole || *only != "" || i == drawn && action == one) && pattern.MatchString(c.String()) {
					chosen = append(chosen, c)
				}
			}
		}
	}
	return chosen
}

// pick prefers what takes little time: a process that is stopped stays so for
// longer than a lease.
func (r row) pick(random *rand.Rand) string {
	n := random.IntN(10)
	switch {
	case r.long || n < 5:
		return "error"
	case n < 9:
		return "kill"
	}
	return "stop"
}
