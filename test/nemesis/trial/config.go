package trial

import (
	"io"
	"time"

	"github.com/countersign/countersign/test/nemesis/schedule"
)

// Config is what a run is told.
type Config struct {
	Seed     uint64
	Load     time.Duration // how long users work while faults come
	Rest     time.Duration // how long everything may take to come to rest after that
	Programs string        // where the programs are
	Dir      string        // the run's folder, which every user may enter
	Emphasis schedule.Emphasis
	Users    int // conversations at once
	Out      io.Writer

	// Narrow: the run looks for one thing, and need not have seen every other.
	Narrow bool
}

// defaults are a run's that nobody said more of.
func (c Config) withDefaults() Config {
	if c.Rest == 0 {
		c.Rest = 75 * time.Second
	}
	if c.Users == 0 {
		c.Users = 10
	}
	return c
}
