package services

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// docs/metrics.md lists what each service counts at each of the nine steps:
// all of it is there after calls went the whole way, and nothing else.
func TestEveryStepIsMeasuredAsDocumented(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	d.goTheWholeWay()
	named := map[string]bool{}
	for _, row := range documented(t) {
		named[row.metric] = true
		if row.step == "" {
			continue
		}
		s := map[string]*testcluster.Service{"api": d.API[0], "worker": d.Workers[0], "continuer": d.Continuers[0]}[row.service]
		testcluster.Eventually(t, fmt.Sprintf("%s has %s %v", row.service, row.metric, row.labels), func(context.Context) error {
			return row.in(metrics(t, s))
		})
	}
	for _, s := range []*testcluster.Service{d.API[0], d.Workers[0], d.Continuers[0]} {
		for line := range strings.Lines(metrics(t, s)) {
			name, isType := strings.CutPrefix(line, "# TYPE countersign_")
			if name, _, _ = strings.Cut(name, " "); isType && !named["countersign_"+name] {
				t.Errorf("%s counts countersign_%s, which docs/metrics.md does not name", s.Name, name)
			}
		}
	}
}

// metricRow is a line of the tables in docs/metrics.md; step is "" in the
// second.
type metricRow struct {
	step, service, metric string
	labels                []string
}

func documented(t *testing.T) (rows []metricRow) {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), "`", "")
		}
		switch {
		case len(cells) == 7 && strings.HasPrefix(cells[3], "countersign_"):
			rows = append(rows, metricRow{cells[1], cells[2], cells[3], strings.Fields(cells[4])})
		case len(cells) == 6 && strings.HasPrefix(cells[2], "countersign_"):
			rows = append(rows, metricRow{"", cells[1], cells[2], nil})
		}
	}
	if len(rows) < 30 {
		t.Fatalf("only %d metrics are documented", len(rows))
	}
	return rows
}

// in looks for a sample with the row's labels that has counted something.
func (r metricRow) in(page string) error {
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		sample, value, _ := strings.Cut(lines.Text(), "} ")
		name, labels, _ := strings.Cut(sample, "{")
		if name != r.metric && name != r.metric+"_count" || value == "0" {
			continue
		}
		missing := false
		for _, l := range r.labels {
			missing = missing || !strings.Contains(","+labels+",", ","+l+",")
		}
		if !missing {
			return nil
		}
	}
	return fmt.Errorf("no such sample in:\n%s", page)
}

// metrics is a service's page, without what is not ours.
func metrics(t *testing.T, s *testcluster.Service) string {
	t.Helper()
	response, err := http.Get(s.URL + "/metrics")
	must(t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	must(t, err)
	var ours strings.Builder
	for line := range strings.Lines(string(page)) {
		if strings.Contains(line, "countersign_") && !strings.Contains(line, "_bucket") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}

// goTheWholeWay takes a call of a worker and one of a caller from their
// registration to the turn that goes on, once by webhook and once by
// JetStream.
func (d *deployment) goTheWholeWay() {
	d.T.Helper()
	tool := newToolServer(d.T, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `1`) })
	must(d.T, second(d.Node(0).PutTool(d.T.Context(), "delete_file", tool.tool("unsafe"))))
	secret, err := d.Node(0).SigningSecret(d.T.Context())
	must(d.T, err)
	chat := newBackend(d.T, secret.Secret)
	d.goOneWay("by-webhook", client.Sink{Type: "webhook", URL: chat.URL})
	d.goOneWay("by-jetstream", client.Sink{Type: "jetstream", Name: "chat"})
}

func (d *deployment) goOneWay(topic string, sink client.Sink) {
	t, ctx, node := d.T, d.T.Context(), d.Node(0)
	t.Helper()
	out, err := node.RegisterTurn(ctx, topic, client.TurnRequest{MessageID: "m", Sink: &sink, Executor: "caller", Parts: []client.Part{
		client.ToolPart("delete_file", "theirs", json.RawMessage(`{"path":"x"}`)), client.ToolPart("own", "ours", json.RawMessage(`{}`))}})
	must(t, err)
	for _, c := range out.Turn.Calls {
		must(t, second(d.As(0, "user:bob").Decide(ctx, c.ApprovalID, client.Decision{Approved: true})))
	}
	own := out.Turn.Calls[1].ID
	testcluster.Eventually(t, "the caller is told of its call", func(ctx context.Context) error { return d.hinted(ctx, own) })
	claim, err := node.ClaimCall(ctx, own, client.ClaimRequest{})
	must(t, err)
	must(t, second(node.ResultCall(ctx, own, client.Result{Fence: claim.Fence, Token: claim.Token, Output: json.RawMessage(`2`)})))
	testcluster.Eventually(t, "the continuation is handed over", func(ctx context.Context) error {
		page, err := node.Continuations(ctx, client.ContinuationFilter{Topic: topic})
		if err == nil && (len(page.Items) != 1 || page.Items[0].State != "dispatched") {
			err = fmt.Errorf("continuations: %+v", page.Items)
		}
		return err
	})
	must(t, second(node.RegisterTurn(ctx, topic, client.TurnRequest{Continues: out.Turn.ID, Parts: []client.Part{client.TextPart("Done.")}})))
}
