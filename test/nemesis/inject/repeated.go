package inject

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/test/nemesis/rows"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// again is how often what is repeated comes within the time of its fault.
const again = 150 * time.Millisecond

// repeated does something again and again for its time. A try that meets a
// server which is away counts for nothing.
func (i *Injector) repeated(ctx context.Context, f schedule.Fault) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	random := rand.New(rand.NewPCG(f.Seed, 1))
	sum, last := 0, error(nil)
	for ok := true; ok; ok = pause(ctx, again) {
		n, err := i.once(ctx, f.Kind, random)
		if err != nil {
			last = err
		} else {
			sum += n
		}
	}
	if sum == 0 {
		return "", last
	}
	return fmt.Sprintf("%d times", sum), nil
}

func (i *Injector) once(ctx context.Context, kind schedule.Kind, random *rand.Rand) (int, error) {
	switch kind {
	case schedule.Backends:
		return i.rows.TerminateBackends(ctx, 1+random.IntN(3))
	case schedule.RedisFlush:
		_, err := i.redis("FLUSHALL")
		return 1, err
	}
	some, err := i.rows.SomeCalls(ctx, 8)
	if err != nil {
		return 0, err
	}
	if kind == schedule.RedisPoison {
		return i.poison(some, random)
	}
	return i.forge(ctx, some, random)
}

// poison puts into Redis what is no entry: no hash, another topic's, of a
// version that cannot be.
func (i *Injector) poison(some []rows.SomeCall, random *rand.Rand) (int, error) {
	for range some {
		key, err := i.redis("RANDOMKEY")
		if err != nil || !strings.HasPrefix(key, "ts:") {
			return 0, err
		}
		command := []string{
			"SET " + key + " garbage",
			"HSET " + key + ` v 9007199254740993 body {"status":"done"}`,
			"HSET " + key + " v 3 id somebody:else body {}",
			"HSET " + key + " v -1 body <<<",
			"DEL " + key,
		}[random.IntN(5)]
		if _, err := i.redis(command); err != nil {
			return 0, err
		}
	}
	return len(some), nil
}

// redis sends one command of plain words, and gives the last line of its
// answer.
func (i *Injector) redis(command string) (string, error) {
	conn, err := net.DialTimeout("tcp", i.site.RedisAddress(), time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	words := strings.Fields(command)
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, out.String()); err != nil {
		return "", err
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	lines := strings.Split(strings.TrimSpace(string(answer[:n])), "\r\n")
	return lines[len(lines)-1], err
}

// forge publishes run messages for calls in whatever state, some of them
// twice, some with a tenant or a fence that is not theirs, and signals of
// versions that are old or never were.
func (i *Injector) forge(ctx context.Context, some []rows.SomeCall, random *rand.Rand) (int, error) {
	var hints []bus.RunHint
	var signals []bus.Signal
	for _, c := range some {
		hint := bus.RunHint{Tenant: model.TenantID(c.Tenant), Call: model.CallID(c.Call), Fence: c.Fence, Publish: int64(c.Published)}
		switch random.IntN(4) {
		case 0:
			hint.Publish += 1000 + int64(random.IntN(1000)) // not taken for a duplicate
		case 1:
			hint.Publish += 1000 + int64(random.IntN(1000))
			hint.Fence += int64(random.IntN(3))
		case 2:
			hint.Tenant = "nobody"
		}
		hints = append(hints, hint, hint)
		signal := bus.Signal{Tenant: model.TenantID(c.Tenant), Topic: model.TopicID(c.Topic), Version: c.Version}
		if random.IntN(2) == 0 {
			signal.Version += int64(random.IntN(5)) - 2
		}
		signals = append(signals, signal, signal)
	}
	published, err := i.bus.PublishRuns(ctx, hints)
	if len(published) == 0 {
		return 0, err
	}
	_ = i.bus.PublishSignals(ctx, signals) // hints; what was published counts
	return len(published), nil
}
