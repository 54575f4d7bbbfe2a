package services

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/uistream"
)

// referenceSecret is the one with which the captures are signed.
const referenceSecret = "test-secret-key-for-hmac-signing"

// reference is a conversation that the AI SDK's own server was captured in.
type reference struct {
	name  string
	first string // the response to a person's message
	tool  string // stands for deleteFile
	// What the client posts next, and the response to that: its person's
	// answers to the cards, or another message.
	answers  map[string]bool
	reason   string
	message  string
	next     string
	changed  string   // a tool that a policy denies before the client posts
	refuses  bool     // only the first words of the response are compared
	resumed  string   // the response that tells the same in one stream
	again    string   // the response to the very same post once more
	differs  []string // texts that are another system's, and ours
	leaveOut []string // chunks of it that Countersign has no reason to send
}

var references = []reference{
	{name: "approved", first: "A", answers: map[string]bool{"call_1": true}, reason: "fine", next: "B", resumed: "J",
		again: "E", // which runs the tool twice there, and tells the same here
		differs: []string{`"delta":"again"`, `"delta":"Deleted."`, `"reason":"policy allow"`, `"reason":"fine"`, `"delta":"ok"`, `"delta":"Deleted."`,
			`,"isAutomatic":true`, ``}},
	{name: "denied with a reason", first: "A", answers: map[string]bool{"call_1": false}, reason: "no", next: "C", resumed: "K",
		differs: []string{`"reason":"policy deny"`, `"reason":"no"`, `"delta":"ok"`, `"delta":"Ok."`, `,"isAutomatic":true`, ``}},
	{name: "two cards and a call that needs none", first: "F", answers: map[string]bool{"call_a": false, "call_b": true}, next: "F2"},
	{name: "one of two cards answered", first: "F", answers: map[string]bool{"call_a": true}, next: "F1", refuses: true,
		leaveOut: []string{"tool-output-available"}, // nothing runs before all of a step is answered
		differs:  []string{"ERR AI_MissingToolResultsError: Tool result is missing for tool call call_b.", "What was answered is not carried out yet."}},
	{name: "the tool fails", first: "A", tool: "failingFile", answers: map[string]bool{"call_1": true}, next: "G"},
	{name: "a message while a card is open", first: "A", message: "never mind", next: "H"},
	{name: "a policy allows", first: "J", tool: "allowedFile",
		leaveOut: []string{"tool-approval-request", "tool-approval-response"}}, // nobody is asked
	{name: "a policy denies", first: "K", tool: "deniedFile"},
	{name: "asked for a reason", first: "L", differs: []string{`,"reason":"destructive"`, ``}}, // the card has it, the chunk has not
	cameMeanwhile("laterFile"),
	cameMeanwhile("soonerFile"),
}

// cameMeanwhile: a policy denies what a person has approved. There the call is
// denied, though approved, a part that the SDK's own validation refuses.
func cameMeanwhile(tool string) reference {
	return reference{name: "a policy came meanwhile, " + tool, first: "A", tool: tool, answers: map[string]bool{"call_1": true}, next: "M", changed: tool,
		differs: []string{`{"type":"tool-output-denied","toolCallId":"call_1"}`,
			`{"type":"tool-output-error","toolCallId":"call_1","errorText":"policy changed The tool did not run."}`}}
}

// What a client is told is, chunk by chunk and byte by byte, what the AI SDK's
// own server tells it, ids aside: in the response to its post, in the stream
// of another window, and in intake's answer to the backend.
func TestTheStreamsAreThoseOfTheReferenceServer(t *testing.T) {
	t.Parallel()
	d := servers(t)
	for i := range 2 {
		d.StartAPI(i, "COUNTERSIGN_APPROVAL_SECRET="+referenceSecret, "COUNTERSIGN_CHAT_HOLD=20s")
	}
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	d.referenceTools()
	t.Run("all", func(t *testing.T) {
		for _, version := range []uistream.Version{uistream.V6, uistream.V7} {
			responses := readCaptures(t, version)
			for letter, chunks := range readCaptures(t, uistream.V7) { // V6 has no policies, but a policy's words for V6 are known
				if responses[letter] == nil || letter == "H" {
					responses[letter] = chunks
				}
			}
			for i, r := range references {
				if r.changed != "" && (r.changed == "laterFile") != (version == uistream.V7) {
					continue // a policy is for all conversations, so each has a tool of its own
				}
				t.Run(fmt.Sprintf("%s, v%d", r.name, version), func(t *testing.T) {
					t.Parallel()
					c := &compared{deployment: d.in(t), reference: r, version: version, responses: responses, topic: fmt.Sprintf("reference-%d-%d", version, i)}
					c.play()
				})
			}
		}
		t.Run("what a stream says of its message", func(t *testing.T) {
			t.Parallel()
			d.in(t).metadata()
		})
	})
	d.holds()
}

