package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

const (
	// shortest is how much of an id must be typed.
	shortest = 4
	// searched bounds how many cards of the past are looked through for a
	// short id; older ones want their whole id.
	searched = 2000
	pageSize = 100
)

// findCard gives the card that a person named: by its whole id, or by the
// beginning or the end of its id or of its call's, open cards first.
func findCard(ctx context.Context, c *client.Client, typed string) (client.Approval, error) {
	if len(typed) == 36 {
		return c.Approval(ctx, strings.ToLower(typed))
	}
	typed = strings.ToLower(strings.TrimLeft(typed, "…."))
	if len(typed) < shortest {
		return client.Approval{}, usagef("%q is too short for an id: type at least %d characters of it", typed, shortest)
	}
	for _, state := range []string{"requested", ""} {
		found, err := matching(ctx, c, client.ApprovalFilter{State: state}, typed)
		switch {
		case err != nil:
			return client.Approval{}, err
		case len(found) == 1:
			// Read again by its id: a list may be older than the card.
			return c.Approval(ctx, found[0].ID)
		case len(found) > 1:
			return client.Approval{}, ambiguous(typed, found)
		}
	}
	return client.Approval{}, fmt.Errorf("no card's id begins or ends with %q; `countersign inbox` lists the open ones", typed)
}

func matching(ctx context.Context, c *client.Client, filter client.ApprovalFilter, typed string) ([]client.Approval, error) {
	var found []client.Approval
	looked := 0
	for card, err := range allCards(ctx, c, filter) {
		if err != nil {
			return nil, err
		}
		if named(card.ID, typed) || named(card.CallID, typed) {
			found = append(found, card)
		}
		if looked++; looked == searched {
			break
		}
	}
	return found, nil
}

func named(id, typed string) bool {
	return strings.HasPrefix(id, typed) || strings.HasSuffix(id, typed)
}

func ambiguous(typed string, found []client.Approval) error {
	var list strings.Builder
	for _, card := range found[:min(len(found), 10)] {
		fmt.Fprintf(&list, "\n  %s  %s  %s", card.ID, card.Tool.Name, card.Topic)
	}
	return usagef("%q names %d cards; type more of the id (its end tells most, as in %s):%s",
		typed, len(found), terminal.ShortID(found[0].ID), list.String())
}

// allCards walks over a filter's cards, newest first.
func allCards(ctx context.Context, c *client.Client, filter client.ApprovalFilter) func(func(client.Approval, error) bool) {
	if filter.Limit == 0 {
		filter.Limit = pageSize
	}
	return client.All(func(cursor string) (client.Page[client.Approval], error) {
		filter.Cursor = cursor
		return c.Approvals(ctx, filter)
	})
}
