package services

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uistream"
)

// captures are the chunks of each response that the AI SDK's own server gave,
// by the letter of its scenario.
type captures map[string][]string

func readCaptures(t *testing.T, version uistream.Version) captures {
	t.Helper()
	text, err := os.ReadFile(map[uistream.Version]string{
		uistream.V6: "testdata/reference/ai-6.0.325.txt", uistream.V7: "testdata/reference/ai-7.0.173.txt"}[version])
	must(t, err)
	out, letter := captures{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if title, begins := strings.CutPrefix(line, "=== "); begins {
			letter, _, _ = strings.Cut(strings.Fields(title)[0], ".")
		}
		if chunk, is := strings.CutPrefix(line, "data: "); is && chunk != "[DONE]" {
			out[letter] = append(out[letter], chunk)
		}
	}
	return out
}

func kindOf(chunk string) string {
	var c struct{ Type string }
	_ = json.Unmarshal([]byte(chunk), &c)
	return c.Type
}

// without leaves chunks of some types out.
func without(chunks []string, kinds ...string) (out []string) {
	for _, c := range chunks {
		if !strings.Contains(" "+strings.Join(kinds, " ")+" ", " "+kindOf(c)+" ") {
			out = append(out, c)
		}
	}
	return out
}

// modelSteps are the model's own chunks in a response, step by step, as a backend
// sends them: what the server adds is left out, and each step ends.
func modelSteps(response []string) (steps [][]string) {
	said := without(response, "start", "tool-approval-request", "tool-approval-response", "tool-output-available", "tool-output-error", "tool-output-denied")
	for _, c := range said {
		switch kindOf(c) {
		case "start-step":
			steps = append(steps, []string{c})
		case "finish":
			steps[len(steps)-1] = append(steps[len(steps)-1], c)
		default:
			steps[len(steps)-1] = append(steps[len(steps)-1], c)
		}
	}
	for i := range len(steps) - 1 {
		steps[i] = append(steps[i], `{"type":"finish","finishReason":"tool-calls"}`)
	}
	return steps
}

// What a server makes up by itself, and what the reference server has not.
var (
	asksFor    = regexp.MustCompile(`"approvalId":"([^"]*)","toolCallId":"([^"]*)"`)
	signature  = regexp.MustCompile(`,"signature":"([^"]*)"`)
	ourOwn     = regexp.MustCompile(`,"toolMetadata":\{"countersign":\{[^}]*\}\}`)
	messageIDs = regexp.MustCompile(`"messageId":"([^"]*)"`)
)

// question is what a client was asked.
type question struct {
	call, tool, approval, signature string
	input                           json.RawMessage
	output                          json.RawMessage
}

// questions are the calls of a response, as a client keeps them.
func questions(chunks []string) (out []*question) {
	of := map[string]*question{}
	for _, text := range chunks {
		var c struct {
			Type, ToolCallID, ToolName, ApprovalID, Signature string
			Input, Output                                     json.RawMessage
		}
		_ = json.Unmarshal([]byte(text), &c)
		switch c.Type {
		case "tool-input-available":
			of[c.ToolCallID] = &question{call: c.ToolCallID, tool: c.ToolName, input: c.Input}
			out = append(out, of[c.ToolCallID])
		case "tool-approval-request":
			of[c.ToolCallID].approval, of[c.ToolCallID].signature = c.ApprovalID, c.Signature
		case "tool-output-available":
			if q := of[c.ToolCallID]; q != nil {
				q.output = c.Output
			}
		}
	}
	return out
}

// part is the question as the client posts it, with its person's answer.
func (q *question) part(yes *bool, reason string) string {
	switch {
	case q.approval == "":
		return fmt.Sprintf(`{"type":"tool-%s","toolCallId":%q,"state":"output-available","input":%s,"output":%s}`, q.tool, q.call, q.input, q.output)
	case yes == nil:
		return fmt.Sprintf(`{"type":"tool-%s","toolCallId":%q,"state":"approval-requested","input":%s,"approval":{"id":%q,"signature":%q}}`,
			q.tool, q.call, q.input, q.approval, q.signature)
	}
	said := fmt.Sprintf(`"approved":%t`, *yes)
	if reason != "" {
		said += fmt.Sprintf(`,"reason":%q`, reason)
	}
	return fmt.Sprintf(`{"type":"tool-%s","toolCallId":%q,"state":"approval-responded","input":%s,"approval":{"id":%q,%s,"signature":%q}}`,
		q.tool, q.call, q.input, q.approval, said, q.signature)
}

// checkSignatures: every question is signed, for exactly its call.
func checkSignatures(t *testing.T, chunks []string, version uistream.Version) {
	t.Helper()
	for _, q := range questions(chunks) {
		if q.approval == "" {
			continue
		}
		want, err := uistream.Signed{ApprovalID: q.approval, ToolCallID: q.call, ToolName: q.tool, Input: strictjson.Raw(q.input)}.
			Sign([]byte(referenceSecret), version)
		if err != nil || q.signature != want {
			t.Errorf("%s is signed %q, want %q (%v)", q.call, q.signature, want, err)
		}
	}
}

// idsAside gives chunks with every id that a server makes in the place of its
// name, and without the members that are Countersign's own.
func idsAside(chunks []string) (out []string) {
	names := map[string]string{}
	named := func(kind, id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("%s %d", kind, len(names)+1)
		}
		return names[id]
	}
	var ids []string
	for _, c := range chunks {
		for _, found := range messageIDs.FindAllStringSubmatch(c, -1) {
			ids = append(ids, found[1], named("message", found[1]))
		}
		if found := asksFor.FindStringSubmatch(c); found != nil {
			ids = append(ids, found[1], "approval of "+found[2])
		}
	}
	r := strings.NewReplacer(ids...)
	for _, c := range chunks {
		out = append(out, r.Replace(signature.ReplaceAllString(ourOwn.ReplaceAllString(c, ""), "")))
	}
	return out
}
