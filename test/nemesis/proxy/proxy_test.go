package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/test/nemesis/proxy"
)

// patience bounds what must happen.
const patience = 30 * time.Second

// network is a target behind a proxy.
type network struct {
	t        *testing.T
	proxy    *proxy.Proxy
	accepted chan net.Conn // the target's sides
}

func listen(t *testing.T) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := &network{t: t, accepted: make(chan net.Conn, 16)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.accepted <- c
		}
	}()
	n.proxy, err = proxy.Listen("127.0.0.1:0", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { n.proxy.Close(); l.Close() })
	return n
}

// connect gives both ends of a connection through the proxy.
func (n *network) connect() (client, target *net.TCPConn) {
	n.t.Helper()
	c, err := net.Dial("tcp", n.proxy.Addr())
	must(n.t, err)
	n.t.Cleanup(func() { c.Close() })
	must(n.t, c.SetDeadline(time.Now().Add(patience)))
	select {
	case s := <-n.accepted:
		n.t.Cleanup(func() { s.Close() })
		must(n.t, s.SetDeadline(time.Now().Add(patience)))
		return c.(*net.TCPConn), s.(*net.TCPConn)
	case <-time.After(patience):
		n.t.Fatal("the target was not reached")
		return nil, nil
	}
}

func (n *network) set(f proxy.Faults) {
	n.t.Helper()
	must(n.t, n.proxy.Set(f))
}

func TestAGoodNetworkPassesEverythingBothWays(t *testing.T) {
	t.Parallel()
	n := listen(t)
	client, target := n.connect()
	question, answer := bytes.Repeat([]byte("question"), 1<<17), bytes.Repeat([]byte("answer"), 1<<17)
	go func() { client.Write(question); client.CloseWrite() }()
	got, err := io.ReadAll(target)
	if err != nil || !bytes.Equal(got, question) {
		t.Fatalf("%d bytes arrived, %v", len(got), err)
	}
	go func() { target.Write(answer); target.Close() }() // after the other stream's end
	got, err = io.ReadAll(client)
	if err != nil || !bytes.Equal(got, answer) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
	if c := n.proxy.Counts(); c.Connections != 1 || c.Up != int64(len(question)) || c.Down != int64(len(answer)) || c.Delayed+c.Lost+c.Cut != 0 {
		t.Errorf("%+v", c)
	}
}

func TestLatencyDelaysAndDoesNotAddUp(t *testing.T) {
	t.Parallel()
	n := listen(t)
	client, target := n.connect()
	const latency, sends = 100 * time.Millisecond, 50
	n.set(proxy.Faults{Latency: latency, Jitter: 20 * time.Millisecond})
	begin := time.Now()
	var want []byte
	for i := range byte(sends) {
		want = append(want, i)
		must(t, second(client.Write([]byte{i})))
	}
	got := make([]byte, sends)
	must(t, second(io.ReadFull(target, got)))
	took := time.Since(begin)
	if !bytes.Equal(got, want) {
		t.Errorf("out of order: %v", got)
	}
	if took < latency || took > sends*latency/2 {
		t.Errorf("it took %s", took)
	}
	if n.proxy.Counts().Delayed == 0 {
		t.Error("not counted")
	}
}

func TestCutResetsBothSidesAndNothingElse(t *testing.T) {
	t.Parallel()
	n := listen(t)
	client, target := n.connect()
	other, otherTarget := n.connect()
	for _, c := range n.proxy.Conns() {
		if c.From() == client.LocalAddr().String() {
			c.Cut()
			c.Cut() // is cut already
		}
	}
	wantReset(t, client)
	wantReset(t, target)
	passes(t, other, otherTarget)
	if got := n.proxy.Cut(); got != 1 {
		t.Errorf("cut %d", got)
	}
	wantReset(t, other)
	works(t, n)
	if c := n.proxy.Counts(); c.Cut != 2 {
		t.Errorf("%+v", c)
	}
}

func TestRefusedAndThenListeningAgainAtTheSameAddress(t *testing.T) {
	t.Parallel()
	n := listen(t)
	client, target := n.connect()
	n.set(proxy.Faults{Refuse: true})
	if c, err := net.Dial("tcp", n.proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialled %v, %v", c, err)
	}
	passes(t, client, target) // what is there stays
	must(t, n.proxy.Heal())
	works(t, n)
	if c := n.proxy.Counts(); c.Refused != 1 {
		t.Errorf("%+v", c)
	}
}

