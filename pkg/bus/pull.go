package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// puller receives the messages of one durable consumer, never asking for more
// than there are free slots.
//
// It works in sessions. A session has one reply subject, on which all its
// pull requests are answered, and counts how many messages it has asked for
// and not been given. Everything that makes that count doubtful (the server
// was away, the consumer or its stream is gone, silence where heartbeats
// should be) ends the session; the next one makes sure that stream and
// consumer exist and starts with nothing asked for.
type puller struct {
	bus      *Bus
	kind     string
	stream   string
	consumer jetstream.ConsumerConfig
	slots    *Slots
	deliver  func(*nats.Msg)
}

// run pulls until ctx ends and returns nil then.
func (p *puller) run(ctx context.Context) error {
	up := make(chan struct{}, 1)
	defer p.bus.OnReconnect(func() { wake(up) })()
	pause := p.bus.opts.timing.backoff
	for {
		started := time.Now()
		err := p.session(ctx, up)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, ErrDisconnected) { // the connection has its own log line
			count(p.bus.metrics.rebuilds, 1, p.kind)
			level := slog.LevelWarn
			if errors.Is(err, errReconnected) { // it has one for this, too
				level = slog.LevelInfo
			}
			p.bus.log.Log(ctx, level, "setting the consumer up again", "stream", p.stream, "consumer", p.consumer.Durable, "reason", err)
		}
		if time.Since(started) > 10*time.Second {
			pause = p.bus.opts.timing.backoff
		}
		select {
		case <-ctx.Done():
			return nil
		case <-up:
			pause = p.bus.opts.timing.backoff
		case <-time.After(pause + rand.N(pause)):
			pause = min(2*pause, 20*p.bus.opts.timing.backoff)
		}
	}
}

var (
	errReconnected = errors.New("the server was away")
	errSilent      = errors.New("the server is silent about our pull requests")
	errStuck       = errors.New("messages wait although we pull")
)

func (p *puller) session(ctx context.Context, up <-chan struct{}) error {
	select {
	case <-up: // what it tells is covered by what follows
	default:
	}
	if err := p.ensureConsumer(ctx); err != nil {
		return err
	}
	s := &session{
		puller:  p,
		inbox:   make(chan *nats.Msg, 2*p.slots.Size()+256), // messages asked for, and a status for each request
		silence: time.NewTimer(time.Hour),
		checked: make(chan error, 1),
	}
	var err error
	s.reply = p.bus.nc.NewInbox()
	if s.sub, err = p.bus.nc.ChanSubscribe(s.reply, s.inbox); err != nil {
		return fmt.Errorf("subscribe to the replies: %w", plainError(err))
	}
	defer s.retire(ctx)
	return s.loop(ctx, up)
}

// ensureConsumer makes the consumer, and its stream if that is gone.
func (p *puller) ensureConsumer(ctx context.Context) error {
	if !p.bus.Connected() {
		return ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, p.bus.opts.timing.api)
	defer cancel()
	_, err := p.bus.js.CreateOrUpdateConsumer(ctx, p.stream, p.consumer)
	if streamMissing(err) {
		if err := p.bus.repairStreams(ctx); err != nil {
			return err
		}
		_, err = p.bus.js.CreateOrUpdateConsumer(ctx, p.stream, p.consumer)
	}
	if err != nil {
		return fmt.Errorf("make consumer %s of stream %s: %w; if it was changed by hand, delete it",
			p.consumer.Durable, p.stream, err)
	}
	return nil
}

// session is one unbroken stretch of pulling.
type session struct {
	*puller
	sub         *nats.Subscription
	reply       string
	inbox       chan *nats.Msg
	outstanding int         // messages asked for and not yet given or taken back
	silence     *time.Timer // runs while requests are outstanding
	received    time.Time   // when the last message came, or the session began
	checking    bool
	stuck       bool // the last check found messages waiting
	checked     chan error
}

func (s *session) loop(ctx context.Context, up <-chan struct{}) error {
	defer s.silence.Stop()
	released, cancel := s.slots.watch()
	defer cancel()
	watchdog := time.NewTicker(s.bus.opts.timing.watchdog)
	defer watchdog.Stop()
	s.received = time.Now()
	for {
		if err := s.pull(); err != nil {
			return err
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case msg := <-s.inbox:
			err = s.receive(msg)
		case <-released:
		case <-up:
			err = errReconnected
		case <-s.silence.C:
			if s.outstanding > 0 {
				err = errSilent
			}
		case <-watchdog.C:
			s.check(ctx)
		case err = <-s.checked:
			err = s.judge(err)
		}
		if err != nil {
			return err
		}
	}
}

