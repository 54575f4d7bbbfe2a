package streamed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	api "github.com/countersign/countersign/services/api/server"
)

// node is one api with its servers.
type node struct {
	url, key string
	store    *store.Store
	client   *client.Client
	stops    []func()
}

const tenant = model.TenantID("bench")

func start(ctx context.Context, log *slog.Logger) (n *node, err error) {
	n = &node{key: store.NewKey()}
	defer func() {
		if err != nil {
			n.stop()
		}
	}()
	common, err := n.servers(ctx)
	if err != nil {
		return n, err
	}
	if n.store, err = store.New(common.DatabaseURL.Reveal(), store.Options{Log: log}); err != nil {
		return n, err
	}
	n.stops = append(n.stops, n.store.Close)
	every := store.KeyRow{Name: "bench", Roles: []model.Role{model.RoleBackend, model.RoleViewer}}
	if err := n.store.EnsureTenant(ctx, tenant); err != nil {
		return n, err
	}
	if _, err := n.store.PutKey(ctx, tenant, every, n.key, "bench", "bench"); err != nil {
		return n, err
	}
	return n, n.serve(ctx, common, log)
}

// servers starts Postgres, NATS and Redis, on disk as in production.
func (n *node) servers(ctx context.Context) (c daemon.Common, err error) {
	dir, err := os.MkdirTemp("", "countersign-bench-")
	if err != nil {
		return c, err
	}
	n.stops = append(n.stops, func() { _ = os.RemoveAll(dir) })
	// Postgres may run as another user, who must be able to get in.
	if err := os.Chmod(dir, 0o711); err != nil {
		return c, err
	}
	postgres, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return c, err
	}
	n.stops = append(n.stops, func() { _ = postgres.Close() })
	nats, err := localservers.StartNATS(ctx, localservers.NATSOptions{Dir: filepath.Join(dir, "nats")})
	if err != nil {
		return c, err
	}
	n.stops = append(n.stops, func() { _ = nats.Close() })
	redis, err := localservers.StartRedis(ctx, localservers.RedisOptions{Dir: filepath.Join(dir, "redis")})
	if err != nil {
		return c, err
	}
	n.stops = append(n.stops, func() { _ = redis.Close() })
	return daemon.Common{DatabaseURL: daemon.URL(postgres.URL()), NATSURL: daemon.URL(nats.URL()), RedisURL: daemon.URL(redis.URL()),
		Grace: 30 * time.Second}, store.Migrate(ctx, postgres.URL())
}

// serve runs the api and waits until it answers.
func (n *node) serve(ctx context.Context, common daemon.Common, log *slog.Logger) error {
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- api.Run(ctx, api.Config{Common: common, Listen: address, DefaultExpiry: model.DefaultExpiry, MaxBody: 1 << 20, MaxConns: 8,
			SweepInterval: 2 * time.Second, ChatHold: time.Hour}, log)
	}()
	n.stops = append(n.stops, func() {
		cancel()
		if err := <-ended; err != nil {
			log.Warn("the api ended", "error", err)
		}
	})
	n.url = "http://" + address
	wide := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	n.client = client.New(n.url, n.key, client.WithHTTPClient(wide))
	for {
		response, err := http.Get(n.url + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("the api ended: %w", err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *node) stop() {
	for _, s := range slices.Backward(n.stops) {
		s()
	}
}
