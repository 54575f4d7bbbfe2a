package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

// Options are what a demo needs.
type Options struct {
	Client *client.Client
	URL    string // of the page
	Screen terminal.Screen
	In     io.Reader // where a person answers
	Yes    bool      // answer by itself
}

// The patience of the demo: for the first word of the backend, and for each
// later step that is not a person's.
const (
	firstWord = 10 * time.Second
	nextStep  = 45 * time.Second
)

// errNobody and errStuck say what to do.
var (
	errNobody = errors.New("nobody answers in the conversation: the example chat backend does not run. " +
		"`countersign dev` brings it; for another system start `go run ./examples/chat`")
	errStuck = errors.New("the conversation does not go on; the log of the worker or of the chat backend says why")
)

// Run plays the demo once.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &demo{Options: o, topic: "demo-" + uuid.NewString()[:8], told: map[string]string{}}
	d.step("A person writes to the chat, in the conversation %s", d.topic)
	const request = "Please clean up the old logs."
	d.Screen.Quote(request)
	d.hint("watch it in a browser too: %s", d.page())
	if err := d.write(ctx, request); err != nil {
		return err
	}
	return d.follow(ctx, d.events(ctx), d.lines(ctx))
}

type demo struct {
	Options
	topic  string
	steps  int
	told   map[string]string // what was said last about each part
	card   string            // the open card's approval id, or ""
	asking bool              // the question stands on the last line
	over   bool
}

func (d *demo) page() string { return d.URL + "/topic?id=" + url.QueryEscape(d.topic) }

func (d *demo) write(ctx context.Context, text string) error {
	_, err := d.Client.PostMessages(ctx, d.topic, client.MessagesRequest{Messages: []client.Message{{
		Role: "user", Parts: []client.Part{client.TextPart(text)},
		Metadata: json.RawMessage(`{"writtenOn": "terminal", "person": "alice"}`),
	}}})
	return err
}

// events follows the topic in the background.
func (d *demo) events(ctx context.Context) <-chan client.Event {
	events := make(chan client.Event)
	go func() {
		defer close(events)
		for event, err := range d.Client.Events(ctx, d.topic, 0) {
			if err != nil {
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// lines reads what a person types.
func (d *demo) lines(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		in := bufio.NewScanner(d.In)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		close(lines)
	}()
	return lines
}

// follow tells what happens until the conversation is done.
func (d *demo) follow(ctx context.Context, events <-chan client.Event, lines <-chan string) error {
	patience, overdue := firstWord, errNobody
	for !d.over {
		var timeout <-chan time.Time
		if d.card == "" || d.Yes { // a person may take as long as they like
			timeout = time.After(patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return overdue
		case event, ok := <-events:
			if !ok {
				return errors.New("the conversation cannot be followed any more; is the server still there?")
			}
			if err := d.tell(ctx, event); err != nil {
				return err
			}
			if len(d.told) > 0 {
				patience, overdue = nextStep, errStuck
			}
		case line, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			if err := d.answer(ctx, line); err != nil {
				return err
			}
		}
	}
	d.end()
	return nil
}
