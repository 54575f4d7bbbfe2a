package services

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/client"
)

// people are tokens of a key whose tokens may decide.
func (d *deployment) people(key string, decide bool, topics ...string) func(person string) string {
	d.T.Helper()
	made, err := d.Node(0).PutKey(d.T.Context(), key, client.Key{Roles: []string{"backend"}, TokensDecide: decide})
	must(d.T, err)
	return func(person string) string {
		token, err := client.New(d.API[0].URL, made.Key).MintToken(d.T.Context(), client.TokenRequest{Subject: person, Topics: topics})
		must(d.T, err)
		return token.Token
	}
}

// cards registers a turn with calls that ask, and gives their approvals.
func (d *deployment) cards(topic string, calls ...string) (approvals []string) {
	d.T.Helper()
	var parts []client.Part
	for _, id := range calls {
		parts = append(parts, client.ToolPart("delete_file", id, json.RawMessage(`{"path":"x"}`)))
	}
	out, err := d.Node(0).RegisterTurn(d.T.Context(), topic, client.TurnRequest{MessageID: "m", Parts: parts})
	must(d.T, err)
	for _, c := range out.Turn.Calls {
		approvals = append(approvals, c.ApprovalID)
	}
	return approvals
}

// open is a client's tool part whose card it shows unanswered.
func open(call, approval string) string {
	return fmt.Sprintf(`{"type":"tool-delete_file","toolCallId":%q,"state":"approval-requested","input":{"path":"x"},"approval":{"id":%q}}`, call, approval)
}

// approves is a client's tool part that its person approved.
func approves(call, approval string) string { return part(call, `{"path":"x"}`, approval, true) }

// as posts with a person's token what must be accepted.
func (d *deployment) as(token, sdk, body string) <-chan string {
	d.T.Helper()
	status, lines, problem := d.post(1, token, sdk, body)
	if status != http.StatusOK {
		d.T.Fatalf("POST /api/chat: %d %s", status, problem)
	}
	return lines
}

