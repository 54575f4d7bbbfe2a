package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bus is one connection to NATS. It reconnects for ever; everything that
// needs the server returns [ErrDisconnected] or waits, by its own description,
// while the server is away.
type Bus struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	opts    options
	metrics *metrics

	up        atomic.Bool
	closing   atomic.Bool
	listeners listeners
	repair    repair
	outbox    *Dirty
	settling  settling
	chunks    chunkStream

	done      chan struct{} // closed by Close
	publisher sync.WaitGroup
}

// Connect connects in the background: it fails only when the url or a file it
// names makes no sense, never because the server is away. The name is shown
// by the server's monitoring and begins the reply subjects (_INBOX_<name>),
// so that permissions can keep one service from reading another's replies.
func Connect(url, name string, log *slog.Logger, opts ...Option) (*Bus, error) {
	b := &Bus{log: log.With("component", "bus"), opts: defaultOptions(), outbox: NewDirty(), repair: newRepair(),
		done: make(chan struct{})}
	for _, opt := range opts {
		opt(&b.opts)
	}
	var err error
	if b.metrics, err = newMetrics(b.opts.meter); err != nil {
		return nil, fmt.Errorf("make the counters of the bus: %w", err)
	}
	if b.nc, err = nats.Connect(url, b.clientOptions(name)...); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w; check the url and the files it needs", err)
	}
	b.js, err = jetstream.New(b.nc, jetstream.WithDefaultTimeout(b.opts.timing.api),
		jetstream.WithPublishAsyncMaxPending(maxPublishing), jetstream.WithPublishAsyncTimeout(b.opts.timing.publish))
	if err != nil {
		b.nc.Close()
		return nil, fmt.Errorf("set up JetStream: %w", err)
	}
	b.publisher.Go(b.publishSignals)
	// Every handler reads the connection's own state, and so does this: the
	// last of them leaves the truth, whatever their order.
	b.up.Store(b.nc.IsConnected())
	return b, nil
}

// maxPublishing bounds the stream publishes in flight: a burst beyond it
// waits for acknowledgements instead of filling the server's buffers.
const maxPublishing = 16_384

func (b *Bus) clientOptions(name string) []nats.Option {
	options := []nats.Option{
		nats.Name("countersign " + name),
		nats.CustomInboxPrefix("_INBOX_" + EncodeToken(name)),

		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), // the default gives up for good after two minutes
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 500*time.Millisecond),
		nats.IgnoreAuthErrorAbort(), // credentials may be repaired while we wait
		nats.ReconnectBufSize(-1),   // a publish while disconnected fails at once, never "perhaps later"

		nats.Timeout(2 * time.Second),       // for one attempt to connect
		nats.PingInterval(10 * time.Second), // a server that died silently is noticed within 40 s,
		nats.MaxPingsOutstanding(3),
		nats.FlusherTimeout(2 * time.Second), // one that stopped reading within 2 s
		nats.ReconnectOnFlusherError(),

		nats.ConnectHandler(b.onUp),
		nats.ReconnectHandler(b.onUp),
		nats.DisconnectErrHandler(b.onDown),
		nats.ErrorHandler(b.onAsyncError),
		nats.ClosedHandler(b.onConnectionGone),
	}
	if b.opts.credentials != "" {
		options = append(options, nats.UserCredentials(b.opts.credentials))
	}
	if b.opts.caFile != "" {
		options = append(options, nats.RootCAs(b.opts.caFile))
	}
	return options
}

// Connected tells whether the server can be reached now.
func (b *Bus) Connected() bool { return b.up.Load() }

// OnReconnect calls f, in a goroutine of its own, each time the server can be
// reached again (and the first time, if it was away at the start). Whatever
// was published meanwhile is missed: f reads it again from the rows. The
// returned function ends that.
func (b *Bus) OnReconnect(f func()) (cancel func()) { return b.listeners.add(f) }

// Close sends what is under way and disconnects; with a server that stopped
// reading it gives up after some seconds.
func (b *Bus) Close() {
	if !b.closing.CompareAndSwap(false, true) {
		return
	}
	close(b.done)
	b.publisher.Wait()
	b.settling.wait(2 * time.Second)
	if b.Connected() {
		_ = b.nc.FlushTimeout(time.Second) // what could not be sent is in its row
	}
	b.nc.Close()
}

func (b *Bus) onUp(nc *nats.Conn) {
	b.up.Store(nc.IsConnected())
	b.log.Info("connected to NATS", "server", nc.ConnectedUrlRedacted())
	b.askRepair()
	b.listeners.call()
}

func (b *Bus) onDown(nc *nats.Conn, err error) {
	b.up.Store(nc.IsConnected())
	if !b.closing.Load() {
		b.log.Warn("lost the connection to NATS, trying again", "error", err)
	}
}

func (b *Bus) onAsyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrSlowConsumer) && sub != nil {
		b.log.Warn("NATS delivers faster than messages are handled, some are dropped", "subject", sub.Subject)
		return // the subscription's own watch counts them and reads again
	}
	b.log.Warn("NATS reports an error", "error", err)
}

func (b *Bus) onConnectionGone(nc *nats.Conn) {
	b.up.Store(false)
	if !b.closing.Load() {
		b.opts.onClosed(fmt.Errorf("the connection to NATS is closed for good: %w", nc.LastError()))
	}
}

// listeners are called when the server can be reached again.
type listeners struct {
	mu   sync.Mutex
	next int
	all  map[int]func()
}

func (l *listeners) add(f func()) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[int]func(){}
	}
	id := l.next
	l.next++
	l.all[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, id)
	}
}

func (l *listeners) call() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		go f()
	}
}

// wake sends on a channel that holds one message: the receiver only needs to
// know that there is something to look at.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
