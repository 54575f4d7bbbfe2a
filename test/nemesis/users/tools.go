package users

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/pkg/client"
)

// A tool of the run. Its name says its effect and who runs it.
type toolKind struct {
	name, effect string
	caller       bool // run by the backend itself
	weight       int
}

// KeyedTool is the tool whose server honours idempotency keys.
const KeyedTool = "keyed_w"

var toolKinds = []toolKind{
	{"read_w", "read", false, 2},
	{"idem_w", "idempotent", false, 4},
	{KeyedTool, "keyed", false, 4},
	{"unsafe_w", "unsafe", false, 5},
	{"two_w", "unsafe", false, 3},  // asks two people
	{"auto_w", "unsafe", false, 2}, // allowed by policy
	{"never_w", "unsafe", false, 1},
	{"idem_c", "idempotent", true, 4},
	{"unsafe_c", "unsafe", true, 2},
}

var schema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"},"v":{"type":"integer"}},` +
	`"required":["n","v"],"additionalProperties":false}`)

// configure defines a tenant's tools and policies.
func (w *World) configure(ctx context.Context, t tenant) error {
	return cluster.Poll(ctx, func(ctx context.Context) error {
		c := w.client(t, 0, "")
		for _, kind := range toolKinds {
			tool := client.Tool{Description: "Counts.", InputSchema: schema, Effect: kind.effect, Timeout: "2s", MaxAttempts: 4}
			if kind.caller {
				tool.Executor = "caller"
			} else {
				tool.HTTP = &client.HTTPTool{Method: "POST", URL: w.toolURL(kind.name)}
			}
			if _, err := c.PutTool(ctx, kind.name, tool); err != nil {
				return err
			}
		}
		for _, p := range []client.Policy{
			{Name: "two", Tools: []string{"two_w"}, Action: "ask", Quorum: 2},
			{Name: "auto", Tools: []string{"auto_w"}, Action: "allow"},
			{Name: "never", Tools: []string{"never_w"}, Action: "deny"},
		} {
			if _, err := c.PutPolicy(ctx, p.Name, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// toolURL is where a tool is; the keyed one honours its keys.
func (w *World) toolURL(name string) string {
	url := w.site.ToolURL + "/" + name
	if name == KeyedTool {
		url += "?key=honour"
	}
	return url
}

func drawTool(r *rand.Rand) toolKind {
	total := 0
	for _, kind := range toolKinds {
		total += kind.weight
	}
	at := r.IntN(total)
	for _, kind := range toolKinds {
		if at -= kind.weight; at < 0 {
			return kind
		}
	}
	panic("unreachable")
}

// input is what a call is asked to do: n is unique in the run, v is what
// people edit.
func input(n string, v int) string { return fmt.Sprintf(`{"n":%q,"v":%d}`, n, v) }

// parts are a turn's: some text, and some calls.
func parts(r *rand.Rand, id string, calls int) []client.Part {
	out := []client.Part{json.RawMessage(fmt.Sprintf(`{"type":"text","text":"This is %s."}`, id))}
	for i := range calls {
		call := fmt.Sprintf("%s-c%d", id, i)
		out = append(out, json.RawMessage(fmt.Sprintf(`{"type":"tool-%s","toolCallId":%q,"state":"input-available","input":%s}`,
			drawTool(r).name, call, input(call, 0))))
	}
	return out
}
