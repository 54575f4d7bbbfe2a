package bus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDirtyKeepsOneEntryPerTopicWithTheHighestVersion(t *testing.T) {
	t.Parallel()
	d := NewDirty()
	for _, s := range []Signal{
		{Tenant: "a", Topic: "x", Version: 2},
		{Tenant: "b", Topic: "x", Version: 9},
		{Tenant: "a", Topic: "x", Version: 5},
		{Tenant: "a", Topic: "x", Version: 3},
	} {
		d.Mark(s)
	}
	select {
	case <-d.Wakeup():
	default:
		t.Fatal("no wake-up after topics were marked")
	}
	want := []Signal{{Tenant: "a", Topic: "x", Version: 5}, {Tenant: "b", Topic: "x", Version: 9}}
	if diff := cmp.Diff(want, d.Take()); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if got := d.Take(); len(got) != 0 || d.Len() != 0 {
		t.Errorf("taken twice: %v", got)
	}
	d.Mark(Signal{Tenant: "a", Topic: "x", Version: 1})
	if got := d.Take(); len(got) != 1 {
		t.Errorf("a topic that was taken cannot be marked again: %v", got)
	}
}
