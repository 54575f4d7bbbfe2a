package bus

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// testServer is a real nats-server in this process that can be stopped and
// started again on the same port.
type testServer struct {
	t    *testing.T
	port int
	dir  string
	mu   sync.Mutex
	srv  *server.Server
}

func startServer(t *testing.T) *testServer {
	t.Helper()
	s := &testServer{t: t, port: server.RANDOM_PORT, dir: t.TempDir()}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *testServer) start() {
	s.t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: s.port, JetStream: true, StoreDir: s.dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		s.t.Fatal("nats-server did not start within 10 s")
	}
	s.port = srv.Addr().(*net.TCPAddr).Port
	s.mu.Lock()
	s.srv = srv
	s.mu.Unlock()
}

func (s *testServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.srv = nil
	}
}

// wipe gives the next start an empty store.
func (s *testServer) wipe() { s.dir = s.t.TempDir() }

func (s *testServer) url() string { return "nats://127.0.0.1:" + strconv.Itoa(s.port) }

// testBus is a bus with short waits and counters that can be read.
type testBus struct {
	*Bus
	counts *counts
}

func connect(t *testing.T, url string, opts ...Option) *testBus {
	t.Helper()
	c := &counts{values: map[string]int64{}}
	opts = append([]Option{WithMeter(&meter{counts: c}), withShortWaits}, opts...)
	b, err := Connect(url, "test", slog.New(slog.DiscardHandler), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return &testBus{b, c}
}

// ready connects to a server and makes the streams.
func ready(t *testing.T, s *testServer, opts ...Option) *testBus {
	t.Helper()
	b := connect(t, s.url(), opts...)
	eventually(t, "connected", b.Connected)
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func withShortWaits(o *options) {
	o.timing.publish = 3 * time.Second
	o.timing.repair = 10 * time.Millisecond
	o.timing.pullHeartbeat = 200 * time.Millisecond
	o.timing.pullExpiry = time.Second
	o.timing.watchdog = 300 * time.Millisecond
	o.timing.backoff = 20 * time.Millisecond
	o.timing.dropCheck = 20 * time.Millisecond
}

// eventually polls until ok holds, for at most fifteen seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 15 s: %s", what)
		case <-tick.C:
		}
	}
}

// background runs f until the test ends, and waits for it.
func background(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

// counts holds what the counters of one bus have counted, by "name kind".
type counts struct {
	mu     sync.Mutex
	values map[string]int64
}

func (c *counts) get(name, kind string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[name+" "+kind]
}

// meter is the OpenTelemetry API's meter with counters that keep their sums.
type meter struct {
	noop.Meter
	counts *counts
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &counter{name: name[len("countersign.bus."):], counts: m.counts}, nil
}

type counter struct {
	noop.Int64Counter
	name   string
	counts *counts
}

func (c *counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	set := metric.NewAddConfig(opts).Attributes()
	kind, _ := set.Value(attribute.Key("kind"))
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.values[c.name+" "+kind.AsString()] += n
}
