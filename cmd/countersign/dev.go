package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/countersign/countersign/cmd/countersign/dev"
	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/pkg/daemon"
	worker "github.com/countersign/countersign/services/worker/server"
)

type devCmd struct {
	Data      string   `env:"COUNTERSIGN_DATA" type:"path" placeholder:"DIR" help:"Data folder (default: countersign in the user's state folder)."`
	Listen    string   `env:"COUNTERSIGN_LISTEN" default:"127.0.0.1:8787" help:"Address of the API and the page."`
	Origins   []string `name:"allow-origins" env:"COUNTERSIGN_ALLOW_ORIGINS" placeholder:"ORIGIN" help:"Web pages of other origins that may chat, follow and decide with a person's token."`
	ReadyFile string   `type:"path" placeholder:"FILE" help:"Written once everything answers: URL, key and the servers' addresses, as JSON."`

	DatabaseURL daemon.URL `name:"database-url" env:"COUNTERSIGN_DATABASE_URL" placeholder:"URL" help:"Postgres to use; one is started by default."`
	NATSURL     daemon.URL `name:"nats-url" env:"COUNTERSIGN_NATS_URL" placeholder:"URL" help:"NATS to use; one is started by default."`
	RedisURL    daemon.URL `name:"redis-url" env:"COUNTERSIGN_REDIS_URL" placeholder:"URL" help:"Redis to use; one is started by default."`

	Model worker.ModelConfig `embed:"" prefix:"model-"`
}

// Help is what countersign dev --help adds.
func (devCmd) Help() string {
	return `Postgres and Redis run as children, NATS and the three services in this process, all on private ports. The data
folder keeps everything and survives kill -9. For a first look and for tests; production runs the services apart.

Examples:
  countersign dev
  countersign dev --data /tmp/try --listen 127.0.0.1:9000 --ready-file /tmp/try.json`
}

// Run runs everything until it is interrupted.
func (c *devCmd) Run(ctx context.Context, p process) error {
	dir := c.Data
	if dir == "" {
		var err error
		if dir, err = devstate.DefaultDir(p.getenv); err != nil {
			return usageError{err}
		}
	}
	return dev.Run(ctx, dev.Options{
		Dir: filepath.Clean(dir), Listen: c.Listen, Origins: c.Origins, ReadyFile: c.ReadyFile, Out: p.out, Program: os.Args[0],
		DatabaseURL: c.DatabaseURL.Reveal(), NATSURL: c.NATSURL.Reveal(), RedisURL: c.RedisURL.Reveal(), Model: c.Model,
	})
}