// metadata: what a model's stream says of its message reaches every window as
// it is said, is told again from the rows, and stands in the message as the
// SDK's client merges it.
func (d *deployment) metadata() {
	c := &compared{deployment: d, version: uistream.V6, topic: "metadata"}
	body := writes(c.topic, "u", "hi")
	posted := c.respond(0, http.MethodPost, "/api/chat", body)
	w := c.stream(1, c.topic, c.replyTo(1, c.topic))
	w.say(`{"type":"start","messageMetadata":{"model":"m","usage":{"in":1.0}}}`)
	posted.follow(1)
	w.say(`{"type":"start-step"}`, `{"type":"text-start","id":"1"}`, `{"type":"text-delta","id":"1","delta":"Hello."}`, `{"type":"text-end","id":"1"}`,
		`{"type":"message-metadata","messageMetadata":{"usage":{"out":2}}}`, `{"type":"finish-step"}`,
		`{"type":"finish","finishReason":"stop","messageMetadata":{"usage":{"in":3},"done":true}}`)
	want := []string{`{"type":"message-metadata","messageMetadata":{"model":"m","usage":{"in":1.0}}}`,
		`{"type":"message-metadata","messageMetadata":{"usage":{"out":2}}}`, `{"type":"message-metadata","messageMetadata":{"usage":{"in":3},"done":true}}`}
	for _, told := range [][]string{posted.rest(), c.respond(0, http.MethodPost, "/api/chat", body).rest()} {
		if diff := cmp.Diff(want, slices.DeleteFunc(told, func(c string) bool { return kindOf(c) != "message-metadata" })); diff != "" {
			c.T.Errorf("the client is told (-want +got):\n%s", diff)
		}
	}
	page, err := c.Node(0).Messages(c.T.Context(), c.topic, client.Paging{})
	must(c.T, err)
	if got := string(page.Items[1].Metadata); got != `{"done":true,"model":"m","usage":{"in":3,"out":2}}` {
		c.T.Errorf("the message has %s", got)
	}
}

// referenceTools are the tools of the captures, one for each way in which
// deleteFile goes there.
func (d *deployment) referenceTools() {
	d.T.Helper()
	files := &toolServer{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var of struct{ Path string }
		_ = json.NewDecoder(r.Body).Decode(&of)
		switch r.URL.Path {
		case "/readFile":
			fmt.Fprint(w, `{"content":"x"}`)
		case "/failingFile":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, "ERR Error: EPERM")
		default:
			fmt.Fprintf(w, `{"deleted":%q}`, of.Path)
		}
	}))}
	d.T.Cleanup(files.Close)
	for name, effect := range map[string]string{"readFile": "read", "allowedFile": "read", "deleteFile": "unsafe", "failingFile": "unsafe",
		"laterFile": "unsafe", "soonerFile": "unsafe", "deniedFile": "unsafe"} {
		tool := files.tool(effect)
		tool.HTTP.URL += "/" + name
		must(d.T, second(d.Node(0).PutTool(d.T.Context(), name, tool)))
	}
	must(d.T, second(d.Node(0).PutPolicy(d.T.Context(), "no", client.Policy{Tools: []string{"deniedFile"}, Action: "deny", Reason: "policy deny"})))
}

// compared is one conversation, compared with a captured one.
type compared struct {
	*deployment
	reference
	version   uistream.Version
	responses captures
	topic     string
}

