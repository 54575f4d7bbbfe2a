package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Schedule says how requests go that ask for nothing themselves: by chance,
// the same for the same seed, input and number of the try, whatever the order
// in which requests come.
type Schedule struct {
	Seed    uint64            `json:"seed"`
	Weights map[Behaviour]int `json:"weights"` // none: every request is answered
}

func (s Schedule) check() error {
	for b := range s.Weights {
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

// draw is the behaviour of the n-th request of a call.
func (s Schedule) draw(input [sha256.Size]byte, n int) Behaviour {
	names, total := make([]Behaviour, 0, len(s.Weights)), uint64(0)
	for b, weight := range s.Weights {
		names, total = append(names, b), total+uint64(max(weight, 0))
	}
	if total == 0 {
		return Answer
	}
	slices.Sort(names)
	seed := binary.BigEndian.AppendUint64(input[:], s.Seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(seed, uint64(n)))
	at := binary.BigEndian.Uint64(sum[:]) % total
	for _, b := range names {
		weight := uint64(max(s.Weights[b], 0))
		if at < weight {
			return b
		}
		at -= weight
	}
	return Answer
}
