package schedule

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Lease is how long workers and callers own what they claim in a run: short,
// so that a pause outlasts it.
const Lease = 3 * time.Second

// Emphasis bounds a plan to some kinds, and these to some targets; the zero
// value is everything.
type Emphasis struct {
	Kinds   []Kind
	Targets []string // "worker", "api-0>redis": what a target's name begins with
	Every   time.Duration
}

// deal says how often each kind is in a deck that is dealt from. Each is in
// it, so that a run that deals one deck has seen them all.
var deal = []struct {
	kind  Kind
	cards int
}{
	{Kill, 4}, {Pause, 3}, {Terminate, 2}, {PostgresKill, 1}, {Backends, 1}, {NATSKill, 1}, {NATSPause, 1}, {NATSWipe, 1},
	{RedisKill, 1}, {RedisFlush, 1}, {RedisPoison, 1}, {Cut, 2}, {Snap, 2}, {Delay, 2}, {HalfOpen, 2}, {LoseBack, 2}, {LoseTo, 1},
	{Forge, 1}, {ToolFails, 3}, {ToolKill, 1},
}

// Plan gives the faults of a run of that length, by time. Nothing happens
// twice at once to one target.
func Plan(seed uint64, length time.Duration, e Emphasis) []Fault {
	p := planner{rand: rand.New(rand.NewPCG(seed, 0x6e656d65736973)), emphasis: e, busy: map[string]time.Duration{}}
	every := e.Every
	if every == 0 {
		every = 1300 * time.Millisecond
	}
	for at := time.Second; ; {
		f, ok := p.next(at)
		if at += p.between(every/2, every*3/2); f.At+f.For > length || at > length {
			if at > length {
				return p.plan
			}
			continue
		}
		if ok {
			f.N = len(p.plan) + 1
			p.plan = append(p.plan, f)
		}
	}
}

type planner struct {
	rand     *rand.Rand
	emphasis Emphasis
	deck     []Kind
	busy     map[string]time.Duration
	plan     []Fault
}

func (p *planner) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(p.rand.Int64N(int64(most-least)))).Round(time.Millisecond)
}

// next draws a fault; false when its target is busy, and another moment may
// be better.
func (p *planner) next(at time.Duration) (Fault, bool) {
	f := Fault{Kind: p.draw(), At: at, Seed: p.rand.Uint64()}
	f.Target, f.For = p.target(f.Kind), p.lasting(f.Kind)
	if at < p.busy[f.Target] {
		p.deck = append(p.deck, f.Kind) // its turn comes again
		return f, false
	}
	p.busy[f.Target] = at + f.For + time.Second
	return f, true
}

func (p *planner) draw() Kind {
	if len(p.deck) == 0 {
		for _, d := range deal {
			for range d.cards {
				if p.wanted(d.kind) {
					p.deck = append(p.deck, d.kind)
				}
			}
		}
		p.rand.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	kind := p.deck[0]
	p.deck = p.deck[1:]
	return kind
}

func (p *planner) wanted(kind Kind) bool {
	for _, k := range p.emphasis.Kinds {
		if k == kind {
			return true
		}
	}
	return len(p.emphasis.Kinds) == 0
}

// target draws one of those that the kind happens to.
func (p *planner) target(kind Kind) string {
	var all []string
	switch kind {
	case Kill, Pause, Terminate:
		all = p.of(Services)
	case Cut, Snap, Delay, HalfOpen, LoseBack, LoseTo:
		all = p.of(Links)
	default:
		before, _, _ := strings.Cut(string(kind), "-")
		switch kind {
		case Backends:
			before = "postgres"
		case Forge:
			before = "bus"
		}
		return before
	}
	return all[p.rand.IntN(len(all))]
}

// of leaves the targets that the emphasis names, or all where it names none
// of them.
func (p *planner) of(all []string) []string {
	var out []string
	for _, target := range all {
		for _, prefix := range p.emphasis.Targets {
			if strings.HasPrefix(target, prefix) {
				out = append(out, target)
			}
		}
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// lasting draws how long a fault lasts.
func (p *planner) lasting(kind Kind) time.Duration {
	switch kind {
	case Pause:
		return p.between(Lease+500*time.Millisecond, Lease+2500*time.Millisecond)
	case HalfOpen, LoseBack, LoseTo, NATSPause:
		return p.between(time.Second, 6*time.Second)
	case Snap:
		return p.between(500*time.Millisecond, 1500*time.Millisecond)
	case Backends, RedisFlush, RedisPoison, Forge, Delay:
		return p.between(time.Second, 4*time.Second)
	case ToolFails:
		return p.between(2*time.Second, 6*time.Second)
	case NATSKill, NATSWipe:
		return p.between(200*time.Millisecond, 3*time.Second)
	}
	return p.between(100*time.Millisecond, 1500*time.Millisecond)
}
