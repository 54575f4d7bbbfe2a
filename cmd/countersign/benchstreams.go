package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/countersign/countersign/cmd/countersign/bench/streamed"
)

type benchStreamsCmd struct {
	Open     int           `default:"1000" help:"Windows, each on a live turn of its own."`
	Speaking int           `default:"100" help:"How many of these turns speak."`
	Rate     int           `default:"50" help:"Chunks per second of each turn that speaks."`
	For      time.Duration `default:"10s" help:"How long they speak."`
	Resume   int           `default:"10000" help:"Chunks of the message that is told again to a window that comes back."`
	JSON     bool          `name:"json" help:"Print one JSON document."`
}

// Help is what countersign bench streams --help adds.
func (benchStreamsCmd) Help() string {
	return `One api node on servers of its own, chat backends that stream into it, and windows that follow. A chunk's delay is
from the backend's send to the window's read, through the node and JetStream.

Examples:
  countersign bench streams
  countersign bench streams --open 5000 --speaking 50 --for 30s --json`
}

// Run measures and prints.
func (c *benchStreamsCmd) Run(ctx context.Context, p process) error {
	report, err := streamed.Run(ctx, streamed.Options{
		Open: c.Open, Speaking: c.Speaking, Rate: c.Rate, For: c.For, Resume: c.Resume, Progress: p.err,
		Log: slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
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
