package failpoints

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/store"
)

// keepsItsPromises: no invariant is broken in the rows, and once nothing is
// under way any more nobody waits for what nobody is going to do (I8).
func (s *stage) keepsItsPromises(ctx context.Context, t *testing.T) {
	t.Helper()
	broken, err := s.Store.Verify(ctx, store.Scope{})
	must(t, err)
	for _, v := range broken {
		t.Error(v)
	}
	err = cluster.Poll(ctx, func(ctx context.Context) error {
		waiting, err := s.Store.Verify(ctx, store.Scope{AtRest: true})
		for _, v := range waiting {
			err = errors.Join(err, errors.New(v.String()))
		}
		return err
	})
	if err != nil {
		t.Errorf("it does not come to rest: %v", err)
	}
}

// staysSo shows at the end that nothing became of any unit after it had come
// to rest, and that Redis shows what the rows say, on every node.
func (s *stage) staysSo(t *testing.T) {
	t.Helper()
	for _, u := range s.every() {
		if now, err := u.outcome(t.Context()); err != nil || now != u.came {
			t.Errorf("%s was %q, and now it is %q: %v", u.topic, u.came, now, err)
		}
		if u.flow.normal == imported {
			continue
		}
		for node := range 2 {
			if err := cluster.Poll(t.Context(), func(ctx context.Context) error { return u.projected(ctx, s.Node(node)) }); err != nil {
				t.Errorf("%s: %v", u.topic, err)
			}
		}
	}
}

// projected tells whether a node shows the topic as its row is.
func (u *unit) projected(ctx context.Context, node *client.Client) error {
	rows, err := u.standing(ctx)
	if err != nil {
		return err
	}
	page, err := node.Topics(ctx, client.TopicFilter{IDs: []string{u.topic}})
	if err == nil && (len(page.Items) != 1 || page.Items[0].Version != rows.version || page.Items[0].Status != rows.status) {
		err = fmt.Errorf("the rows say %+v, the node shows %+v", rows, page.Items)
	}
	return err
}
