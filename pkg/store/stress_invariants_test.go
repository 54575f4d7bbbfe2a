package store

import (
	"context"
	"errors"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// requireInvariants asks the database for rows that contradict each other.
func requireInvariants(t *testing.T, s *Store, scope Scope) {
	t.Helper()
	found, err := s.Verify(context.Background(), scope)
	if err != nil {
		t.Errorf("verify: %v", err)
	}
	for _, v := range found[:min(len(found), 10)] {
		t.Errorf("%s", v)
	}
}

// watchInvariants is [requireInvariants] while everything happens: it holds
// at any moment. A connection that was broken on purpose shows nothing; it
// reports whether it saw the rows.
func watchInvariants(t *testing.T, s *Store, scope Scope) bool {
	t.Helper()
	found, err := s.Verify(context.Background(), scope)
	if err != nil && !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("verify: %v", err)
	}
	for _, v := range found[:min(len(found), 10)] {
		t.Errorf("%s", v)
	}
	return err == nil
}
