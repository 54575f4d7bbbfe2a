package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/egress"
	rules "github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/worker/model"
)

// ModelConfig is the configuration of the model loop.
type ModelConfig struct {
	BaseURL      daemon.URL    `name:"base-url" env:"COUNTERSIGN_MODEL_BASE_URL" placeholder:"URL" help:"Of a provider that speaks OpenAI's chat completions, such as https://api.openai.com/v1. Without it this worker answers no continuation itself."`
	APIKey       daemon.Secret `name:"api-key" env:"COUNTERSIGN_MODEL_API_KEY" placeholder:"KEY" help:"The provider's key, if it wants one."`
	Name         string        `name:"name" env:"COUNTERSIGN_MODEL_NAME" placeholder:"MODEL" help:"The model to ask where a turn names none, as the provider calls it."`
	SystemPrompt string        `name:"system-prompt" env:"COUNTERSIGN_MODEL_SYSTEM_PROMPT" placeholder:"TEXT" help:"What the model is told first where a turn says nothing else."`
	Slots        int           `name:"slots" env:"COUNTERSIGN_MODEL_SLOTS" default:"32" help:"Answers that stream at once."`
	Poll         time.Duration `name:"poll" env:"COUNTERSIGN_MODEL_POLL" default:"3s" help:"How often free slots look for continuations themselves, which is what answers with NATS off."`
	Silence      time.Duration `name:"silence" env:"COUNTERSIGN_MODEL_SILENCE" default:"2m" help:"How long the provider may say nothing before it is asked again."`
	Expiry       time.Duration `name:"expiry" env:"COUNTERSIGN_DEFAULT_EXPIRY" default:"168h" help:"How long the approvals of the model's calls stay open."`
}

// loop is the model loop, or nothing where no model is set.
type loop struct{ *model.Loop }

func newLoop(cfg ModelConfig, s *store.Store, b *bus.Bus, out *egress.Egress, log *slog.Logger, t *daemon.Telemetry) (loop, error) {
	switch {
	case cfg.BaseURL == "":
		return loop{}, nil
	case cfg.Name == "":
		return loop{}, errors.New("--model-name or COUNTERSIGN_MODEL_NAME must be set where COUNTERSIGN_MODEL_BASE_URL is")
	}
	provider, err := model.NewProvider(out.HTTPClient(0), cfg.BaseURL.Reveal(), cfg.APIKey.Reveal())
	if err != nil {
		return loop{}, err
	}
	return loop{model.New(s, b, provider, model.Options{
		Ask:   rules.Ask{Model: cfg.Name, System: cfg.SystemPrompt},
		Slots: cfg.Slots, Poll: cfg.Poll, Expiry: cfg.Expiry, Silent: cfg.Silence,
	}, log, t.Tracer, t.Meter)}, nil
}

func (l loop) run(ctx context.Context) error {
	if l.Loop == nil {
		<-ctx.Done()
		return nil
	}
	return l.Run(ctx)
}

func (l loop) kill() {
	if l.Loop != nil {
		l.Kill()
	}
}
