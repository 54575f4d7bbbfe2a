package daemon

import "time"

// Common is the part of the configuration that every service has; a service's
// own struct embeds it. Traces are configured by the standard OTEL_*
// variables.
type Common struct {
	DatabaseURL URL `name:"database-url" env:"COUNTERSIGN_DATABASE_URL" required:"" placeholder:"URL" help:"Postgres, which holds all state."`
	NATSURL     URL `name:"nats-url" env:"COUNTERSIGN_NATS_URL" default:"nats://127.0.0.1:4222" help:"NATS with JetStream, which carries hints. A list names the servers of a cluster."`
	Replicas    int `name:"nats-replicas" env:"COUNTERSIGN_NATS_REPLICAS" default:"0" help:"Servers of a NATS cluster that hold each stream: 3, or 5. 0 leaves streams that exist as they are, and makes new ones on one server."`
	RedisURL    URL `name:"redis-url" env:"COUNTERSIGN_REDIS_URL" default:"redis://127.0.0.1:6379/0" help:"Redis, which holds the topic status for fast reads."`

	LogLevel  string        `name:"log-level" env:"COUNTERSIGN_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"The least level to log: debug, info, warn, error."`
	LogFormat string        `name:"log-format" env:"COUNTERSIGN_LOG_FORMAT" default:"auto" enum:"auto,json,text" help:"json, text, or auto: text on a terminal, else json."`
	Grace     time.Duration `name:"grace" env:"COUNTERSIGN_GRACE" default:"30s" help:"How long work in progress may take to end after the first SIGTERM or SIGINT. A second one ends at once."`
}
