package backend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/client"
)

// The tools that the model knows: those of the MCP server "workspace".
const (
	listFiles  = "workspace__list_files"
	readFile   = "workspace__read_file"
	writeFile  = "workspace__write_file"
	deleteFile = "workspace__delete_file"
)

// next is the scripted model: what it says and calls, given the conversation.
// It is a function of the history alone, so two backends say the same.
//
//	(a person asks)  → list the logs                         runs by itself
//	(the list)       → read the oldest, delete the oldest    stops at a card
//	(the verdict)    → an answer in words
func (c *conversation) next() []client.Part {
	list := c.last(listFiles)
	switch removed, written := c.last(deleteFile), c.last(writeFile); {
	case list == nil:
		return c.say("I will see which logs there are.", c.call(listFiles, input{Path: "logs"}))
	case removed != nil:
		return c.say(c.report(removed, list))
	case written != nil:
		return c.say(reportWritten(written))
	case list.State != "output-available":
		return c.say("I could not list the logs, so I leave everything as it is.")
	}
	logs := logsIn(list.text())
	if len(logs) < 2 {
		return c.say("There is nothing old to delete. I can make a log to practise on.",
			c.call(writeFile, input{Path: "logs/2024-11.log", Content: "2024-11-30 23:59:58 rotated\n"}))
	}
	return c.say(fmt.Sprintf("There are %d logs. %s is the oldest: I look at it once more and delete it, if you agree.", len(logs), logs[0]),
		c.call(readFile, input{Path: logs[0]}), c.call(deleteFile, input{Path: logs[0]}))
}

// report puts into words what became of the deletion.
func (c *conversation) report(removed, list *part) string {
	var in input
	_ = json.Unmarshal(removed.Input, &in)
	switch removed.State {
	case "output-available":
		left := slices.DeleteFunc(logsIn(list.text()), func(name string) bool { return name == in.Path })
		return fmt.Sprintf("Done: %s is deleted. Still there: %s.", in.Path, strings.Join(left, ", "))
	case "output-denied":
		if removed.Approval != nil && removed.Approval.Reason != "" {
			return fmt.Sprintf("I left %s where it is. The answer was: %s", in.Path, removed.Approval.Reason)
		}
		return fmt.Sprintf("I left %s where it is.", in.Path)
	}
	return fmt.Sprintf("I tried to delete %s, and it did not work: %s", in.Path, removed.ErrorText)
}

func reportWritten(p *part) string {
	if p.State == "output-available" {
		return "Now there is an old log. Ask me again to clean up."
	}
	return "Then I leave everything as it is."
}

// logsIn reads a list of files, the oldest log first.
func logsIn(list string) []string {
	var logs []string
	for line := range strings.Lines(list) {
		if name := strings.TrimSpace(line); strings.HasSuffix(name, ".log") {
			logs = append(logs, name)
		}
	}
	slices.Sort(logs)
	return logs
}

type input struct {
	Path    string `json:"path"`
	Content string `json:"content,omitempty"`
}

// say is a turn: words, and then calls.
func (c *conversation) say(words string, calls ...client.Part) []client.Part {
	return append([]client.Part{client.TextPart(words)}, calls...)
}

// call is a call of a tool. Its id follows from its place in the
// conversation, so that the same step is the same call.
func (c *conversation) call(tool string, in input) client.Part {
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return client.ToolPart(tool, fmt.Sprintf("%s-%d-%s", c.request.ID, len(c.steps), tool), raw)
}
