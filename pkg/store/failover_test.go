package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// A server of an older timeline than one that was seen is refused; a newer
// one, or another cluster, is a failover. The first is none.
func TestALineageRefusesWhatWasReplaced(t *testing.T) {
	t.Parallel()
	var l lineage
	if l.name() != "" {
		t.Errorf("an epoch before anything was seen: %q", l.name())
	}
	names := map[string]bool{}
	for i, step := range []struct {
		at    place
		moved bool
		err   error
	}{
		{place{}, false, nil}, // a server that does not say
		{place{"a", 1}, false, nil},
		{place{"a", 1}, false, nil},
		{place{"a", 3}, true, nil},
		{place{"a", 2}, false, errStalePrimary},
		{place{"a", 0}, false, nil}, // a standby, before it is promoted
		{place{"a", 3}, false, nil},
		{place{"b", 1}, true, nil},
	} {
		moved, err := l.sees(step.at)
		if moved != step.moved || !errors.Is(err, step.err) {
			t.Errorf("step %d: %t, %v", i, moved, err)
		}
		if moved {
			before := l.name()
			if l.settle(); l.name() == before || before == "" {
				t.Errorf("step %d: the epoch was %q, now %q", i, before, l.name())
			}
		}
		names[l.name()] = true
	}
	if len(names) != 4 {
		t.Errorf("epochs: %v", names)
	}
}

// The latest version of each topic is remembered, of as many topics as fit.
func TestWhatWasAcknowledgedIsRememberedWithinBounds(t *testing.T) {
	t.Parallel()
	var a acknowledged
	for i := range rememberedTopics + 10 {
		a.add([]Change{{Tenant: tenant, Topic: topicNumber(i), Version: 2}, {Tenant: tenant, Topic: topicNumber(i), Version: 1}})
	}
	taken := a.take()
	if len(taken) != rememberedTopics || len(a.take()) != 0 {
		t.Errorf("%d topics are remembered", len(taken))
	}
	if _, there := taken[TopicKey{tenant, topicNumber(9)}]; there {
		t.Error("the oldest are remembered longest")
	}
	if v := taken[TopicKey{tenant, topicNumber(10)}]; v != 2 {
		t.Errorf("version %d is remembered, want the highest", v)
	}
}

func topicNumber(i int) model.TopicID { return model.TopicID(fmt.Sprint(i)) }
