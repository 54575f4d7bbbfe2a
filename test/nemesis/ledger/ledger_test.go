package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/test/nemesis/ledger"
)

// tool is a server in this process, and its ledger.
type tool struct {
	t    *testing.T
	URL  string
	path string
}

func start(t *testing.T) *tool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger")
	file, err := ledger.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	server := ledger.NewServer(file)
	listening := httptest.NewServer(server.Handler())
	t.Cleanup(func() { server.Release(); listening.Close() })
	return &tool{t, listening.URL, path}
}

// call calls the tool once, under a key.
func (o *tool) call(ctx context.Context, path, call, key, input string) (status int, answer []byte, err error) {
	o.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL+path, strings.NewReader(input))
	if err != nil {
		o.t.Fatal(err)
	}
	request.Header.Set("Countersign-Call", call)
	request.Header.Set("Countersign-Attempt", "3")
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func (o *tool) effects() []ledger.Effect {
	o.t.Helper()
	effects, err := ledger.Read(o.path)
	if err != nil {
		o.t.Fatal(err)
	}
	return effects
}

func TestEachBehaviourHasItsEffectAndItsAnswer(t *testing.T) {
	t.Parallel()
	big := `"` + strings.Repeat("x", 2<<20-2) + `"`
	for _, c := range []struct {
		behave  ledger.Behaviour
		effects int
		status  int // 0: no whole answer
		answer  string
	}{
		{ledger.Answer, 1, 200, `{"effect":1}`},
		{ledger.Late, 1, 200, `{"effect":1}`},
		{ledger.LateEffect, 1, 200, `{"effect":1}`},
		{ledger.CloseBeforeEffect, 0, 0, ""},
		{ledger.CloseAfterEffect, 1, 0, ""},
		{ledger.CloseInAnswer, 1, 0, ""},
		{ledger.FailBeforeEffect, 0, 500, "it was not done\n"},
		{ledger.FailAfterEffect, 1, 500, "it was done, and then something broke\n"},
		{ledger.Refuse, 0, 409, "the tool says no\n"},
		{ledger.Garbage, 1, 200, `<<<{"effect":1}`},
		{ledger.NUL, 1, 200, `{"text":"a\u0000b"}`},
		{ledger.BadUTF8, 1, 200, "\xff\xfe\x00" + `{"effect":1}`},
		{ledger.Huge, 1, 200, big},
	} {
		t.Run(string(c.behave), func(t *testing.T) {
			t.Parallel()
			o := start(t)
			status, answer, err := o.call(t.Context(), "/pay", "c", "", fmt.Sprintf(`{"behave":%q,"delay":"1ms"}`, c.behave))
			if c.status == 0 && err == nil || c.status != 0 && (err != nil || status != c.status || string(answer) != c.answer) {
				t.Errorf("answered %d %.80q, %v", status, answer, err)
			}
			if got := o.effects(); len(got) != c.effects {
				t.Errorf("effects: %+v", got)
			}
			if fired, err := ledger.Admin(o.URL).Fired(t.Context()); err != nil || fired[c.behave] != 1 || len(fired) != 1 {
				t.Errorf("fired: %v, %v", fired, err)
			}
		})
	}
}

func TestAnEffectSaysWhatItWasOf(t *testing.T) {
	t.Parallel()
	o := start(t)
	input := `{"amount": 1E2}`
	if status, answer, err := o.call(t.Context(), "/pay?behave=late&delay=1ms", "call-1", "key-1", input); err != nil || status != 200 {
		t.Fatal(status, string(answer), err)
	}
	sum := sha256.Sum256([]byte(input))
	e := o.effects()[0]
	if e.N != 1 || e.Call != "call-1" || e.Attempt != 3 || e.Key != "key-1" || e.Path != "/pay" || e.Behave != ledger.Late ||
		e.SHA256 != hex.EncodeToString(sum[:]) || e.Bytes != int64(len(input)) || e.Time.IsZero() || e.Done.Before(e.Time) {
		t.Errorf("%+v", e)
	}
}

func TestWhatHangsEndsWithItsCallerOrWhenItIsLetGo(t *testing.T) {
	t.Parallel()
	for behave, effects := range map[ledger.Behaviour]int{ledger.Hang: 0, ledger.HangAfterEffect: 1} {
		o := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { o.came(1); cancel() }()
		if _, _, err := o.call(ctx, "/", "left", "", fmt.Sprintf(`{"behave":%q}`, behave)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", behave, err)
		}
		go func() { o.came(2); _ = ledger.Admin(o.URL).Release(context.Background()) }()
		if _, _, err := o.call(t.Context(), "/", "let go", "", fmt.Sprintf(`{"behave":%q}`, behave)); err == nil {
			t.Errorf("%s was answered", behave)
		}
		if got := o.effects(); len(got) != 2*effects {
			t.Errorf("%s: %+v", behave, got)
		}
	}
}

