package uistream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/strictjson"
)

// steps are streams of one step that a model's side may send.
var steps = map[string]string{
	"a call": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"tool-input-start","toolCallId":"c","toolName":"delete_file"}
		{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{\"path\":"}
		{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"\"/tmp/x\"}"}
		{"type":"tool-input-available","toolCallId":"c","toolName":"delete_file","input":{"path":"/tmp/x"}}
		{"type":"finish-step"}
		{"type":"finish","finishReason":"tool-calls"}`,
	"text and thought": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"reasoning-start","id":"r","providerMetadata":{"p":{"a":1}}}
		{"type":"reasoning-delta","id":"r","delta":"hm"}
		{"type":"reasoning-end","id":"r","providerMetadata":{"p":{"b":2}}}
		{"type":"text-start","id":"t"}
		{"type":"text-delta","id":"t","delta":"Hel"}
		{"type":"text-delta","id":"t","delta":"lo <b>&"}
		{"type":"text-end","id":"t"}
		{"type":"finish-step"}
		{"type":"finish"}`,
	"two texts at once": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"text-start","id":"1"}
		{"type":"text-start","id":"2"}
		{"type":"text-delta","id":"2","delta":"b"}
		{"type":"text-delta","id":"1","delta":"a"}
		{"type":"text-end","id":"2"}
		{"type":"text-end","id":"1"}
		{"type":"finish-step"}`,
	"a dynamic call with all it can say": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"tool-input-start","toolCallId":"c","toolName":"x","dynamic":true,"title":"X","toolMetadata":{"k":1},"providerMetadata":{"p":{"a":1}}}
		{"type":"tool-input-available","toolCallId":"c","toolName":"x","dynamic":true,"input":null,"title":"X","toolMetadata":{"k":1},"providerMetadata":{"p":{"b":1}}}
		{"type":"finish-step"}`,
	"input that does not parse": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"tool-input-start","toolCallId":"c","toolName":"x"}
		{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{bad"}
		{"type":"tool-input-error","toolCallId":"c","toolName":"x","input":"{bad","errorText":"not JSON"}
		{"type":"tool-input-error","toolCallId":"d","toolName":"x","input":"{bad","errorText":"not JSON","dynamic":true}
		{"type":"finish-step"}`,
	"the provider's own call": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"tool-input-available","toolCallId":"c","toolName":"search","input":{"q":1},"providerExecuted":true}
		{"type":"tool-output-available","toolCallId":"c","output":{"hits":2},"providerExecuted":true,"providerMetadata":{"p":{"x":1}}}
		{"type":"tool-input-available","toolCallId":"d","toolName":"search","input":{},"providerExecuted":true}
		{"type":"tool-output-error","toolCallId":"d","errorText":"no","providerExecuted":true}
		{"type":"text-start","id":"t"}
		{"type":"text-delta","id":"t","delta":"Found."}
		{"type":"text-end","id":"t"}
		{"type":"finish-step"}`,
	"sources, a file and data": `{"type":"start","messageId":"m"}
		{"type":"start-step"}
		{"type":"source-url","sourceId":"s","url":"https://x","title":"t"}
		{"type":"source-document","sourceId":"s2","mediaType":"application/pdf","title":"t","filename":"f.pdf"}
		{"type":"file","url":"https://x","mediaType":"image/png"}
		{"type":"data-weather","id":"d","data":{"a":1}}
		{"type":"data-weather","id":"d","data":{"a":2}}
		{"type":"data-weather","data":3}
		{"type":"data-gone","data":3,"transient":true}
		{"type":"finish-step"}`,
}

// The parts of a step are those that the SDK's own client has, in both
// versions.
func TestPartsAreTheClientsOwn(t *testing.T) {
	t.Parallel()
	var names []string
	var questions []reduction
	for name, text := range steps {
		for _, v := range []Version{V6, V7} {
			names = append(names, name)
			questions = append(questions, reduction{Version: v, Chunks: split(text)})
		}
	}
	for i, answer := range reduce(t, questions) {
		if answer.Error != "" || answer.Invalid != "" {
			t.Errorf("%s: the client fails: %s%s", names[i], answer.Error, answer.Invalid)
			continue
		}
		parts, err := assemble(t, steps[names[i]]).Parts()
		if err != nil {
			t.Fatal(err)
		}
		// V6 keeps an input that does not parse under another name, if the tool
		// is a static one.
		theirs := strings.ReplaceAll(string(raw(t, answer.Message.Parts)), `"rawInput"`, `"input"`)
		if !same(t, parts, strictjson.Raw(theirs)) {
			t.Errorf("%s, v%d:\n%s\nwant\n%s", names[i], questions[i].Version, parts, answer.Message.Parts)
		}
	}
}

func split(text string) (out []json.RawMessage) {
	for line := range strings.Lines(text) {
		out = append(out, json.RawMessage(strings.TrimSpace(line)))
	}
	return out
}

func assemble(t *testing.T, text string) *Step {
	t.Helper()
	s := &Step{}
	for _, line := range split(text) {
		c, err := Parse(line)
		if err == nil {
			_, err = s.Add(c)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return s
}

// What a model's side must not say is refused, and changes nothing.
func TestRefusedChunks(t *testing.T) {
	t.Parallel()
	const begun = `{"type":"start-step"}
		{"type":"text-start","id":"t"}
		{"type":"tool-input-available","toolCallId":"c","toolName":"x","input":{}}`
	for line, want := range map[string]error{
		`{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}`:                      ErrAuthority,
		`{"type":"tool-approval-response","approvalId":"a","approved":true}`:                      ErrAuthority,
		`{"type":"tool-output-available","toolCallId":"c","output":1}`:                            ErrAuthority,
		`{"type":"tool-output-error","toolCallId":"c","errorText":"x"}`:                           ErrAuthority,
		`{"type":"tool-output-denied","toolCallId":"c"}`:                                          ErrAuthority,
		`{"type":"message-metadata","messageMetadata":"x"}`:                                       errMetadata,
		`{"type":"finish","messageMetadata":[1]}`:                                                 errMetadata,
		`{"type":"reset-step"}`:                                                                   ErrAuthority,
		`{"type":"start-step"}`:                                                                   ErrOneStep,
		`{"type":"text-start","id":"u"}`:                                                          ErrTextFirst,
		`{"type":"text-start","id":"t"}`:                                                          nil,
		`{"type":"text-delta","id":"nobody","delta":"x"}`:                                         nil,
		`{"type":"tool-input-delta","toolCallId":"nobody","inputTextDelta":"x"}`:                  nil,
		`{"type":"tool-input-available","toolCallId":"c","toolName":"x","input":{}}`:              nil,
		`{"type":"tool-input-start","toolCallId":"c","toolName":"x"}`:                             nil,
		`{"type":"tool-output-available","toolCallId":"nobody","output":1}`:                       nil,
		`{"type":"tool-input-available","toolCallId":"d","toolName":"x","input":"` + big() + `"}`: nil,
	} {
		s := assemble(t, begun)
		before, _ := s.Parts()
		c, err := Parse([]byte(line))
		if err != nil {
			t.Errorf("%.80s: %v", line, err)
			continue
		}
		if _, err = s.Add(c); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%.80s: %v, want %v", line, err, want)
		}
		if after, _ := s.Parts(); !same(t, before, after) {
			t.Errorf("%.80s changed the step:\n%s\nwas\n%s", line, after, before)
		}
	}
}

func big() string { return strings.Repeat("x", MaxInput) }

// Nothing follows the end, and nothing but the end follows finish-step.
func TestTheEndIsTheEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []string{`{"type":"finish"}`, `{"type":"error","errorText":"x"}`, `{"type":"abort"}`} {
		s := assemble(t, `{"type":"start-step"}`+"\n"+end)
		if _, err := s.Add(Chunk{Type: TextStart, ID: "t"}); !errors.Is(err, ErrEnded) || !s.Ended() {
			t.Errorf("after %s: %v, ended %t", end, err, s.Ended())
		}
	}
	s := assemble(t, `{"type":"start-step"}`+"\n"+`{"type":"finish-step"}`)
	if _, err := s.Add(Chunk{Type: StartStep}); !errors.Is(err, ErrOneStep) || s.Ended() {
		t.Errorf("after finish-step: %v", err)
	}
}

// What is no chunk is refused, and what a later version adds to one is kept.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		``, `{`, `[]`, `null`, `{"type":"text-delta","id":"t"}`, `{"type":"nope"}`, `{"type":"finish","finishReason":"tired"}`,
		`{"type":"text-delta","id":"t","delta":null}`, `{"type":"text-delta","id":"t","delta":"a","delta":"b"}`,
		`{"type":"tool-input-available","toolCallId":"c","toolName":"x"}`, `{"type":"data-x"}`, `{"type":"text-end","id":1}`,
		`{"type":"text-start","id":"t","providerMetadata":null}`, `{"type":"text-start","id":"t","providerMetadata":5}`,
		`{"type":"text-start","id":"t","providerMetadata":{"p":5}}`, `{"type":"text-start","id":"t","providerMetadata":{"p":{"__proto__":1}}}`,
		`{"type":"tool-input-start","toolCallId":"c","toolName":"x","toolMetadata":3}`,
		`{"type":"tool-input-start","toolCallId":"c","toolName":"x","toolMetadata":{"__proto__":3}}`,
		`{"type":"tool-input-start","toolCallId":"c","toolName":"x","inputEncoding":"xml"}`,
		`{"type":"text-end","id":"t","another":{"constructor":{"prototype":1}}}`, `{"type":"message-metadata","messageMetadata":{"__proto__":1}}`,
		"{\"type\":\"error\",\"errorText\":\"\xff\"}", `{"type":"error","errorText":"\ud800"}`,
	} {
		if c, err := Parse([]byte(line)); err == nil {
			t.Errorf("%q was read as %+v", line, c)
		}
	}
	const later = `{"type":"text-end","id":"t","citations":[1]}`
	c, err := Parse([]byte(later))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.Encode(); err != nil || string(out) != later {
		t.Errorf("%s, %v", out, err)
	}
}

// Every chunk counts against a step's size, one that is told otherwise than it
// came included: nobody may fill a node's memory.
func TestAStepIsNoLargerThanItMayBe(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for name, output := range map[string]string{"an output": `"` + long + `"`, "poison": `{"__proto__":"` + long + `"}`} {
		s := &Step{}
		taken := 0
		for err := error(nil); err == nil; taken++ {
			id := strings.Repeat("c", taken+1)
			if err = feed(s, `{"type":"tool-input-available","toolCallId":"`+id+`","toolName":"t","input":{},"providerExecuted":true}`); err == nil {
				err = feed(s, `{"type":"tool-output-available","toolCallId":"`+id+`","output":`+output+`}`)
			}
			if err != nil && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%s: %v", name, err)
			}
			if taken > MaxSize>>20 {
				t.Fatalf("%s: a step took %d MiB", name, taken)
			}
		}
	}
}

func feed(s *Step, line string) error {
	c, err := Parse([]byte(line))
	if err == nil {
		_, err = s.Add(c)
	}
	return err
}