// The traps of the AI SDK's clients, which post by themselves: what a response
// tells must never make one post for ever, and never differ from the rows.
func TestTheTrapsOfChatClients(t *testing.T) {
	t.Parallel()
	d := servers(t)
	for i := range 2 {
		d.StartAPI(i, "COUNTERSIGN_CHAT_HOLD=1s")
	}
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	block := make(chan struct{})
	tool := newToolServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Countersign-Call") != "" && r.URL.Query().Has("slow") {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}
		_, _ = w.Write([]byte(`"gone"`))
	})
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))
	slow := tool.tool("unsafe")
	slow.HTTP.URL += "?slow"
	slow.Timeout = "60s"
	must(t, second(d.Node(0).PutTool(t.Context(), "slow_file", slow)))
	topics := []string{"b6", "b7", "c", "d", "e6", "e7", "edit6", "edit7", "quorum", "queue"}
	person := d.people("web", true, topics...)

	t.Run("clients", func(t *testing.T) {
		for _, sdk := range []string{"6", "7"} {
			t.Run("two people answer two cards in two windows, "+sdk, func(t *testing.T) {
				t.Parallel()
				d := d.in(t)
				cards := d.cards("b"+sdk, "c1", "c2")
				must(t, second(d.As(0, "user:bob").Decide(t.Context(), cards[0], client.Decision{Approved: true})))
				told := d.as(person("user:ann"), sdk, posted("b"+sdk, "m", open("c1", cards[0]), approves("c2", cards[1])))
				chunk(t, told, "start")
				if sdk == "7" { // the other's answer, before what came of it
					chunk(t, told, "tool-approval-response")
				}
				seen := map[any]bool{}
				for range 2 {
					seen[chunk(t, told, "tool-output-available")["toolCallId"]] = true
				}
				if !seen["c1"] || !seen["c2"] {
					t.Errorf("outputs of %v", seen)
				}
			})
			t.Run("another verdict stands, "+sdk, func(t *testing.T) {
				t.Parallel()
				d := d.in(t)
				cards := d.cards("e"+sdk, "c")
				must(t, second(d.As(0, "user:bob").Decide(t.Context(), cards[0], client.Decision{Approved: false, Reason: "no!"})))
				told := d.as(person("user:ann"), sdk, posted("e"+sdk, "m", approves("c", cards[0])))
				chunk(t, told, "start")
				if sdk == "6" {
					if c := chunk(t, told, "tool-output-error"); c["errorText"] != "no!" {
						t.Errorf("told: %v", c)
					}
					return
				}
				if c := chunk(t, told, "tool-approval-response"); c["approved"] != false || c["reason"] != "no!" {
					t.Errorf("told: %v", c)
				}
				chunk(t, told, "tool-output-denied")
			})
			t.Run("the input was edited, "+sdk, func(t *testing.T) {
				t.Parallel()
				d := d.in(t)
				cards := d.cards("edit"+sdk, "c")
				must(t, second(d.As(0, "user:bob").Decide(t.Context(), cards[0], client.Decision{Approved: true, UpdatedInput: json.RawMessage(`{"path":"y"}`)})))
				told := d.as(person("user:ann"), sdk, posted("edit"+sdk, "m", approves("c", cards[0])))
				chunk(t, told, "start")
				if c := chunk(t, told, "tool-input-available"); fmt.Sprint(c["input"]) != "map[path:y]" {
					t.Errorf("told: %v", c)
				}
				chunk(t, told, "tool-output-available")
			})
		}
		t.Run("a tool runs longer than a response is held", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			out, err := d.Node(0).RegisterTurn(t.Context(), "c", client.TurnRequest{MessageID: "m",
				Parts: []client.Part{client.ToolPart("slow_file", "c", json.RawMessage(`{"path":"x"}`))}})
			must(t, err)
			body := posted("c", "m", strings.ReplaceAll(approves("c", out.Turn.Calls[0].ApprovalID), "delete_file", "slow_file"))
			told := d.as(person("user:ann"), "6", body)
			if c := kinds(t, told, "start", "error"); !strings.Contains(fmt.Sprint(c["errorText"]), "still running") {
				t.Errorf("told: %v", c)
			}
			chunk(t, told, "[DONE]")
			close(block)
			again := d.as(person("user:ann"), "6", body) // the client's person tries again
			if c := kinds(t, again, "start", "tool-output-available", "error"); !strings.Contains(fmt.Sprint(c["errorText"]), "not begun") {
				t.Errorf("told: %v", c)
			}
		})
		t.Run("another approver is needed", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			must(t, second(d.Node(0).PutPolicy(t.Context(), "two", client.Policy{Tools: []string{"double_file"}, Action: "ask", Quorum: 2})))
			must(t, second(d.Node(0).PutTool(t.Context(), "double_file", tool.tool("unsafe"))))
			out, err := d.Node(0).RegisterTurn(t.Context(), "quorum", client.TurnRequest{MessageID: "m",
				Parts: []client.Part{client.ToolPart("double_file", "c", json.RawMessage(`{"path":"x"}`))}})
			must(t, err)
			body := posted("quorum", "m", strings.ReplaceAll(approves("c", out.Turn.Calls[0].ApprovalID), "delete_file", "double_file"))
			first := d.as(person("user:ann"), "6", body)
			if end := kinds(t, first, "start", "tool-approval-request", "finish"); end["finishReason"] != "tool-calls" {
				t.Errorf("the end: %v", end)
			}
			kinds(t, d.as(person("user:ann"), "6", body), "start", "tool-approval-request", "finish", "[DONE]") // the same person counts once
			kinds(t, d.as(person("user:bob"), "6", body), "start", "tool-output-available")
		})
		t.Run("a message waits for an open card", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			cards := d.cards("queue", "c")
			body := strings.Replace(writes("queue", "u2", "And then?"), `"extra"`, `"whileOpen":"queue","extra"`, 1)
			if c := kinds(t, d.as(person("user:ann"), "6", body), "error"); !strings.Contains(fmt.Sprint(c["errorText"]), "not begun") { // held long enough
				t.Errorf("told: %v", c)
			}
			must(t, second(d.As(0, "user:bob").Decide(t.Context(), cards[0], client.Decision{Approved: false})))
			card, err := d.Node(0).Approval(t.Context(), cards[0])
			must(t, err)
			d.accept("queue", client.Turn{ID: card.Turn})
			queued := d.replyTo(0, "queue")
			if queued.Turn.Continues == "" || queued.Message.ID == "m" {
				t.Errorf("the answer: %+v", queued)
			}
			again := d.as(person("user:ann"), "6", body)
			d.stream(0, "queue", queued).say(speaks...)
			kinds(t, again, "start", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish", "[DONE]")
		})
		t.Run("who may decide", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			cards := d.cards("d", "c")
			reader := d.people("readers", false, "d")
			status, _, problem := d.post(1, reader("user:eve"), "6", posted("d", "m", approves("c", cards[0])))
			if status != http.StatusForbidden {
				t.Errorf("a token that may not decide: %d %s", status, problem)
			}
			if card, err := d.Node(0).Approval(t.Context(), cards[0]); err != nil || card.State != "requested" {
				t.Errorf("the card: %+v, %v", card, err)
			}
			kinds(t, d.as(person("user:bob"), "6", posted("d", "m", approves("c", cards[0]))), "start", "tool-output-available")
			card, err := d.Node(0).Approval(t.Context(), cards[0])
			if err != nil || card.Decision == nil || card.Decision.DecidedBy != "user:bob" || card.Decision.Channel != "chat" {
				t.Errorf("the decision: %+v, %v", card.Decision, err)
			}
			next := d.as(reader("user:eve"), "6", writes("d", "u2", "And now?")) // she may write
			d.stream(0, "d", d.replyTo(0, "d")).say(speaks...)
			kinds(t, next, "start", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish", "[DONE]")
		})
	})
	d.holds()
}
