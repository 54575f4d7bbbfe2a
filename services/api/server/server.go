// Package server is the api service, wired: HTTP and the page in, one
// transaction per request, signals out and back to whoever waits. Its main
// and `countersign dev` both run it.
//
// It starts with Postgres, NATS or Redis away: without Postgres it is not
// ready and answers 503, without the others it is slower.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/status"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uistream"
	"github.com/countersign/countersign/services/api/aisdk"
	"github.com/countersign/countersign/services/api/console"
	"github.com/countersign/countersign/services/api/httpapi"
	"github.com/countersign/countersign/services/api/watch"
)

// Config is the api's configuration.
type Config struct {
	daemon.Common

	Listen        string        `name:"listen" env:"COUNTERSIGN_LISTEN" default:"127.0.0.1:8787" help:"Address of the API and the page."`
	DefaultExpiry time.Duration `name:"default-expiry" env:"COUNTERSIGN_DEFAULT_EXPIRY" default:"168h" help:"How long an approval stays open when its turn does not say."`
	MaxBody       int64         `name:"max-body" env:"COUNTERSIGN_MAX_BODY" default:"1048576" help:"Bytes that one request's body may have."`
	RateLimit     float64       `name:"rate-limit" env:"COUNTERSIGN_RATE_LIMIT" default:"20000" help:"Requests per second that one API key may make of this node; 0 is no limit."`
	PersonRate    float64       `name:"person-rate-limit" env:"COUNTERSIGN_PERSON_RATE_LIMIT" default:"50" help:"Requests per second that one person may make of this node with tokens; 0 is no limit."`
	Origins       []string      `name:"allow-origins" env:"COUNTERSIGN_ALLOW_ORIGINS" placeholder:"ORIGIN" help:"Web pages of other origins (https://chat.example) that may chat, follow and decide with a person's token; none by default."`
	MaxConns      int32         `name:"max-conns" env:"COUNTERSIGN_API_MAX_CONNS" default:"8" help:"Connections to Postgres in each of two pools, reads and commits."`
	SweepInterval time.Duration `name:"sweep-interval" env:"COUNTERSIGN_API_SWEEP_INTERVAL" default:"2s" help:"How often what people and callers wait for is compared with its rows: the most that a lost signal can cost them."`
	ChatHold      time.Duration `name:"chat-hold" env:"COUNTERSIGN_CHAT_HOLD" default:"5m" help:"How long a chat client's response stays open while a tool runs or the answer is not begun; then it is told what is awaited."`
	Drain         time.Duration `name:"drain" env:"COUNTERSIGN_API_DRAIN" default:"3s" help:"How long requests are still answered after /readyz says that the node stops: what load balancers need to notice."`
	Approvals     daemon.Secret `name:"approval-secret" env:"COUNTERSIGN_APPROVAL_SECRET" placeholder:"SECRET" help:"Signs what chat clients are asked, as the AI SDK's experimental_toolApprovalSecret does, and refuses an answer in a chat body without such a signature; 16 characters at least, the same on every node. Nothing is signed by default."`
	Chat          bool          `name:"chat" env:"COUNTERSIGN_CHAT" help:"Let people write into a conversation on the page, for systems with a chat backend that answers."`
}

// Command parses the configuration and runs the service until ctx ends.
func Command(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cfg Config
	if err := daemon.Parse("api", "Answers chat backends and people: registers turns, takes decisions, shows what happens.",
		&cfg, args, getenv, stdout); err != nil {
		return err
	}
	log := daemon.NewLogger(stdout, cfg.LogFormat, cfg.LogLevel)
	daemon.Announce(log, &cfg, getenv)
	return Run(ctx, cfg, log)
}

