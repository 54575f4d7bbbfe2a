package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lookEvery is how often [Store.Run] asks the servers who they are.
const lookEvery = 5 * time.Second

// Epoch names the stretch of the database's history between two failovers;
// "" before it was first reached, or where the server does not say. What was
// read in another epoch may hold versions that this one gives to other states.
func (s *Store) Epoch() string { return s.lineage.name() }

// Run looks for failovers until ctx ends. A new connection to a promoted
// standby shows one too; this also finds those behind an address that stays
// the same, and those that this node would learn of last, as its own server
// is the one that was replaced.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		s.findPrimary(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// findPrimary asks the server that is used, and all others that the URL names.
func (s *Store) findPrimary(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err == nil {
		var at place
		if at, err = placeOf(ctx, conn.Conn().PgConn()); err == nil && s.sees(at) != nil {
			_ = conn.Conn().Close(ctx) // the pool lets go of a connection that is closed
		}
		conn.Release()
	}
	for _, one := range s.servers {
		if conn, err := pgconn.ConnectConfig(ctx, one); err == nil {
			if at, err := placeOf(ctx, conn); err == nil {
				_ = s.sees(at)
			}
			_ = conn.Close(ctx)
		}
	}
}

// each gives a configuration for each server that the URL names, or none when
// it names only one, which the pool asks.
func each(config *pgx.ConnConfig) []*pgconn.Config {
	if len(config.Fallbacks) == 0 {
		return nil
	}
	var all []*pgconn.Config
	for _, server := range append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...) {
		one := config.Config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = server.Host, server.Port, server.TLSConfig, nil
		one.ValidateConnect, one.ConnectTimeout = nil, time.Second
		all = append(all, one)
	}
	return all
}

// validate lets no connection be made to a server that has been replaced.
func (s *Store) validate(config *pgxpool.Config) {
	before := config.ConnConfig.ValidateConnect
	config.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		at, err := placeOf(ctx, conn)
		if err != nil {
			return err
		}
		return s.sees(at)
	}
}

// sees takes the place of a server that was reached; the error refuses it. A
// failover ends every connection to what was there before.
func (s *Store) sees(at place) error {
	moved, err := s.lineage.sees(at)
	if err != nil {
		s.metrics.stale()
		s.log.Warn("a database server that has been replaced takes connections; it is not used", "timeline", at.timeline)
		return err
	}
	if moved {
		s.metrics.failover()
		s.log.Warn("the database failed over", "timeline", at.timeline, "system", at.system)
		s.pool.Reset()
		s.hot.Reset()
		s.lineage.settle()
		go s.failedOver()
	}
	return nil
}

// failedOver finds out what the new primary does not have, which is nothing
// where commits wait for it, and tells whoever holds what he read before.
func (s *Store) failedOver() {
	s.audit(s.acked.take())
	s.moved()
}

// audit compares what was acknowledged with what is there. What is missing
// is lost for good; people have to be told (I3).
func (s *Store) audit(acknowledged map[TopicKey]int64) {
	keys := make([]TopicKey, 0, len(acknowledged))
	for key := range acknowledged {
		keys = append(keys, key)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	versions, err := s.versionsUntil(ctx, keys)
	if err != nil {
		s.log.Error("what was acknowledged before the failover could not be compared with what is there", "topics", len(keys), "err", err)
		return
	}
	var lost []slog.Attr
	for key, version := range acknowledged {
		if versions[key] < version {
			lost = append(lost, slog.Group(string(key.Topic), "tenant", key.Tenant, "acknowledged", version, "now", versions[key]))
		}
	}
	if len(lost) == 0 {
		return
	}
	s.metrics.lose(len(lost))
	s.log.LogAttrs(ctx, slog.LevelError, "commits that were acknowledged are lost: the standby that took over did not have them",
		slog.Int("topics", len(lost)), slog.Any("some", slog.GroupValue(lost[:min(len(lost), 20)]...)))
}

// versionsUntil reads until the new primary answers.
func (s *Store) versionsUntil(ctx context.Context, keys []TopicKey) (map[TopicKey]int64, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		versions, err := s.Versions(ctx, keys)
		if err == nil {
			return versions, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}
