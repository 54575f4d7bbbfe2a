package approval

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/toolschema"
)

var (
	errURLTooLong = fmt.Errorf("must not be longer than %d bytes", maxURL)
	errNoTarget   = errors.New("must be an http or https URL with a host and without credentials")
)

// judge gives every call of a turn its verdict (step 1, evaluate).
type judge struct {
	tenant   model.TenantID
	catalog  store.Catalog
	schemas  *toolschema.Cache
	executor model.Executor // for tools that name none
}

// call makes the row of one call. place is where it stands in its turn.
func (j judge) call(t *toolCall, place int) store.NewCall {
	tool, known := j.catalog.Tools[t.tool]
	c := model.Call{
		ID: model.NewCallID(), Part: place, ToolCallID: t.id, Tool: j.tool(t.tool, tool, known), State: model.CallInputAvailable,
	}
	c.Digest = model.Digest(j.tenant, c.ID, c.Tool.Name, c.Tool.Definition, t.input)
	if t.refused != "" {
		refuse(&c, t.refused)
	} else if !known && c.Tool.Executor == model.ExecutorWorker {
		refuse(&c, "No tool of this name is known. It did not run.")
	} else if violations, unchecked := j.check(tool, t.input); len(violations) > 0 {
		refuse(&c, "The input does not fit the tool's schema: "+describe(violations)+". The tool did not run.")
	} else {
		apply(&c, j.verdict(t.tool, tool, known, unchecked))
	}
	return store.NewCall{Call: c, Input: t.input, Dynamic: t.dynamic, Extra: t.extra}
}

// tool is what a call keeps of its tool. One that nobody defined is unsafe.
func (j judge) tool(name string, row store.ToolRow, known bool) model.CallTool {
	if !known {
		return model.CallTool{Name: name, Effect: model.EffectUnsafe, Executor: j.executor, MaxAttempts: model.DefaultMaxAttempts,
			Timeout: model.DefaultToolTimeout}
	}
	d := row.Definition
	executor := d.Executor
	if executor == "" {
		executor = j.executor
	}
	return model.CallTool{
		Name: d.Name, Server: d.Server, Definition: row.Hash, Effect: d.Effect, Executor: executor,
		MaxAttempts: d.MaxAttempts, KeyRetention: time.Duration(d.KeyRetention), Timeout: time.Duration(d.Timeout),
	}
}

// check validates an input. unchecked says that the schema itself cannot be
// used, so that nothing is known about the input.
func (j judge) check(tool store.ToolRow, input strictjson.Raw) (violations []toolschema.Violation, unchecked bool) {
	if len(tool.Definition.InputSchema) == 0 {
		return nil, false
	}
	schema, err := j.schemas.Compile(hex.EncodeToString(tool.Hash), tool.Definition.InputSchema)
	if err != nil {
		return nil, true
	}
	return schema.Validate(input), false
}

// verdict asks the policies. An input that could not be checked is never
// allowed without a person having seen it.
func (j judge) verdict(name string, tool store.ToolRow, known, unchecked bool) model.Verdict {
	v := policy.Evaluate(j.subject(name, tool, known), j.catalog.Policies)
	if unchecked && v.Action == model.ActionAllow {
		return model.Verdict{Action: model.ActionAsk, Policies: []string{"unusable schema"}, Rule: model.Requirement{Quorum: 1}}
	}
	return v
}

func (j judge) subject(name string, tool store.ToolRow, known bool) policy.Subject {
	s := policy.Subject{Tool: tool.Definition, Known: known}
	s.Tool.Name = name
	if server, ok := j.catalog.Servers[tool.Definition.Server]; ok {
		s.Server = &server
	}
	return s
}

// refuse settles a call that cannot run: nobody is asked about it.
func refuse(c *model.Call, text string) {
	c.State, c.ErrorText = model.CallOutputError, text
}

// apply puts a verdict on a call.
func apply(c *model.Call, v model.Verdict) {
	switch v.Action {
	case model.ActionAllow:
		c.AllowedBy = strings.Join(v.Policies, ", ")
		return
	case model.ActionDeny:
		c.State = model.CallOutputDenied
		c.Approval = &model.Approval{
			ID: model.NewApprovalID(), State: model.ApprovalDenied, Rule: v.Rule, Policies: v.Policies,
			DecidedBy: "policy:" + v.Policies[0], Reason: v.Reason,
		}
		return
	}
	c.State = model.CallApprovalRequested
	c.Approval = &model.Approval{ID: model.NewApprovalID(), State: model.ApprovalRequested, Rule: v.Rule, Policies: v.Policies}
}

// describe words violations for the model, which has to mend its input.
func describe(violations []toolschema.Violation) string {
	var out []string
	for _, v := range violations {
		where := v.Pointer
		if where == "" {
			where = "the input"
		}
		out = append(out, where+" "+v.Detail)
	}
	return strings.Join(out, "; ")
}
