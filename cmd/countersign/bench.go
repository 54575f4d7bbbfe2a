package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/countersign/countersign/cmd/countersign/bench"
)

type benchCmds struct {
	Trips   benchCmd        `cmd:"" default:"withargs" help:"Measure round trips per second, next to what the database could do."`
	Streams benchStreamsCmd `cmd:"" help:"Measure what open streams cost: delays, commits, memory."`
}

type benchCmd struct {
	InFlight []int         `default:"1,16,64,256" help:"Round trips at once, one measurement each."`
	For      time.Duration `default:"5s" help:"Length of each measurement."`
	Limit    bool          `negatable:"" default:"true" help:"Measure the limit with pgbench, in the same run."`
	JSON     bool          `name:"json" help:"Print one JSON document instead of the table."`

	DatabaseURL string `env:"COUNTERSIGN_DATABASE_URL" placeholder:"URL" help:"Postgres to measure; one of its own by default. Its rows stay."`
	NATSURL     string `name:"nats-url" env:"COUNTERSIGN_NATS_URL" placeholder:"URL" help:"NATS to measure with; one of its own by default."`
}

// Help is what countersign bench --help adds.
func (benchCmd) Help() string {
	return `One round trip: register a call that asks, approve it, run a tool that takes no time, have the continuation
delivered over JetStream, each step durable. Ratios to the limit L, measured in the same run, are what can be compared
between machines.

Examples:
  countersign bench
  countersign bench --in-flight 64 --for 20s --json
  countersign bench streams`
}

// Run measures and prints.
func (c *benchCmd) Run(ctx context.Context, p process) error {
	report, err := bench.Run(ctx, bench.Options{
		InFlight: c.InFlight, For: c.For, Limit: c.Limit, Progress: p.err, Log: slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		DatabaseURL: c.DatabaseURL, NATSURL: c.NATSURL,
	})
	if err != nil {
		return err
	}
	if c.JSON {
		out := json.NewEncoder(p.out)
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	return report.Print(p.out)
}
