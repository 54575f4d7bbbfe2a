package site

import (
	"context"
	"os"
	"syscall"
)

// RestartPostgres ends Postgres as a power cut would, waits as long as it is
// told, and starts it again. One that does not run is started alone.
func (s *Site) RestartPostgres(ctx context.Context, down func()) error {
	s.postgresMu.Lock()
	defer s.postgresMu.Unlock()
	if down != nil {
		if err := s.postgres.Kill(); err != nil {
			return err
		}
		down()
	} else if gone(s.postgres.Gone()) {
		_ = s.postgres.Kill() // which gives its folder back
	} else {
		return nil
	}
	return s.postgres.Start(ctx)
}

// RestartRedis is [Site.RestartPostgres] for Redis.
func (s *Site) RestartRedis(ctx context.Context, down func()) error {
	s.redisMu.Lock()
	defer s.redisMu.Unlock()
	if down != nil {
		if err := s.redis.Kill(); err != nil {
			return err
		}
		down()
	} else if gone(s.redis.Gone()) {
		_ = s.redis.Kill()
	} else {
		return nil
	}
	return s.redis.Start(ctx)
}

// RestartNATS ends NATS, and starts it again with its store or without.
func (s *Site) RestartNATS(wipe bool, down func()) error {
	node := s.nodes["nats"]
	if err := node.Stop(syscall.SIGKILL); err != nil {
		return err
	}
	down()
	if wipe {
		if err := os.RemoveAll(s.natsDir); err != nil {
			return err
		}
	}
	return node.Start()
}

func gone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
