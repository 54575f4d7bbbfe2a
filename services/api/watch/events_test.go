package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// outline is the events' names, with the id of a status and the state of a
// message's last part.
func outline(frames []frame) (out []string) {
	for _, f := range frames {
		line := f.name + " " + f.id
		if f.name == "message" {
			id, _, _ := strings.Cut(strings.TrimPrefix(f.data, `{"id":"`), `"`)
			line = f.name + " " + id
			for _, state := range []string{"approval-requested", "output-denied"} {
				if strings.Contains(f.data, `"state":"`+state+`"`) {
					line += " " + state
				}
			}
		}
		out = append(out, line)
	}
	return out
}

func TestAStreamBeginsWithStatusAndOpenAnchors(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	say(t, n.store, "t1", "m1", "clean up")
	call := ask(t, n.store, "t1", "msg_1")
	c := follow(t, n, "t1", "", nil)
	if diff := cmp.Diff([]string{"message msg_1 approval-requested", "status 2"}, outline(c.until(2))); diff != "" {
		t.Error(diff)
	}
	if err := deny(t.Context(), n.store, call); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"message msg_1 output-denied", "status 3"}, outline(c.until(3))); diff != "" {
		t.Error(diff)
	}
}

func TestAStreamGoesOnAfterAVersion(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	for i := range pageSize + 2 { // more than a page
		say(t, n.store, "t1", fmt.Sprint("m", i+1), "hi")
	}
	all := int64(pageSize + 2)
	if got := follow(t, n, "t1", "0", nil).until(all); len(got) != pageSize+3 || outline(got)[0] != "message m1" {
		t.Errorf("everything is %d events, the first %v", len(got), outline(got)[0])
	}
	last := fmt.Sprint(all - 2)
	want := []string{fmt.Sprint("message m", all-1), fmt.Sprint("message m", all), fmt.Sprint("status ", all)}
	if diff := cmp.Diff(want, outline(follow(t, n, "t1", last, nil).until(all))); diff != "" {
		t.Error(diff)
	}
	if got := follow(t, n, "t1", "4711", nil).until(all); len(got) != pageSize+3 {
		t.Errorf("a client ahead of the rows got %d events", len(got))
	}
}

func TestAClientThatKnowsAllIsToldOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	say(t, n.store, "t1", "m1", "hi")
	c := follow(t, n, "t1", "1", nil)
	say(t, n.store, "t1", "m2", "there")
	if diff := cmp.Diff([]string{"message m2", "status 2"}, outline(c.until(2))); diff != "" {
		t.Error(diff)
	}
}

func TestOtherTenantsAndUnknownTopicsAreNotFound(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	if c := follow(t, n, "nowhere", "", nil); c.status != http.StatusTeapot {
		t.Errorf("status %d", c.status)
	}
	if c := follow(t, n, "nowhere", "x", nil); c.status != http.StatusTeapot {
		t.Errorf("status %d for a bad id", c.status)
	}
}

// Two nodes show the same, whichever commits.
func TestAStreamSeesTheCommitsOfAnotherNode(t *testing.T) {
	t.Parallel()
	database, nats := testservers.Database(t, store.Migrate), testservers.NATS(t).URL()
	a, b := newNode(t, database, nats, Options{Sweep: never}), newNode(t, database, nats, Options{Sweep: never})
	say(t, a.store, "t1", "m1", "hi")
	onA, onB := follow(t, a, "t1", "0", nil), follow(t, b, "t1", "0", nil)
	say(t, a.store, "t1", "m2", "from a")
	say(t, b.store, "t1", "m3", "from b")
	for _, c := range []*client{onA, onB} {
		got := outline(c.until(3))
		if !strings.Contains(strings.Join(got, ","), "message m2") || got[len(got)-2] != "message m3" {
			t.Errorf("got %v", got)
		}
	}
}

func TestWithNATSOffAStreamIsLateAndNotWrong(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: 20 * time.Millisecond})
	say(t, n.mute, "t1", "m1", "hi")
	c := follow(t, n, "t1", "1", nil)
	for version := int64(2); version < 6; version++ {
		say(t, n.mute, "t1", fmt.Sprint("m", version), "hi")
		if diff := cmp.Diff([]string{fmt.Sprint("message m", version), fmt.Sprint("status ", version)}, outline(c.until(version))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAStreamEndsWhenItsRightEnds(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: 20 * time.Millisecond})
	say(t, n.store, "t1", "m1", "secret")
	var revoked atomic.Bool
	c := follow(t, n, "t1", "0", func(context.Context) error {
		if revoked.Load() {
			return model.ErrNotPermitted
		}
		return nil
	})
	c.until(1)
	revoked.Store(true)
	say(t, n.store, "t1", "m2", "more")
	if f, ok := c.next(); ok {
		t.Errorf("told %+v", f)
	}
}

func TestASilentStreamShowsThatItLives(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never, Comment: 10 * time.Millisecond})
	say(t, n.store, "t1", "m1", "hi")
	c := follow(t, n, "t1", "1", nil)
	for range 3 {
		if !c.lines.Scan() {
			t.Fatal("the stream ended")
		}
		for c.lines.Text() == "" {
			c.lines.Scan()
		}
		if got := c.lines.Text(); got != ":" {
			t.Fatalf("got %q", got)
		}
	}
}

// A client that does not read is dropped, and loses nothing: it goes on after
// the last status that it has.
func TestASlowClientIsDroppedAndCatchesUp(t *testing.T) {
	t.Parallel()
	database, nats := testservers.Database(t, store.Migrate), testservers.NATS(t).URL()
	n := newNode(t, database, nats, Options{Sweep: never, WriteTimeout: 100 * time.Millisecond})
	patient := newNode(t, database, nats, Options{Sweep: never})
	say(t, n.store, "t1", "m1", "hi")
	c := follow(t, n, "t1", "0", nil)
	c.until(1)
	version := int64(1)
	open := func() bool {
		n.hub.mu.Lock()
		defer n.hub.mu.Unlock()
		return len(n.hub.streams) > 0
	}
	eventually(t, "the stream is dropped", func() bool {
		version = say(t, n.store, "t1", fmt.Sprint("m", version+1), strings.Repeat("x", 1<<20))
		return !open()
	})
	for ok := true; ok; { // what was under way still comes
		_, ok = c.next()
	}
	if got := follow(t, patient, "t1", "1", nil).until(version); len(got) != int(version) {
		t.Errorf("caught up with %d events at version %d", len(got), version)
	}
}

func TestAKeyHasOnlySoManyStreams(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never, StreamsPerKey: 2})
	say(t, n.store, "t1", "m1", "hi")
	first, second := follow(t, n, "t1", "", nil), follow(t, n, "t1", "", nil)
	if first.status != http.StatusOK || second.status != http.StatusOK {
		t.Fatalf("status %d, %d", first.status, second.status)
	}
	if third := follow(t, n, "t1", "", nil); third.status != http.StatusTeapot {
		t.Errorf("status %d for the third", third.status)
	}
	first.close()
	eventually(t, "there is room again", func() bool { return follow(t, n, "t1", "", nil).status == http.StatusOK })
}

func TestStreamsEndWithTheNode(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	say(t, n.store, "t1", "m1", "hi")
	c := follow(t, n, "t1", "1", nil)
	done := waiting(t, n.hub, "t1", 1)
	watched(t, n.hub, "t1")
	n.stop()
	if _, ok := c.next(); ok {
		t.Error("the stream goes on")
	}
	if err := <-done; !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("Wait = %v", err)
	}
}
