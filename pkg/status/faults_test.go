package status

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

func TestADeadServerCostsOneShortWaitThenNothingAndIsFoundAgain(t *testing.T) {
	t.Parallel()
	server := testservers.PrivateRedis(t)
	c := open(t, server.URL())
	c.put(t, entry("dead", "t", 1))
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	c.costsLittle(t)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.recovers(t)
}

func TestAServerThatDoesNotAnswerCostsOneShortWaitThenNothing(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	c := open(t, "redis://"+silent.Addr().String()+"/0")
	c.costsLittle(t)
}

// costsLittle shows it by what is sent rather than by a clock, which a busy
// machine bends: after the first call none touches the network, and pings do.
func (c *testCache) costsLittle(t *testing.T) {
	t.Helper()
	sent := &sent{}
	c.client.AddHook(sent)
	began := time.Now()
	if _, err := c.Get(t.Context(), "dead", []model.TopicID{"t"}); err == nil {
		t.Fatal("a dead server answered")
	}
	if took := time.Since(began); took > 5*defaultOptions().call { // the machine may be busy
		t.Errorf("the first call took %v", took)
	}
	if !c.Down() {
		t.Fatal("the breaker is closed after a failure")
	}
	eventually(t, "two pings looked for the server", func() bool {
		if err := c.Put(t.Context(), []Entry{entry("dead", "t", 1)}); !errors.Is(err, ErrDown) {
			t.Fatalf("got %v, want ErrDown", err)
		}
		return sent.pings.Load() >= 2
	})
	if n := sent.calls.Load(); n != 1 {
		t.Errorf("%d calls were sent to a dead server, want the first alone", n)
	}
}

// sent counts what the client sends.
type sent struct{ calls, pings atomic.Int64 }

func (*sent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			s.pings.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "hmget" || cmds[0].Name() == "evalsha" { // not the client's own greeting
			s.calls.Add(1)
		}
		return next(ctx, cmds)
	}
}

func (c *testCache) recovers(t *testing.T) {
	t.Helper()
	eventually(t, "Redis is known to be back, though nobody reads", func() bool { return !c.Down() })
	eventually(t, "Redis is used again", func() bool {
		return c.Put(t.Context(), []Entry{entry("dead", "t", 5)}) == nil
	})
	if got := c.version(t, "dead", "t"); got != 5 {
		t.Errorf("version %d, want 5", got)
	}
}

func TestACallerWhoLeavesDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, tenant, []model.TopicID{"t"}); err == nil {
		t.Error("an ended context was not reported")
	}
	c.put(t, entry(tenant, "t", 1))
	if c.Down() {
		t.Error("the breaker is open")
	}
}

func TestARefusalIsAnErrorButNotADeadServer(t *testing.T) {
	t.Parallel()
	server := testservers.PrivateRedis(t)
	admin := open(t, server.URL(), patient)
	err := admin.raw.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">word", "~ts:*", "+hmget", "+hello", "+ping", "+client").Err()
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, strings.Replace(server.URL(), "redis://", "redis://reader:word@", 1), patient)
	tenant := newTenant()
	if err := c.Put(t.Context(), []Entry{entry(tenant, "t", 1)}); err == nil || !contains(err.Error(), "NOPERM") {
		t.Errorf("the refusal was not reported: %v", err)
	}
	if c.Down() || c.counts.get("failed") != 1 {
		t.Errorf("down %v, counted %v", c.Down(), c.counts.values)
	}
	if got := c.version(t, tenant, "t"); got != 0 {
		t.Errorf("version %d", got)
	}
}