// pull asks for the free slots that no request covers yet, once they are at
// least as many as those that one does. So a burst of N is asked for with one
// request, slots that free one by one cost log N requests instead of N, half
// of the free slots are always covered, and a lone free slot at once.
func (s *session) pull() error {
	uncovered := s.slots.Free() - s.outstanding
	if uncovered <= 0 || uncovered < s.outstanding {
		return nil
	}
	request, err := json.Marshal(pullRequest{
		Batch: uncovered, Expires: s.bus.opts.timing.pullExpiry, Heartbeat: s.bus.opts.timing.pullHeartbeat,
	})
	if err != nil {
		return err
	}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + s.stream + "." + s.consumer.Durable
	if err := s.bus.nc.PublishRequest(subject, s.reply, request); err != nil {
		return fmt.Errorf("pull: %w", plainError(err))
	}
	s.outstanding += uncovered
	s.expectNews()
	return nil
}

// pullRequest is the body of a JetStream pull request; durations in nanoseconds.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// expectNews gives the server two heartbeats and a bit to say something.
func (s *session) expectNews() { s.silence.Reset(5 * s.bus.opts.timing.pullHeartbeat / 2) }

// receive takes a message or what the server says about a pull request.
func (s *session) receive(msg *nats.Msg) error {
	s.expectNews()
	status := msg.Header.Get("Status")
	if status == "" || len(msg.Data) > 0 {
		s.outstanding--
		s.received, s.stuck = time.Now(), false
		s.take(msg)
		return nil
	}
	if status == "100" { // heartbeat
		return nil
	}
	left, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
	if (status == "408" || status == "409") && err == nil && left >= 0 && left <= s.outstanding {
		s.outstanding -= left // an expired request takes back what it was not given
		return nil
	}
	return fmt.Errorf("the server refuses a pull request: %s %s", status, msg.Header.Get("Description"))
}

// take hands a message over if a slot is free, which only somebody who took
// slots directly can have prevented; then it goes back for another worker.
func (s *session) take(msg *nats.Msg) {
	if s.slots.TryAcquire(1) == 0 {
		count(s.bus.metrics.surplus, 1, s.kind)
		s.bus.settle(s.kind, msg.Reply, `-NAK {"delay": 100000000}`)
		return
	}
	s.deliver(msg)
}

// retire ends the session without losing what is on its way: the server
// forgets the requests with the subscription, and what it sent before that is
// taken, or given back at once when ctx has ended.
func (s *session) retire(ctx context.Context) {
	if s.bus.Connected() && s.sub.Drain() == nil {
		_ = s.bus.nc.FlushTimeout(time.Second) // without an answer they come again after AckWait
	} else {
		_ = s.sub.Unsubscribe() // so that the subscription is not made again with the connection
	}
	for {
		select {
		case msg := <-s.inbox:
			switch {
			case msg.Header.Get("Status") != "" && len(msg.Data) == 0:
			case ctx.Err() != nil:
				s.bus.settle(s.kind, msg.Reply, "-NAK")
			default:
				s.take(msg)
			}
		default:
			return
		}
	}
}

// check is the watchdog: a consumer that has been given nothing for a while
// is looked at in the background. Clients and servers have had faults in
// which a healthy-looking pull request is never served.
func (s *session) check(ctx context.Context) {
	if s.checking || s.outstanding == 0 || time.Since(s.received) < s.bus.opts.timing.watchdog {
		return
	}
	s.checking = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, s.bus.opts.timing.api)
		defer cancel()
		consumer, err := s.bus.js.Consumer(ctx, s.stream, s.consumer.Durable)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			err = nil // no answer: the heartbeats tell whether the server is there
		case consumer.CachedInfo().NumPending > 0:
			err = errStuck
		}
		s.checked <- err
	}()
}

// judge takes the watchdog's finding. That messages wait counts only when two
// checks in a row find it: one may have caught a message just published.
func (s *session) judge(finding error) error {
	s.checking = false
	if errors.Is(finding, errStuck) && !s.stuck {
		s.stuck = true
		return nil
	}
	return finding
}
