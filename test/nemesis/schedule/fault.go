package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what goes wrong.
type Kind string

// The kinds of faults, by what they happen to.
const (
	Kill      Kind = "kill"      // a service: SIGKILL, and a new start after the time
	Pause     Kind = "pause"     // a service: SIGSTOP for longer than a lease, then SIGCONT
	Terminate Kind = "terminate" // a service: SIGTERM, and a new start when it has ended

	PostgresKill Kind = "postgres-kill" // SIGKILL to all of it, and a new start
	Backends     Kind = "backends"      // pg_terminate_backend of some, again and again

	NATSKill  Kind = "nats-kill"
	NATSPause Kind = "nats-pause"
	NATSWipe  Kind = "nats-wipe" // killed, and started without its store

	RedisKill   Kind = "redis-kill"
	RedisFlush  Kind = "redis-flush"  // again and again
	RedisPoison Kind = "redis-poison" // entries are replaced by what is none

	Cut      Kind = "cut"       // a link: what is open is reset, nothing gets through
	Snap     Kind = "snap"      // a link: delayed for the time, then everything open is reset at once
	Delay    Kind = "delay"     // a link: every byte comes later
	HalfOpen Kind = "half-open" // a link: open connections fall silent in both directions
	LoseBack Kind = "lose-back" // a link: answers do not come
	LoseTo   Kind = "lose-to"   // a link: requests do not arrive

	Forge Kind = "forge" // run messages and signals that nobody sent, and real ones doubled

	ToolFails Kind = "tool-fails" // the tool does all that tools do
	ToolKill  Kind = "tool-kill"
)

// Fault is one fault of a plan.
type Fault struct {
	N      int           `json:"n"`
	Kind   Kind          `json:"kind"`
	Target string        `json:"target"` // api-0, worker-1>postgres, redis
	At     time.Duration `json:"at"`     // since the load began
	For    time.Duration `json:"for"`
	Seed   uint64        `json:"seed"` // of what the fault itself draws
}

func (f Fault) String() string {
	return fmt.Sprintf("%2d  %6.1fs  %-13s %-20s for %.1fs", f.N, f.At.Seconds(), f.Kind, f.Target, f.For.Seconds())
}

// Services are the processes that faults happen to, two of each service.
var Services = []string{"api-0", "api-1", "worker-0", "worker-1", "continuer-0", "continuer-1"}

// Links are the connections that faults happen to, "from>to".
var Links = links()

func links() []string {
	all := []string{"users>api-0", "users>api-1", "workers>tool", "continuers>backend"}
	for _, service := range Services {
		all = append(all, service+">postgres", service+">nats")
		if strings.HasPrefix(service, "api") {
			all = append(all, service+">redis")
		}
	}
	slices.Sort(all)
	return all
}
