package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

const (
	stressTime  = 6 * time.Second
	players     = 12
	stressSlots = 8 // topics, few enough that everybody meets everybody
)

// Everything at once, on three nodes: whatever callers, people, workers,
// sweeps and broken connections do to the same few topics, in whatever order,
// every commit leaves the rows consistent, and nothing that was acknowledged
// is lost (I1–I4). COUNTERSIGN_STRESS_SEED plays one order of wishes again.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("COUNTERSIGN_STRESS_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("COUNTERSIGN_STRESS_SEED=%d", seed)
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), stressTime)
	defer cancel()
	var all sync.WaitGroup
	for i := range players {
		all.Go(func() {
			p := player{world: w, rand: rand.New(rand.NewPCG(seed, uint64(i))), node: w.nodes[i%len(w.nodes)], name: fmt.Sprint("p", i)}
			for ctx.Err() == nil {
				p.act()
			}
		})
	}
	all.Go(func() { w.sweep(ctx, w.nodes[0]) })
	all.Go(func() { w.sweep(ctx, w.nodes[1]) })
	all.Go(func() { w.breakConnections(ctx, rand.New(rand.NewPCG(seed, 1000))) })
	all.Go(func() {
		for ctx.Err() == nil {
			if watchInvariants(t, w.nodes[2], Scope{Since: w.began.Add(-time.Minute)}) {
				w.told("verify", nil)
			}
			rest(ctx, time.Second)
		}
	})
	all.Wait()
	requireConsistent(t, w.nodes[0])
	requireInvariants(t, w.nodes[0], Scope{})
	w.requireAcknowledged()
	w.requireSomethingHappened()
}

// rest passes time, or what is left of it.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// world is what the players know: what they were told, and when.
type world struct {
	t     *testing.T
	began time.Time
	nodes [3]*Store
	tools []model.CallTool

	mu       sync.Mutex
	turns    []*model.Turn // as they were answered
	lives    []*model.Turn
	claims   []claimed
	verdicts map[model.ApprovalID]bool
	tokens   map[string]string // by call and fence
	outcomes map[string]int    // how often each wish was granted or refused
}

type claimed struct {
	call  model.CallID
	fence int64
	token string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	url := testservers.Database(t, Migrate)
	w := &world{t: t, began: time.Now(), verdicts: map[model.ApprovalID]bool{}, tokens: map[string]string{}, outcomes: map[string]int{}}
	for i := range w.nodes {
		w.nodes[i] = openAt(t, url)
	}
	if err := w.nodes[0].EnsureTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	for _, e := range []model.Effect{model.EffectUnsafe, model.EffectKeyed, model.EffectRead, model.EffectIdempotent} {
		w.tools = append(w.tools, putTool(t, w.nodes[0], "tool_"+string(e), e))
	}
	caller := w.tools[0]
	caller.Executor = model.ExecutorCaller
	w.tools = append(w.tools, caller)
	return w
}

// told notes what became of a wish. What nobody may ever be told is an error:
// a broken rule, or whatever is no answer of this package.
func (w *world) told(wish string, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.outcomes[wish]++
		return true
	}
	for _, known := range model.Sentinels {
		if errors.Is(err, known) && !errors.Is(known, model.ErrIllegalTransition) {
			w.outcomes[wish+": "+known.Error()]++
			return false
		}
	}
	w.t.Errorf("%s: %v", wish, err)
	return false
}

// sweep does all the time what the continuer does every few seconds.
func (w *world) sweep(ctx context.Context, s *Store) {
	for ctx.Err() == nil {
		for name, sweep := range map[string]func(context.Context) (int, error){
			"expire": s.ExpireApprovals, "lapse": s.LapseHolds, "lose leases": s.LoseLeases, "stop unclaimed": s.StopUnclaimed,
			"close dead turns": s.CloseDeadTurns, "fail continuations": s.FailContinuations, "link audit": s.LinkAudit,
		} {
			if n, err := sweep(context.WithoutCancel(ctx)); w.told("sweep", err) && n > 0 {
				w.told(name, nil)
			}
		}
		w.hurry(s)
		rest(ctx, 100*time.Millisecond)
	}
}

// hurry makes what waits for its time wait no longer.
func (w *world) hurry(s *Store) {
	for _, statement := range []string{
		`update calls set not_before = clock_timestamp() where run = 'queued' and not_before > clock_timestamp()`,
		`update continuations set ready_at = ready_at - interval '2 days' where state = 'dispatched' and deliveries > 3`,
	} {
		_, _ = s.pool.Exec(context.Background(), statement) // a deadlock with a player is nobody's fault
	}
}

// breakConnections ends sessions in the middle of whatever they do, commits
// included.
func (w *world) breakConnections(ctx context.Context, r *rand.Rand) {
	conn, err := pgx.ConnectConfig(ctx, w.nodes[0].pool.Config().ConnConfig.Copy())
	if err != nil {
		w.t.Error(err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		rest(ctx, time.Duration(r.IntN(500))*time.Millisecond)
		_, _ = conn.Exec(ctx, `
			select pg_terminate_backend(pid) from pg_stat_activity
			 where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
			 order by random() limit 1`)
	}
}

// requireAcknowledged holds the rows against what the players were told.
func (w *world) requireAcknowledged() {
	w.t.Helper()
	for id, approved := range w.verdicts {
		want := model.ApprovalDenied
		if approved {
			want = model.ApprovalApproved
		}
		if c, err := w.nodes[0].Card(context.Background(), tenant, id); err != nil || c.Call.Approval.State != want {
			w.t.Errorf("approval %s: acknowledged as %s, %v", id, want, err)
		}
	}
	for key, token := range w.tokens {
		var call string
		var fence int64
		if _, err := fmt.Sscan(key, &call, &fence); err != nil {
			w.t.Fatal(err)
		}
		n := scalar[int](w.t, w.nodes[0], `select count(*) from attempts where call_id = ($1::text)::uuid and fence = $2 and claim_token = $3`, call, fence, token)
		if n != 1 {
			w.t.Errorf("call %s: the claim with fence %d was acknowledged, but its attempt is not there", call, fence)
		}
	}
}

// requireSomethingHappened fails a run in which the interesting did not
// occur: then it proves nothing.
func (w *world) requireSomethingHappened() {
	w.t.Helper()
	var names []string
	for name, n := range w.outcomes {
		names = append(names, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(names)
	for _, name := range names {
		w.t.Log(name)
	}
	for _, wish := range []string{"register", "decide", "claim", "finish", "continue", "open live", "append", "expire", "lose leases", "link audit", "verify"} {
		if w.outcomes[wish] == 0 {
			w.t.Errorf("nothing of %q happened", wish)
		}
	}
}
