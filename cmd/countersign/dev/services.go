package dev

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/countersign/countersign/examples/chat/backend"
	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	api "github.com/countersign/countersign/services/api/server"
	continuer "github.com/countersign/countersign/services/continuer/server"
	worker "github.com/countersign/countersign/services/worker/server"
)

// loopback is where a development system's tools and webhooks may be.
var loopback = []string{"127.0.0.0/8", "::1/128", "localhost"}

// services are the three, configured for one process.
func services(o Options, s *servers, log *slog.Logger) []daemon.Part {
	common := daemon.Common{
		DatabaseURL: daemon.URL(s.postgres), NATSURL: daemon.URL(s.nats), RedisURL: daemon.URL(s.redis), Grace: grace,
	}
	return []daemon.Part{
		{Name: "api", Run: func(ctx context.Context) error {
			return api.Run(ctx, api.Config{Common: common, Listen: o.Listen, DefaultExpiry: model.DefaultExpiry,
				MaxBody: 1 << 20, RateLimit: 20_000, PersonRate: 50, Origins: o.Origins, MaxConns: 8, ChatHold: 5 * time.Minute, Chat: true}, log.With("service", "api"))
		}},
		{Name: "worker", Run: func(ctx context.Context) error {
			listen, err := freeport.Address() // for its own health checks
			if err != nil {
				return err
			}
			return worker.Run(ctx, worker.Config{Common: common, Listen: listen, Slots: 16, Lease: time.Minute, Poll: 3 * time.Second,
				AllowTargets: loopback, Model: o.Model}, log.With("service", "worker"))
		}},
		{Name: "continuer", Run: func(ctx context.Context) error {
			listen, err := freeport.Address() // for its own health checks
			if err != nil {
				return err
			}
			return continuer.Run(ctx, continuer.Config{Common: common, Listen: listen, SweepInterval: 5 * time.Second, AuditInterval: time.Minute,
				AllowTargets: loopback}, log.With("service", "continuer"))
		}},
	}
}

// chatBackend is the demo's chat backend. It starts when the api answers.
func chatBackend(state devstate.State, log *slog.Logger) daemon.Part {
	return daemon.Part{Name: "chat backend", Run: func(ctx context.Context) error {
		if err := waitReady(ctx, state.URL); err != nil {
			return err
		}
		return backend.Run(ctx, backend.Options{URL: state.URL, Key: state.APIKey, Listen: "127.0.0.1:0", Think: 700 * time.Millisecond,
			Log: log.With("service", "chat")})
	}}
}

// answers tells whether a URL answers 200.
func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
