package main

import (
	"context"
	"strconv"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

type topicsCmd struct {
	people
	IDs    []string `arg:"" optional:"" name:"topic" help:"Only these topics."`
	Status string   `help:"Only topics with this status." enum:",pending,streaming,awaiting-approval,done,aborted,error" default:""`
	Limit  int      `help:"At most so many." default:"200"`
}

// Help is shown below the flags' help.
func (topicsCmd) Help() string {
	return `Examples:
  countersign topics
  countersign topics --status awaiting-approval
  countersign topics chat-42 --json | jq '.items[0].turns'`
}

func (cmd *topicsCmd) Run(ctx context.Context, p process) error {
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	topics, err := listTopics(ctx, c, client.TopicFilter{Status: cmd.Status, IDs: cmd.IDs}, cmd.Limit)
	if err != nil {
		return err
	}
	out := cmd.output(p)
	if out.json {
		return out.document(client.Page[client.Topic]{Items: topics})
	}
	showTopics(out, topics)
	return nil
}

func listTopics(ctx context.Context, c *client.Client, filter client.TopicFilter, limit int) ([]client.Topic, error) {
	filter.Limit = min(max(limit, 1), pageSize)
	topics := []client.Topic{}
	for topic, err := range client.All(func(cursor string) (client.Page[client.Topic], error) {
		filter.Cursor = cursor
		return c.Topics(ctx, filter)
	}) {
		if err != nil {
			return nil, err
		}
		if topics = append(topics, topic); len(topics) >= limit {
			break
		}
	}
	return topics, nil
}

func showTopics(out output, topics []client.Topic) {
	if len(topics) == 0 {
		out.say("no topics")
		return
	}
	table := terminal.Table{Header: []string{"TOPIC", "STATUS", "VERSION", "TURNS", "CARDS", "CALLS"}}
	for _, topic := range topics {
		cards, calls := 0, 0
		for _, turn := range topic.Turns {
			cards += turn.OpenApprovals
			calls += turn.OpenCalls
		}
		table.Rows = append(table.Rows, []terminal.Cell{
			{Text: topic.ID, Style: terminal.Bold},
			{Text: topic.Status, Style: terminal.StateStyle(topic.Status)},
			terminal.Text(strconv.FormatInt(topic.Version, 10)), terminal.Text(strconv.Itoa(len(topic.Turns))),
			terminal.Text(strconv.Itoa(cards)), terminal.Text(strconv.Itoa(calls)),
		})
	}
	out.Table(table)
}