func TestAHalfOpenConnectionIsNeverAnswered(t *testing.T) {
	t.Parallel()
	n := listen(t)
	n.set(proxy.Faults{Swallow: true})
	client, err := net.Dial("tcp", n.proxy.Addr())
	must(t, err)
	defer client.Close()
	must(t, second(client.Write([]byte("hello"))))
	quiet(t, client.(*net.TCPConn))
	must(t, n.proxy.Heal())
	quiet(t, client.(*net.TCPConn)) // it stays what it is
	works(t, n)
	if c := n.proxy.Counts(); c.Swallowed != 1 || c.Connections != 2 {
		t.Errorf("%+v", c)
	}
}

func TestOneDirectionIsLostAndComesLater(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]proxy.Faults{"up": {LoseUp: true}, "down": {LoseDown: true}} {
		n := listen(t)
		from, to := n.connect()
		if f.LoseDown {
			from, to = to, from
		}
		n.set(f)
		must(t, second(from.Write([]byte("lost"))))
		quiet(t, to)
		passes(t, to, from) // the other way
		must(t, n.proxy.Heal())
		got := make([]byte, 4)
		if must(t, second(io.ReadFull(to, got))); string(got) != "lost" {
			t.Errorf("%s: %q came", name, got)
		}
		passes(t, from, to)
		if c := n.proxy.Counts(); c.Lost != 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestAConnectionIsCutAfterItsBytes(t *testing.T) {
	t.Parallel()
	n := listen(t)
	n.set(proxy.Faults{CutAfter: 10})
	client, target := n.connect()
	passes(t, client, target) // four
	go client.Write([]byte("0123456789"))
	got, err := io.ReadAll(target)
	if string(got) != "012345" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q came, %v", got, err)
	}
	if c := n.proxy.Counts(); c.Cut != 1 || c.Up+c.Down != 10 {
		t.Errorf("%+v", c)
	}
}

func TestAnEndThatArrivesLate(t *testing.T) {
	t.Parallel()
	n := listen(t)
	const late = 100 * time.Millisecond
	n.set(proxy.Faults{SlowClose: late})
	client, target := n.connect()
	begin := time.Now()
	must(t, client.CloseWrite())
	got, err := io.ReadAll(target)
	if took := time.Since(begin); err != nil || len(got) != 0 || took < late {
		t.Errorf("%q, %v, after %s", got, err, took)
	}
	if c := n.proxy.Counts(); c.Closed != 1 {
		t.Errorf("%+v", c)
	}
}

func TestATargetThatIsAwayHangsUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	p, err := proxy.Listen("127.0.0.1:0", l.Addr().String())
	must(t, err)
	defer p.Close()
	client, err := net.Dial("tcp", p.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return // it was told as early as that
	}
	must(t, err)
	defer client.Close()
	must(t, client.SetDeadline(time.Now().Add(patience)))
	if n, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v", n, err)
	}
}

// Not parallel: it looks at all goroutines.
func TestNothingIsLeftWhenItIsClosed(t *testing.T) {
	n := listen(t)
	idle, _ := n.connect()
	held, _ := n.connect()
	n.set(proxy.Faults{LoseUp: true})
	must(t, second(held.Write([]byte("held back"))))
	n.set(proxy.Faults{LoseUp: true, Latency: time.Hour, Swallow: true})
	late, err := net.Dial("tcp", n.proxy.Addr())
	must(t, err)
	defer late.Close()
	must(t, second(held.Write([]byte("late"))))
	must(t, n.proxy.Close())
	for _, c := range []net.Conn{idle, held, late} {
		must(t, c.SetDeadline(time.Now().Add(patience)))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection is open: %v", err)
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if strings.Contains(string(stacks), "nemesis/proxy.(*") {
		t.Errorf("goroutines are left:\n%s", stacks)
	}
	if err := n.proxy.Set(proxy.Faults{}); err == nil {
		t.Error("a closed proxy took faults")
	}
}

// passes shows that a direction works.
func passes(t *testing.T, from, to net.Conn) {
	t.Helper()
	must(t, second(from.Write([]byte("ping"))))
	got := make([]byte, 4)
	if must(t, second(io.ReadFull(to, got))); string(got) != "ping" {
		t.Errorf("%q came", got)
	}
}

// works shows that a new connection does, both ways.
func works(t *testing.T, n *network) {
	t.Helper()
	client, target := n.connect()
	passes(t, client, target)
	passes(t, target, client)
}

// quiet shows that nothing comes for a while.
func quiet(t *testing.T, c *net.TCPConn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v", n, err)
	}
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d, %v", n, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }
