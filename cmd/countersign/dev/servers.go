package dev

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/countersign/countersign/internal/localservers"
)

// servers are the three that everything stands on: named by the environment,
// or started here.
type servers struct {
	postgres, nats, redis string
	started               []func() error
	gone                  []<-chan struct{} // closed when a child ends by itself
}

func startServers(ctx context.Context, o Options, say func(string)) (*servers, error) {
	s := &servers{postgres: o.DatabaseURL, nats: o.NATSURL, redis: o.RedisURL}
	err := errors.Join(s.startPostgres(ctx, o, say), s.startNATS(ctx, o), s.startRedis(ctx, o))
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *servers) startPostgres(ctx context.Context, o Options, say func(string)) error {
	if s.postgres != "" {
		return nil
	}
	dir := filepath.Join(o.Dir, "postgres")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		say("making a database in " + dir)
	}
	log, err := logFile(o.Dir, "postgres.log")
	if err != nil {
		return err
	}
	p, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{Dir: dir, Log: log})
	if err != nil {
		return err
	}
	s.postgres = p.URL()
	s.started, s.gone = append(s.started, p.Close), append(s.gone, p.Gone())
	return nil
}

func (s *servers) startNATS(ctx context.Context, o Options) error {
	if s.nats != "" {
		return nil
	}
	log, err := logFile(o.Dir, "nats.log")
	if err != nil {
		return err
	}
	n, err := localservers.StartNATS(ctx, localservers.NATSOptions{Dir: filepath.Join(o.Dir, "nats"), Log: log})
	if err != nil {
		return err
	}
	s.nats, s.started = n.URL(), append(s.started, n.Close)
	return nil
}

func (s *servers) startRedis(ctx context.Context, o Options) error {
	if s.redis != "" {
		return nil
	}
	log, err := logFile(o.Dir, "redis.log")
	if err != nil {
		return err
	}
	r, err := localservers.StartRedis(ctx, localservers.RedisOptions{Dir: filepath.Join(o.Dir, "redis"), Log: log})
	if err != nil {
		return err
	}
	s.redis = r.URL()
	s.started, s.gone = append(s.started, r.Close), append(s.gone, r.Gone())
	return nil
}

// stop stops what was started here, the last first.
func (s *servers) stop() error {
	var err error
	for _, stop := range slices.Backward(s.started) {
		err = errors.Join(err, stop())
	}
	return err
}

func logFile(dir, name string) (io.Writer, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}
