package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// The way of a turn that the model loop goes on from: asking the model is part
// of answering, and what the model calls is part of asking it: committed at
// once, and with the end of the turn.
const wayOfAnAnswer = `api: POST /v1/topics/{topic}/turns
  api: evaluate
  api: register
  continuer: continue
    worker: answer
      worker: evaluate
      worker: register
      worker: chat scripted-1
        worker: evaluate
        worker: register
        worker: evaluate
        worker: register
`

// The trace leads from the request that registered the turn into the model
// loop: what its model was asked is a span of the GenAI conventions, which
// says how it went and nothing of what was said.
func TestTheTraceOfTheModelLoop(t *testing.T) {
	t.Parallel()
	spans := newSpanCollector(t)
	p := newProvider(t, func(scripted.Request) scripted.Answer {
		return scripted.Stream(scripted.Say("hush"), scripted.Call(0, "c2", "look", `{"path":"hush"}`), scripted.End("tool_calls"))
	})
	d := servers(t)
	d.StartAPI(0, spans.env()...)
	d.StartWorker(0, append(append(spans.env(), p.env...), "COUNTERSIGN_MODEL_POLL=1h", "COUNTERSIGN_WORKER_POLL=1h")...)
	d.StartContinuer(0, append(spans.env(), "COUNTERSIGN_SWEEP_INTERVAL=1h")...)
	d.Ready()
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "look", tool.tool("unsafe"))))

	traced := client.New(d.API[0].URL, d.Key, client.WithHTTPClient(&http.Client{Transport: tracing{}}))
	turn, err := traced.RegisterTurn(t.Context(), "t", client.TurnRequest{MessageID: "m", Sink: &client.Sink{Type: "model"},
		Parts: []client.Part{client.ToolPart("nobody_has_this", "c1", json.RawMessage(`{"path":"hush"}`))}})
	must(t, err)
	var way []span
	testcluster.Eventually(t, "every span is there", func(context.Context) error {
		way = spans.of(backendTrace)
		if got := tree(way, backendSpan); got != wayOfAnAnswer {
			return fmt.Errorf("the trace is (-want +got)\n%s", gocmp.Diff(wayOfAnAnswer, got))
		}
		return nil
	})
	d.status("t", "awaiting-approval")
	answer, chat := find(t, way, "answer"), find(t, way, "chat scripted-1")
	if got := answer.about["countersign.continues"]; !strings.Contains(got, turn.Turn.ID) {
		t.Errorf("the answer continues %s", got)
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "scripted-1", "gen_ai.response.model": "scripted",
		"gen_ai.conversation.id": "t", "gen_ai.response.finish_reasons": "tool", "server.address": "127.0.0.1",
	} {
		if !strings.Contains(chat.about[key], want) {
			t.Errorf("%s is %q, want %s", key, chat.about[key], want)
		}
	}
	if chat.about["countersign.turn"] != answer.about["countersign.turn"] || chat.kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("chat is %s of %s, within the answer of %s", chat.kind, chat.about["countersign.turn"], answer.about["countersign.turn"])
	}
	requireIDsOnly(t, way)
}
