package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/client"
)

// Options are what a backend needs to know.
type Options struct {
	URL string // of Countersign
	Key string // an API key with the role backend, and admin to read the webhook secret
	// Listen is where webhooks are received, "127.0.0.1:0" for any port.
	// Empty: no webhooks; continuations are polled for.
	Listen string
	// Think is how long the scripted model takes over an answer.
	Think time.Duration
	// Lease is how long an opened turn may take before another backend goes
	// on instead; 15 s if zero.
	Lease time.Duration
	Log   *slog.Logger
}

const (
	// lookEvery is how often new messages are looked for.
	lookEvery = 300 * time.Millisecond
	// overdue is how long a continuation may be open before it is taken
	// without having been told: the webhook was lost, or went to a backend
	// that is gone.
	overdue = 5 * time.Second
	// usualLease leaves a model, real or scripted, time to spare.
	usualLease = 15 * time.Second
	// acceptWithin is when a continuation that was told but not accepted is
	// told again.
	acceptWithin = 30 * time.Second
)

// Backend answers in conversations.
type Backend struct {
	options Options
	api     *client.Client
	log     *slog.Logger
	sink    *client.Sink
	// Two shortcuts, which may be lost: topics that did not change since they
	// were read, and turns of conversations that are not ours.
	seen    map[string]int64
	foreign map[string]bool
}

// Run answers until ctx ends.
func Run(ctx context.Context, o Options) error {
	if o.Lease == 0 {
		o.Lease = usualLease
	}
	b := &Backend{
		options: o, api: client.New(o.URL, o.Key), log: o.Log.With("component", "chat"),
		sink: &client.Sink{Type: "none"}, seen: map[string]int64{}, foreign: map[string]bool{},
	}
	if o.Listen == "" {
		return b.look(ctx, 0)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	b.sink = &client.Sink{Type: "webhook", URL: "http://" + listener.Addr().String() + webhookPath, AcceptWithin: acceptWithin.String()}
	server := &http.Server{Handler: b.webhooks(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = b.look(ctx, overdue)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Lease)
	defer cancel()
	_ = server.Shutdown(stopping) // what it did not finish, another takes over
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		return ended
	}
	return err
}

// look answers new messages, and takes continuations that have been open for
// longer than age, until ctx ends.
func (b *Backend) look(ctx context.Context, age time.Duration) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := errors.Join(b.answerNew(ctx), b.takeOpen(ctx, age))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			b.log.Warn("cannot go on, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// answerNew registers a first turn where a person waits for one.
func (b *Backend) answerNew(ctx context.Context) error {
	topics := client.All(func(cursor string) (client.Page[client.Topic], error) {
		return b.api.Topics(ctx, client.TopicFilter{Paging: client.Paging{Cursor: cursor, Limit: 100}})
	})
	for topic, err := range topics {
		if err != nil {
			return err
		}
		if b.seen[topic.ID] == topic.Version {
			continue
		}
		if err := b.answer(ctx, topic.ID); err != nil {
			return err
		}
		b.seen[topic.ID] = topic.Version
	}
	return nil
}

// answer registers the turn that answers a person. Its message is named after
// the person's, so two backends that do it register one and the same turn.
func (b *Backend) answer(ctx context.Context, topic string) error {
	c, err := b.read(ctx, topic)
	if err != nil || !c.asked() {
		return err
	}
	_, err = b.api.RegisterTurn(ctx, topic, client.TurnRequest{
		MessageID: "answer-" + c.request.ID, RequestedBy: "user:" + c.person, Sink: b.sink, Parts: c.next(),
	})
	if client.Is(err, "turn-open") || client.Is(err, "turn-conflict") || client.Is(err, "message-conflict") {
		return nil // another backend has answered
	}
	if err == nil {
		b.log.Info("answered a person", "topic", topic)
	}
	return err
}

// takeOpen goes on where nobody did. A webhook may still come for what is
// younger than age; what is told to nobody is taken at once, such as a message
// from a page that asks for its reply.
func (b *Backend) takeOpen(ctx context.Context, age time.Duration) error {
	for _, state := range []string{"ready", "dispatched"} {
		open := client.All(func(cursor string) (client.Page[client.Continuation], error) {
			return b.api.Continuations(ctx, client.ContinuationFilter{Paging: client.Paging{Cursor: cursor}, State: state})
		})
		for k, err := range open {
			if err != nil {
				return err
			}
			told := k.Sink != nil && k.Sink.Type == "webhook"
			if told && time.Since(k.ReadyAt) < age || b.foreign[k.Turn] {
				continue
			}
			ours, err := b.goOn(ctx, k, told && strings.HasSuffix(k.Sink.URL, webhookPath))
			if err != nil {
				return err
			}
			b.foreign[k.Turn] = !ours
		}
	}
	return nil
}

// goOn accepts a turn's continuation and says what the model says then. It
// reports whether the conversation is one of ours: told is that the
// continuation was told to this backend, or to one that is gone; and a person's
// message that asks for its reply, and tells nobody, is everybody's. An error
// means that it must be done again; that another backend was first is none.
func (b *Backend) goOn(ctx context.Context, k client.Continuation, told bool) (ours bool, err error) {
	topic, turn := k.Topic, k.Turn
	c, err := b.read(ctx, topic)
	if err != nil || !c.written && !told && k.MessageID != c.request.ID {
		return false, err
	}
	opened, err := b.api.OpenTurn(ctx, topic, client.OpenRequest{
		Continues: turn, Lease: b.options.Lease.String(), RequestedBy: "user:" + c.person, Sink: b.sink,
	})
	if client.Is(err, "continuation-accepted") || client.Is(err, "continuation-superseded") {
		return true, nil // another backend goes on, or nobody should
	}
	if err != nil {
		return true, err
	}
	return true, b.speak(ctx, topic, opened)
}