func (c *compared) play() {
	posted := c.respond(0, http.MethodPost, "/api/chat", writes(c.topic, "u", "delete it"))
	told := c.speak(c.first, posted, "")
	if c.next == "" {
		return
	}
	if c.changed != "" {
		must(c.T, second(c.Node(0).PutPolicy(c.T.Context(), c.changed, client.Policy{Tools: []string{c.changed}, Action: "deny", Reason: "policy changed"})))
	}
	body := c.answered(told)
	if c.message != "" {
		body = writes(c.topic, "u2", c.message)
	}
	posted = c.respond(1, http.MethodPost, "/api/chat", body)
	if c.refuses {
		c.compare("the response", posted.rest(), c.expected(c.next))
		return
	}
	c.speak(c.next, posted, c.resumed)
	if c.again != "" {
		c.compare("the same post again", c.respond(0, http.MethodPost, "/api/chat", body).rest(), c.expected(c.again))
	}
}

// speak plays the model's part of a captured response, each step when the
// client follows it, and compares what the client is told with it, and what
// another window is; it gives the chunks.
func (c *compared) speak(letter string, posted *response, resumed string) []string {
	c.T.Helper()
	var window *response
	for i, step := range modelSteps(c.expected(letter)) {
		turn := c.replyTo(i%2, c.topic)
		shown := i + 1
		if whole := letter == c.first || c.message != ""; i == 0 && (whole || resumed != "") {
			window = c.respond(1, http.MethodGet, "/api/chat/"+c.topic+"/stream", "")
		}
		w := c.stream(i%2, c.topic, turn)
		w.say(step[0])
		posted.follow(shown)
		if resumed != "" {
			shown++ // the step before is told first
		}
		if window != nil {
			window.follow(shown)
		}
		w.say(step[1:]...)
		var answer []string
		for line := range w.lines {
			answer = append(answer, line)
		}
		checkSignatures(c.T, answer, uistream.V6)
		c.compare("intake's answer", answer, c.intakes(letter, i))
	}
	told := posted.rest()
	c.compare("the response", told, c.expected(letter))
	checkSignatures(c.T, told, c.version)
	switch {
	case resumed != "": // rows know whole inputs alone
		c.compare("a window that resumes", window.rest(), without(c.expected(resumed), "tool-input-start", "tool-input-delta"))
	case window != nil:
		c.compare("another window", window.rest(), c.expected(letter))
	}
	return told
}

// answered is the client's post with its person's answers.
func (c *compared) answered(told []string) string {
	var parts []string
	for _, q := range questions(told) {
		var yes *bool
		if answer, given := c.answers[q.call]; given {
			yes = &answer
		}
		parts = append(parts, q.part(yes, c.reason))
	}
	return posted(c.topic, messageIDs.FindStringSubmatch(told[0])[1], parts...)
}

// replaced is a capture with this conversation's tool and words.
func (c *compared) replaced(letter string) (out []string) {
	words := c.differs
	if c.tool != "" {
		words = append([]string{`"toolName":"deleteFile"`, fmt.Sprintf(`"toolName":%q`, c.tool)}, words...)
	}
	r := strings.NewReplacer(words...)
	for _, chunk := range c.responses[letter] {
		out = append(out, r.Replace(chunk))
	}
	if letter == c.first && c.next != "" {
		return out
	}
	return without(out, c.leaveOut...)
}

// expected is what a client is told where the reference server sent that
// response: V6 has no chunk for a verdict, and a call that is over is told to
// it with the outcome alone.
func (c *compared) expected(letter string) []string {
	chunks := c.replaced(letter)
	if c.version < uistream.V7 {
		chunks = without(chunks, "tool-approval-response")
		if letter == c.resumed && letter == "J" {
			chunks = without(chunks, "tool-approval-request")
		}
	}
	return chunks
}

// intakes is what a backend is answered about a step: the committed calls, and
// what is asked about each.
func (c *compared) intakes(letter string, step int) (out []string) {
	at := -1
	for _, chunk := range c.replaced(letter) {
		switch kind := kindOf(chunk); {
		case kind == "start-step":
			at++
		case at == step && strings.Contains(" tool-input-available tool-approval-request tool-approval-response tool-output-denied ", " "+kind+" "):
			out = append(out, chunk)
		}
	}
	return out
}

func (c *compared) compare(what string, chunks, want []string) {
	c.T.Helper()
	if diff := cmp.Diff(idsAside(want), idsAside(chunks)); diff != "" {
		c.T.Errorf("%s (-the reference server's, +Countersign's):\n%s", what, diff)
	}
}