// came waits until n requests were noted.
func (o *tool) came(n int) {
	o.poll(func(context.Context) error {
		requests, err := ledger.Requests(o.path)
		if err == nil && len(requests) < n {
			err = fmt.Errorf("%d requests came, want %d", len(requests), n)
		}
		return err
	})
}

func (o *tool) poll(ask func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cluster.Poll(ctx, ask); err != nil {
		o.t.Error(err)
	}
}

func TestALateEffectComesThoughItsCallerHasLeft(t *testing.T) {
	t.Parallel()
	o := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { o.came(1); cancel() }()
	if _, _, err := o.call(ctx, "/", "c", "", `{"behave":"late-effect","delay":"1h"}`); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := ledger.Admin(o.URL).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.poll(func(context.Context) error {
		if len(o.effects()) == 0 {
			return errors.New("the effect did not come")
		}
		return nil
	})
}

func TestAKeyIsHonouredOrIgnored(t *testing.T) {
	t.Parallel()
	for path, effects := range map[string]int{"/?key=honour": 1, "/": 20} {
		o := start(t)
		var all sync.WaitGroup
		answers := make([][]byte, 20)
		for i := range answers {
			all.Go(func() { _, answers[i], _ = o.call(t.Context(), path, "c", "same", `{}`) })
		}
		all.Wait()
		if got := o.effects(); len(got) != effects {
			t.Errorf("%s: %d effects", path, len(got))
		}
		for _, a := range answers {
			if effects == 1 && !bytes.Equal(a, answers[0]) {
				t.Errorf("answers %s and %s", answers[0], a)
			}
		}
	}
}

func TestEachRequestOfACallTakesItsOwnBehaviour(t *testing.T) {
	t.Parallel()
	o := start(t)
	var got []int
	for range 4 {
		status, _, _ := o.call(t.Context(), "/", "c", "", `{"behave":"500-before-effect,refuse,answer"}`)
		got = append(got, status)
	}
	if fmt.Sprint(got) != "[500 409 200 200]" {
		t.Error(got)
	}
	if status, _, _ := o.call(t.Context(), "/", "other", "", `{"behave":"explode"}`); status != 400 {
		t.Errorf("what is no behaviour: %d", status)
	}
}

func TestAScheduleIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	weights := map[ledger.Behaviour]int{ledger.Answer: 2, ledger.Refuse: 1, ledger.FailBeforeEffect: 1}
	run := func(seed uint64, order []int) string {
		o := start(t)
		if err := (ledger.Admin(o.URL)).Set(t.Context(), ledger.Schedule{Seed: seed, Weights: weights}); err != nil {
			t.Fatal(err)
		}
		got := make([]int, len(order))
		for _, i := range order {
			got[i], _, _ = o.call(t.Context(), "/", fmt.Sprintf("%d-%d", seed, i), "", fmt.Sprintf(`{"n":%d}`, i))
		}
		return fmt.Sprint(got)
	}
	forth, back := make([]int, 40), make([]int, 40)
	for i := range forth {
		forth[i], back[i] = i, len(back)-1-i
	}
	a := run(1, forth)
	if b := run(1, back); a != b {
		t.Errorf("one seed:\n%s\n%s", a, b)
	}
	if b := run(2, forth); a == b || !strings.Contains(a, "409") || !strings.Contains(a, "500") || !strings.Contains(a, "200") {
		t.Errorf("another seed:\n%s\n%s", a, b)
	}
	o := start(t)
	if err := ledger.Admin(o.URL).Set(t.Context(), ledger.Schedule{Weights: map[ledger.Behaviour]int{"explode": 1}}); err == nil {
		t.Error("a behaviour that there is not was taken")
	}
}

func TestALineThatWasNotWrittenWholeIsNoEffect(t *testing.T) {
	t.Parallel()
	o := start(t)
	_, _, _ = o.call(t.Context(), "/", "c", "k", `{}`)
	content, err := os.ReadFile(o.path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(content) {
		torn := filepath.Join(t.TempDir(), "torn")
		if err := os.WriteFile(torn, content[:len(content)-1-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if effects, err := ledger.Read(torn); err != nil || len(effects) != 0 {
			t.Fatalf("cut by %d: %v, %v", cut+1, effects, err)
		}
		if cut > 5 {
			continue // opening it is the same for every cut
		}
		file, err := ledger.Open(torn)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		if left, _ := os.ReadFile(torn); len(left) > 0 && left[len(left)-1] != '\n' || bytes.Count(left, []byte("\n")) != 1 {
			t.Fatalf("opened, it is %q", left)
		}
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, append([]byte("{oops\n"), content...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Read(broken); err == nil {
		t.Error("a broken line in the middle is not said")
	}
	if effects, err := ledger.Read(filepath.Join(t.TempDir(), "none")); err != nil || effects != nil {
		t.Errorf("no ledger: %v, %v", effects, err)
	}
	var e ledger.Effect
	if b, err := json.Marshal(o.effects()[0]); err != nil || json.Unmarshal(b, &e) != nil || e.Call != "c" {
		t.Errorf("an effect does not survive JSON: %s, %v", b, err)
	}
}