// Run runs the service until ctx ends.
func Run(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	telemetry, err := daemon.NewTelemetry(ctx, "countersign-api", daemon.Version())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, telemetry.Shutdown(context.WithoutCancel(ctx))) }()
	telemetry.Install(log)

	b, err := bus.Connect(cfg.NATSURL.Reveal(), "api", log, bus.WithMeter(telemetry.Meter), bus.WithReplicas(cfg.Replicas))
	if err != nil {
		return err
	}
	defer b.Close()
	var n node
	s, err := store.New(cfg.DatabaseURL.Reveal(), store.Options{
		Log: log, Meter: telemetry.Meter, Changed: b.Announce, MaxConns: cfg.MaxConns, Moved: func() { n.hub.Moved() },
	})
	if err != nil {
		return err
	}
	defer s.Close()
	cache, err := status.New(cfg.RedisURL.Reveal(), log, status.WithMeter(telemetry.Meter), status.WithEpoch(s.Epoch))
	if err != nil {
		return err
	}
	defer cache.Close()
	origins, err := httpapi.ParseOrigins(cfg.Origins)
	if err != nil {
		return fmt.Errorf("--allow-origins or COUNTERSIGN_ALLOW_ORIGINS: %w", err)
	}
	signer, err := cfg.signer()
	if err != nil {
		return err
	}
	listener, err := daemon.Listen(cfg.Listen, "--listen or COUNTERSIGN_LISTEN")
	if err != nil {
		return err
	}
	n = node{cfg: cfg, log: log, telemetry: telemetry, store: s, bus: b, cache: cache, origins: origins, signer: signer}
	n.hub = watch.New(b, s, watch.Options{Log: log, Sweep: cfg.SweepInterval, Sign: aisdk.Signs(signer, uistream.V6)})
	n.projection = watch.NewProjection(b, s, cache, log, cfg.SweepInterval)
	health := n.health()
	defer context.AfterFunc(ctx, health.Drain)()
	handler := n.handler(health)
	return daemon.Run(ctx, log, cfg.Grace,
		daemon.Part{Name: "database", Run: s.Run},
		daemon.Part{Name: "hub", Run: n.hub.Run},
		daemon.Part{Name: "projection", Run: n.projection.Run},
		daemon.Part{Name: "http", Run: func(ctx context.Context) error { return daemon.Serve(ctx, listener, handler, cfg.Drain) }},
	)
}

// leastSecret is how many characters a secret must have that signs.
const leastSecret = 16

func (c Config) signer() (*uistream.Signer, error) {
	secret := c.Approvals.Reveal()
	if secret != "" && len(secret) < leastSecret {
		return nil, fmt.Errorf("--approval-secret or COUNTERSIGN_APPROVAL_SECRET: must have %d characters at least", leastSecret)
	}
	return uistream.NewSigner(secret), nil
}

// node is what one api node consists of.
type node struct {
	cfg        Config
	log        *slog.Logger
	telemetry  *daemon.Telemetry
	store      *store.Store
	bus        *bus.Bus
	cache      *status.Cache
	hub        *watch.Hub
	projection *watch.Projection
	origins    httpapi.Origins
	signer     *uistream.Signer
}

// handler is everything that the node answers.
func (n node) handler(health *daemon.Health) http.Handler {
	t := n.telemetry
	api := httpapi.New(httpapi.Deps{
		Store: n.store, Waiter: n.hub, Projections: n.projection, Events: n.hub, Log: n.log,
		Intake:         &aisdk.Intake{Chunks: n.bus, Signer: n.signer, Log: n.log},
		Windows:        aisdk.NewWindows(n.store, n.hub, n.bus, n.signer, n.cfg.ChatHold, n.log),
		Sign:           aisdk.Signs(n.signer, uistream.V6), // a form that both versions verify
		TracerProvider: t.TracerProvider, MeterProvider: t.MeterProvider, Propagator: t.Propagator,
	}, httpapi.Limits{DefaultExpiry: n.cfg.DefaultExpiry, Body: n.cfg.MaxBody, Rate: n.cfg.RateLimit, PersonRate: n.cfg.PersonRate}, n.origins)

	mux := http.NewServeMux()
	health.Routes(mux, t.Handler)
	page := console.New(console.Options{
		Rows: n.store, UseCases: api.UseCases(), Hub: n.hub, Authenticate: api.Principal, StillKnown: api.StillKnown, Log: n.log, Chat: n.cfg.Chat,
	})
	for _, path := range []string{"/{$}", "/topic", "/events", "/decide", "/say", "/login", "/logout", "/assets/"} {
		mux.Handle(path, page)
	}
	mux.Handle("/", api)
	return mux
}

// health is what the node needs, and what it is only faster with.
func (n node) health() *daemon.Health {
	health := daemon.NewHealth(n.log)
	health.Require("postgres", n.store.Ping)
	health.Watch("nats", n.bus.Check)
	health.Watch("redis", n.checkRedis)
	return health
}

// errRedisDown says that reads of topics go to Postgres meanwhile.
var errRedisDown = errors.New("Redis does not answer; reads of topics go to Postgres")

func (n node) checkRedis(context.Context) error {
	if n.cache.Down() {
		return errRedisDown
	}
	return nil
}
