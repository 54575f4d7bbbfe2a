package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	did "github.com/countersign/countersign/test/nemesis/ledger"
)

// shop is a deployment with a tool that knows what it did: each call says how
// the tool is to behave, and the tool's ledger says what it did of it.
type shop struct {
	*testcluster.Deployment
	url, path string
}

// opens gives a deployment its tool; an api node must be ready.
func opens(d *testcluster.Deployment) *shop {
	d.T.Helper()
	path := filepath.Join(d.T.TempDir(), "ledger")
	file, err := did.Open(path)
	must(d.T, err)
	server := did.NewServer(file)
	listening := httptest.NewServer(server.Handler())
	d.T.Cleanup(func() {
		server.Release()
		listening.Close()
		must(d.T, file.Close())
	})
	return &shop{d, listening.URL, path}
}

// sells defines a tool of an effect that policy allows, so that its calls run
// at once. A keyed one honours its keys, all others ignore them.
func (s *shop) sells(name, effect string, change ...func(*client.Tool)) {
	s.T.Helper()
	tool := client.Tool{Effect: effect, Timeout: "30s", HTTP: &client.HTTPTool{URL: s.url + "/" + name}}
	if effect == "keyed" {
		tool.HTTP.URL += "?key=honour"
	}
	for _, c := range change {
		c(&tool)
	}
	_, err := s.Node(0).PutTool(s.T.Context(), name, tool)
	must(s.T, err)
	_, err = s.Node(0).PutPolicy(s.T.Context(), "allow-"+name, client.Policy{Tools: []string{name}, Action: "allow"})
	must(s.T, err)
}

// order registers a turn of a topic of its own with one call.
func (s *shop) order(topic, tool, input string) client.TurnCall {
	s.T.Helper()
	out, err := s.Node(0).RegisterTurn(s.T.Context(), topic, client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart(tool, "c", json.RawMessage(input))}})
	must(s.T, err)
	return out.Turn.Calls[0]
}

// behaving is the input that asks the tool to behave in ways, the first
// request in the first, and so on.
func behaving(ways string) string { return fmt.Sprintf(`{"behave":%q}`, ways) }

// runIs waits until the run of a call is in a state.
func (s *shop) runIs(call, run string) (found client.Call) {
	s.T.Helper()
	testcluster.Eventually(s.T, "the run is "+run, func(ctx context.Context) error {
		var err error
		if found, err = s.Node(0).Call(ctx, call); err == nil && found.Run != run {
			err = fmt.Errorf("it is %s: %s", found.Run, found.Raw)
		}
		return err
	})
	return found
}

// begun are a call's attempts without those whose claim was committed so late
// that they never began: a busy machine makes some, and they are none of the
// fault's.
func begun(c client.Call) []client.Attempt {
	return slices.DeleteFunc(slices.Clone(c.Attempts), func(a client.Attempt) bool {
		return a.Outcome == "nothing-sent" && a.Detail == "the claim took too long"
	})
}

// rowIs is [shop.runIs] by the row itself, for when no api node is asked.
func (s *shop) rowIs(call, run string) {
	s.T.Helper()
	testcluster.Eventually(s.T, "the run is "+run, func(ctx context.Context) error {
		got, err := testcluster.One[string](ctx, s.Deployment, `select coalesce(run, '') from calls where call_id = $1`, call)
		if err == nil && got != run {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

// effects are what the tool did for a call.
func (s *shop) effects(call string) (of []did.Effect) {
	s.T.Helper()
	all, err := did.Read(s.path)
	must(s.T, err)
	for _, e := range all {
		if e.Call == call {
			of = append(of, e)
		}
	}
	return of
}

// requests are what came to the tool of a call.
func (s *shop) requests(call string) (of []did.Request) {
	s.T.Helper()
	all, err := did.Requests(s.path)
	must(s.T, err)
	for _, r := range all {
		if r.Call == call {
			of = append(of, r)
		}
	}
	return of
}

// took waits until the tool did n effects of a call, and no more.
func (s *shop) took(call string, n int) {
	s.T.Helper()
	testcluster.Eventually(s.T, fmt.Sprintf("effect %d", n), func(context.Context) error {
		if got := len(s.effects(call)); got != n {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}
