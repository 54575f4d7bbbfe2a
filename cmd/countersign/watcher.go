package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

// watcher compares what it reads with what it has told. Streams only say that
// something changed; what did is read again, so that nothing is told twice or
// missed, whatever a stream dropped.
type watcher struct {
	client  *client.Client
	only    []string // these topics; none: all
	out     output
	streams *streams
	open    map[string]client.Approval // cards told as waiting, by id
	status  map[string]string          // of topics, as told
	looked  bool                       // before
}

func newWatcher(c *client.Client, only []string, out output) *watcher {
	return &watcher{
		client: c, only: only, out: out, streams: newStreams(c),
		open: map[string]client.Approval{}, status: map[string]string{},
	}
}

// look reads cards and topics once and tells what is new.
func (w *watcher) look(ctx context.Context) error {
	if err := w.topics(ctx); err != nil {
		return err
	}
	return w.cards(ctx)
}

func (w *watcher) topics(ctx context.Context) error {
	topics, err := listTopics(ctx, w.client, client.TopicFilter{IDs: w.only}, 200)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		ended := topic.Status == "done" || topic.Status == "aborted" || topic.Status == "error"
		past := ended && len(w.only) == 0
		if w.status[topic.ID] != topic.Status && (w.looked || !past) {
			w.tell("topic", map[string]any{"topic": topic}, visible.Line(topic.ID), visible.Line(topic.Status))
		}
		w.status[topic.ID] = topic.Status
		if past {
			w.streams.leave(topic.ID)
		} else {
			w.streams.follow(ctx, topic)
		}
	}
	w.looked = true
	return nil
}

func (w *watcher) cards(ctx context.Context) error {
	waiting := map[string]bool{}
	for card, err := range allCards(ctx, w.client, client.ApprovalFilter{State: "requested"}) {
		if err != nil {
			return err
		}
		if len(w.only) > 0 && !slices.Contains(w.only, card.Topic) {
			continue
		}
		waiting[card.ID] = true
		if _, told := w.open[card.ID]; !told {
			w.open[card.ID] = card
			w.tellCard(card)
		}
	}
	for id := range w.open {
		if waiting[id] {
			continue
		}
		card, err := w.client.Approval(ctx, id)
		if err != nil {
			return err
		}
		if card.State != "requested" { // else the list was cut off or older
			delete(w.open, id)
			w.tellCard(card)
		}
	}
	return nil
}

func (w *watcher) tellCard(card client.Approval) {
	words := []string{visible.Line(terminal.ShortID(card.ID)), visible.Line(card.State), visible.Line(card.Tool.Name), visible.Line(card.Topic)}
	switch {
	case card.State == "requested":
		words = append(words, visible.JSONLine(card.Input))
	case card.Decision != nil:
		words = append(words, "by "+visible.Line(card.Decision.DecidedBy), visible.Line(card.Decision.Reason))
	}
	w.tell("card", map[string]any{"approval": card}, words...)
}

// tell prints one event: as JSON, or as a line of words that are visible
// already.
func (w *watcher) tell(event string, document map[string]any, words ...string) {
	if w.out.json {
		document["event"] = event
		_ = w.out.line(document) // a reader that is gone ends the command by its signal
		return
	}
	stamp := time.Now().Format(time.TimeOnly)
	fmt.Fprintln(w.out.Out, strings.Join(append([]string{stamp, event}, words...), "  "))
}
