package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// allowed defines a tool that policy allows, so that a call of it runs at once.
func (d *deployment) allowed(name, effect string, answer http.HandlerFunc, change ...func(*client.Tool)) *toolServer {
	d.T.Helper()
	server := newToolServer(d.T, answer)
	d.allow(name, effect, server.URL, change...)
	return server
}

func (d *deployment) allow(name, effect, url string, change ...func(*client.Tool)) {
	d.T.Helper()
	tool := client.Tool{Effect: effect, Timeout: "30s", HTTP: &client.HTTPTool{URL: url}}
	for _, c := range change {
		c(&tool)
	}
	must(d.T, second(d.Node(0).PutTool(d.T.Context(), name, tool)))
	must(d.T, second(d.Node(0).PutPolicy(d.T.Context(), "allow-"+name, client.Policy{Tools: []string{name}, Action: "allow"})))
}

// start registers a turn in a topic of its own that calls tools, and gives
// its calls.
func (d *deployment) start(topic string, tools ...string) []client.TurnCall {
	d.T.Helper()
	turn := client.TurnRequest{MessageID: "m"}
	for i, tool := range tools {
		turn.Parts = append(turn.Parts, client.ToolPart(tool, fmt.Sprintf("c%d", i), json.RawMessage(`{"n":1}`)))
	}
	out, err := d.Node(0).RegisterTurn(d.T.Context(), topic, turn)
	must(d.T, err)
	return out.Turn.Calls
}

// runIs waits until a call's run is in a state.
func (d *deployment) runIs(call, run string) (found client.Call) {
	d.T.Helper()
	testcluster.Eventually(d.T, "the run is "+run, func(ctx context.Context) (err error) {
		if found, err = d.Node(0).Call(ctx, call); err == nil && found.Run != run {
			err = fmt.Errorf("it is %s, its call %s: %s", found.Run, found.State, found.Raw)
		}
		return err
	})
	return found
}

// output is a call's output, and the text of its error, as its history shows
// them.
func (d *deployment) output(topic string) (output json.RawMessage, errorText string) {
	d.T.Helper()
	history, err := d.Node(0).Messages(d.T.Context(), topic, client.Paging{})
	must(d.T, err)
	for _, raw := range history.Items[0].Parts {
		var part struct {
			Type, ErrorText string
			Output          json.RawMessage
		}
		must(d.T, json.Unmarshal(raw, &part))
		if strings.HasPrefix(part.Type, "tool-") {
			return part.Output, part.ErrorText
		}
	}
	d.T.Fatalf("%s has no tool part", topic)
	return nil, ""
}

// says answers with a status and a body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
