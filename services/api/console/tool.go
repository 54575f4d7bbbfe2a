package console

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// tool is one call as the page shows it.
type tool struct {
	ID         model.CallID
	Name       string
	Server     string
	Effect     model.Effect
	EffectText string
	Tone       string // how it stands, for the eye: "wait", "run", "good", "bad", "no"
	Text       string // how it stands, in words
	Verdict    *verdict
	Input      value
	Edited     bool
	Output     *value
	Error      string
	Attempts   int64
	Card       *card    // while it waits for a person
	Doubt      *doubt   // while its outcome is unknown
	Resolved   *verdict // what a person found out about it
}

// value is JSON to be read by a person.
type value struct {
	Text  string // spread over lines, everything hidden marked
	Raw   string // as it came, everything hidden marked
	Marks int    // how much was hidden
	Bytes int    // as it came
	Cut   int    // bytes of Text that are not shown, of a large output
}

// verdict is how a card was answered.
type verdict struct {
	Text   string
	By     string
	At     time.Time
	Reason string
}

// card is the question.
type card struct {
	Approval    model.ApprovalID
	Topic       model.TopicID
	Digest      string
	Short       string
	RequestedBy string
	RequestedAt time.Time
	ExpiresAt   time.Time
	Rule        string
	ApprovedBy  []string
	Definition  string
	Refused     string // why this person may not answer, or ""
	Repeats     string // that it may do again what was done already, or ""
}

var effectTexts = map[model.Effect]string{
	model.EffectRead:       "reads only",
	model.EffectIdempotent: "safe to repeat",
	model.EffectKeyed:      "once, by its key",
	model.EffectUnsafe:     "changes something, runs at most once",
}

// maxOutput bounds how much of an output the page shows, in bytes. Inputs are
// always shown whole: they are what is approved.
const maxOutput = 16 << 10

func newValue(raw json.RawMessage) value {
	return value{Text: visible.JSON(raw), Raw: visible.Text(string(raw)), Marks: visible.CountJSON(raw), Bytes: len(raw)}
}

// shortLine is how long arguments may be that are shown on one line, in bytes.
const shortLine = 100

// shorten puts what is decided already on one line, if it fits.
func (v *value) shorten(raw json.RawMessage) {
	if line := visible.JSONLine(raw); len(line) <= shortLine {
		v.Text = line
	}
}

func newOutput(raw json.RawMessage) *value {
	v := newValue(raw)
	if text, ok := textOf(raw); ok {
		v.Text, v.Marks = visible.Text(text), visible.Count(text)
	}
	if len(v.Text) > maxOutput {
		cut := strings.ToValidUTF8(v.Text[:maxOutput], "")
		v.Cut, v.Text = len(v.Text)-len(cut), cut
	}
	return &v
}

// textOf reads an output that is nothing but text: a string, or what an MCP
// server answers with text alone.
func textOf(raw json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text, true
	}
	var answer map[string]json.RawMessage
	var content []struct{ Type, Text string }
	if json.Unmarshal(raw, &answer) != nil || len(answer) != 1 || json.Unmarshal(answer["content"], &content) != nil {
		return "", false
	}
	var lines []string
	for _, c := range content {
		if c.Type != "text" {
			return "", false
		}
		lines = append(lines, c.Text)
	}
	return strings.Join(lines, "\n"), len(lines) > 0
}

func newTool(t store.MessageTurn, c store.MessageCall, around surroundings) *tool {
	out := &tool{
		ID: c.ID, Name: visible.Line(c.Tool.Name), Server: visible.Line(c.Tool.Server), Effect: c.Tool.Effect,
		EffectText: effectTexts[c.Tool.Effect], Input: newValue(c.Input), Edited: c.Edited, Attempts: c.Fence,
	}
	out.Tone, out.Text = standing(t, c)
	if a := c.Approval; a != nil && a.State != model.ApprovalRequested {
		out.Verdict = newVerdict(a)
	}
	switch {
	case c.State == model.CallOutputAvailable:
		out.Output = newOutput(c.Output)
	case c.State == model.CallOutputError || c.Run == model.RunUnknown:
		out.Error = visible.Text(c.ErrorText)
	}
	out.addDoubt(t, around)
	if open, isOpen := around.cards[c.ID]; isOpen && c.State == model.CallApprovalRequested {
		out.Card = newCard(open, around.by)
	} else if out.Doubt == nil {
		out.Input.shorten(c.Input)
	}
	return out
}

