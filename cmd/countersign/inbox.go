package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

type inboxCmd struct {
	people
	Topic    string `help:"Only cards of this topic."`
	Tool     string `help:"Only cards of this tool."`
	Assignee string `help:"Only cards that this person may answer: user:bob."`
	State    string `help:"Cards in this state." default:"requested" enum:"requested,approved,denied,expired,lapsed,cancelled,superseded"`
	Limit    int    `help:"At most so many, newest first." default:"200"`
}

// Help is shown below the flags' help.
func (inboxCmd) Help() string {
	return `Examples:
  countersign inbox
  countersign inbox --tool 'files__write_file' --topic chat-42
  countersign inbox --state denied --json | jq '.items[].input'`
}

func (cmd *inboxCmd) Run(ctx context.Context, p process) error {
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	cards := []client.Approval{}
	filter := client.ApprovalFilter{State: cmd.State, Topic: cmd.Topic, Tool: cmd.Tool, Assignee: cmd.Assignee}
	filter.Limit = min(max(cmd.Limit, 1), pageSize)
	for card, err := range allCards(ctx, c, filter) {
		if err != nil {
			return err
		}
		if cards = append(cards, card); len(cards) >= cmd.Limit {
			break
		}
	}
	attention, err := cmd.attention(ctx, c)
	if err != nil {
		return err
	}
	out := cmd.output(p)
	if out.json {
		return out.document(struct {
			Items          []client.Approval `json:"items"`
			NeedsAttention []json.RawMessage `json:"needsAttention"`
		}{cards, documents(attention)})
	}
	showInbox(out, cards, cmd.State, time.Now())
	if len(attention) > 0 {
		out.say("")
		out.say("what became of these is not known; `countersign resolve` shows them and takes your answer")
		showAttention(out, attention, time.Now())
	}
	return nil
}

// attention reads the calls that need a person for another reason than a
// card: their outcome is unknown. They belong to the inbox of what is open.
func (cmd *inboxCmd) attention(ctx context.Context, c *client.Client) ([]client.Call, error) {
	if cmd.State != "requested" || cmd.Assignee != "" {
		return nil, nil
	}
	calls, err := unknownCalls(ctx, c, cmd.Topic)
	return slices.DeleteFunc(calls, func(call client.Call) bool { return cmd.Tool != "" && call.Tool != cmd.Tool }), err
}

func showInbox(out output, cards []client.Approval, state string, now time.Time) {
	if len(cards) == 0 && state == "requested" {
		out.say("nothing waits for a decision")
		return
	}
	table := terminal.Table{Header: []string{"ID", "TOOL", "EFFECT", "TOPIC", "BY", "ASKED", "EXPIRES", "INPUT"}}
	for _, card := range cards {
		expires := terminal.Until(card.ExpiresAt, now)
		if card.State != "requested" {
			expires = ""
		}
		table.Rows = append(table.Rows, []terminal.Cell{
			terminal.Text(terminal.ShortID(card.ID)),
			{Text: card.Tool.Name, Style: terminal.Bold},
			{Text: card.Tool.Effect, Style: terminal.EffectStyle(card.Tool.Effect)},
			terminal.Text(card.Topic), terminal.Text(card.RequestedBy),
			terminal.Text(terminal.Ago(card.RequestedAt, now) + " ago"), terminal.Text(expires),
			{JSON: card.Input},
		})
	}
	out.Table(table)
}
