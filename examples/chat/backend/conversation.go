package backend

import (
	"context"
	"encoding/json"

	"github.com/countersign/countersign/pkg/client"
)

// conversation is a topic's history, as far as the scripted model needs it.
type conversation struct {
	request  client.Message // the person's last message
	person   string
	written  bool   // by somebody who expects this backend to answer
	answered bool   // there is an assistant's message after it
	steps    []step // the calls of that answer, turn by turn
}

// step is one turn of the answer.
type step struct{ calls []part }

// part is a tool part of the AI SDK.
type part struct {
	Type      string          `json:"type"`
	State     string          `json:"state"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	ErrorText string          `json:"errorText"`
	Approval  *struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

// metadata marks messages whose writer expects an answer from this backend:
// the page writes it, and so does countersign demo. In a system of one's own
// every message does.
type metadata struct {
	WrittenOn string `json:"writtenOn"`
	Person    string `json:"person"`
}

// read reads the whole history: it is the only memory there is.
func (b *Backend) read(ctx context.Context, topic string) (*conversation, error) {
	c := &conversation{}
	messages := client.All(func(cursor string) (client.Page[client.Message], error) {
		return b.api.Messages(ctx, topic, client.Paging{Cursor: cursor, Limit: 100})
	})
	for m, err := range messages {
		if err != nil {
			return nil, err
		}
		switch m.Role {
		case "user":
			*c = conversation{request: m}
			c.readMetadata(m.Metadata)
		case "assistant":
			c.answered = true
			c.readSteps(m.Parts)
		}
	}
	return c, nil
}

func (c *conversation) readMetadata(raw json.RawMessage) {
	c.person = "guest"
	var m metadata
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	c.written = m.WrittenOn != ""
	if m.Person != "" {
		c.person = m.Person
	}
}

// readSteps collects the calls of each turn; turns begin with a step-start.
func (c *conversation) readSteps(parts []client.Part) {
	for _, raw := range parts {
		var p part
		if json.Unmarshal(raw, &p) != nil {
			continue
		}
		if p.Type == "step-start" {
			c.steps = append(c.steps, step{})
		} else if p.State != "" && len(c.steps) > 0 && p.Type != "text" && p.Type != "reasoning" {
			last := &c.steps[len(c.steps)-1]
			last.calls = append(last.calls, p)
		}
	}
}

// asked tells whether a person waits for a first answer.
func (c *conversation) asked() bool { return c.written && !c.answered }

// last is the call of a tool in the latest turn that has one.
func (c *conversation) last(tool string) *part {
	for i := len(c.steps) - 1; i >= 0; i-- {
		for j := range c.steps[i].calls {
			if p := &c.steps[i].calls[j]; p.Type == "tool-"+tool {
				return p
			}
		}
	}
	return nil
}

// text is what an MCP server answered in words.
func (p *part) text() string {
	var answer struct {
		Content []struct{ Text string } `json:"content"`
	}
	if json.Unmarshal(p.Output, &answer) != nil || len(answer.Content) == 0 {
		return ""
	}
	return answer.Content[0].Text
}