// addDoubt adds what there is to say about an outcome that is, or was,
// unknown.
func (t *tool) addDoubt(turn store.MessageTurn, around surroundings) {
	view, found := around.doubts[t.ID]
	switch {
	case found && view.Run == model.RunUnknown:
		t.Doubt = newDoubt(view, around.by, turn.RequestedBy)
	case found && view.Resolution != nil:
		t.Resolved = newResolved(view.Resolution)
	}
}

// standing says how a call stands.
func standing(t store.MessageTurn, c store.MessageCall) (tone, text string) {
	switch c.State {
	case model.CallApprovalRequested:
		return "wait", "waits for a person"
	case model.CallOutputAvailable:
		return "good", "done"
	case model.CallOutputDenied:
		return "no", deniedText(c)
	case model.CallOutputError:
		if text, ok := endTexts[c.Outcome]; ok {
			return "no", text
		}
		return "bad", "failed"
	}
	switch c.Run {
	case model.RunQueued:
		return "run", "queued"
	case model.RunStarted:
		return "run", "running"
	case model.RunUnknown:
		return "wait", "needs attention: outcome not known"
	}
	if t.OpenApprovals > 0 {
		return "run", "approved; runs when the other cards are answered"
	}
	return "run", "about to run"
}

// endTexts are the ends of a call that are no failure of its tool.
var endTexts = map[model.Outcome]string{
	model.OutcomeStopped: "stopped before it ran",
	model.OutcomeUnknown: "closed, outcome not known",
}

func deniedText(c store.MessageCall) string {
	switch {
	case c.Outcome != "":
		return string(c.Outcome)
	case c.Approval != nil && c.Approval.DecisionID == "":
		return "denied by policy"
	}
	return "denied"
}

func newVerdict(a *model.Approval) *verdict {
	v := &verdict{At: a.DecidedAt, By: visible.Line(a.DecidedBy), Reason: visible.Text(a.Reason)}
	switch a.State {
	case model.ApprovalApproved:
		v.Text = "Approved by"
	case model.ApprovalDenied:
		v.Text = "Denied by"
	default:
		v.Text, v.By = "Closed", ""
	}
	return v
}

func newCard(c store.Card, p model.Principal) *card {
	a := c.Call.Approval
	digest := hex.EncodeToString(c.Call.Digest)
	out := &card{
		Approval: a.ID, Topic: c.Topic, Digest: digest, Short: digest[:min(12, len(digest))],
		RequestedBy: visible.Line(c.RequestedBy), RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt,
	}
	out.Repeats = repeated(c.Earlier)
	if c.Definition != nil {
		out.Definition = visible.JSON(c.Definition)
	}
	for _, who := range c.Approvers {
		out.ApprovedBy = append(out.ApprovedBy, visible.Line(who))
	}
	if a.Rule.Quorum > 1 {
		out.Rule = strconv.Itoa(len(c.Approvers)) + " of " + strconv.Itoa(a.Rule.Quorum) + " people have approved"
	}
	out.Refused = whyNot(a.Rule, p, c.RequestedBy)
	return out
}

// whyNot says why a person may not answer, or "".
func whyNot(rule model.Requirement, p model.Principal, requestedBy string) string {
	switch {
	case rule.MayDecide(p, requestedBy):
		return ""
	case !p.Has(model.RoleApprover):
		return "This key may look, but not answer."
	case rule.FourEyes && (p.Subject == requestedBy || "key:"+p.Key == requestedBy):
		return "It was asked for on your behalf, so somebody else must answer."
	}
	return "A policy names who may answer this, and you are not among them."
}
