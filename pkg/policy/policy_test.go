package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/model"
)

func people(names ...string) *[]string { return &names }

// Every rule is asked and the verdicts are merged by rank, whatever their
// order; where none speaks, only what reads runs by itself.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	read := model.ToolDefinition{Name: "files__read", Server: "files", Effect: model.EffectRead, MCP: &model.MCPTarget{Tool: "read"}}
	del := model.ToolDefinition{Name: "files__delete", Server: "files", Effect: model.EffectUnsafe, MCP: &model.MCPTarget{Tool: "delete"}}
	plain := model.ToolDefinition{Name: "send_mail", Effect: model.EffectUnsafe}
	look := model.ToolDefinition{Name: "look", Effect: model.EffectRead}
	server := func(auto model.AutoApprove, disabled ...string) *model.MCPServer {
		return &model.MCPServer{Name: "files", AutoApprove: auto, DisabledAutoApproveTool: disabled}
	}
	deny := model.Policy{Name: "no", Tools: []string{"files__*"}, Action: model.ActionDeny}
	ask := model.Policy{Name: "ask", Tools: []string{"files__delete"}, Action: model.ActionAsk, Quorum: 2}
	allow := model.Policy{Name: "yes", Tools: []string{"files__delete", "send_mail"}, Action: model.ActionAllow}

	for name, c := range map[string]struct {
		subject  Subject
		policies []model.Policy
		want     model.Action
		by       []string
	}{
		"a plain tool asks":                      {Subject{plain, nil, true}, nil, model.ActionAsk, []string{"default"}},
		"a plain tool that reads runs":           {Subject{look, nil, true}, nil, model.ActionAllow, []string{"default"}},
		"a tool nobody defined asks":             {Subject{look, nil, false}, nil, model.ActionAsk, []string{"default"}},
		"autoApprove read lets reads run":        {Subject{read, server(model.AutoApproveRead), true}, nil, model.ActionAllow, []string{"autoApprove"}},
		"autoApprove read asks about the rest":   {Subject{del, server(model.AutoApproveRead), true}, nil, model.ActionAsk, []string{"default"}},
		"autoApprove none asks about reads":      {Subject{read, server(model.AutoApproveNone), true}, nil, model.ActionAsk, []string{"default"}},
		"autoApprove all lets all run":           {Subject{del, server(model.AutoApproveAll), true}, nil, model.ActionAllow, []string{"autoApprove"}},
		"opted out by the server's name":         {Subject{del, server(model.AutoApproveAll, "delete"), true}, nil, model.ActionAsk, []string{"disabledAutoApproveTools"}},
		"opted out by the full name":             {Subject{del, server(model.AutoApproveAll, "files__delete"), true}, nil, model.ActionAsk, []string{"disabledAutoApproveTools"}},
		"opted out by the wildcard":              {Subject{read, server(model.AutoApproveAll, "files__*"), true}, nil, model.ActionAsk, []string{"disabledAutoApproveTools"}},
		"another server's wildcard says nothing": {Subject{read, server(model.AutoApproveAll, "file__*"), true}, nil, model.ActionAllow, []string{"autoApprove"}},
		"opting out beats an allowing policy":    {Subject{del, server(model.AutoApproveAll, "delete"), true}, []model.Policy{allow}, model.ActionAsk, []string{"disabledAutoApproveTools"}},
		"a policy allows":                        {Subject{plain, nil, true}, []model.Policy{allow}, model.ActionAllow, []string{"yes"}},
		"ask over allow":                         {Subject{del, server(model.AutoApproveNone), true}, []model.Policy{allow, ask}, model.ActionAsk, []string{"ask"}},
		"deny over all, last":                    {Subject{del, server(model.AutoApproveNone), true}, []model.Policy{allow, ask, deny}, model.ActionDeny, []string{"no"}},
		"deny over all, first":                   {Subject{del, server(model.AutoApproveNone), true}, []model.Policy{deny, ask, allow}, model.ActionDeny, []string{"no"}},
		"an action nobody knows asks":            {Subject{look, nil, true}, []model.Policy{{Name: "new", Tools: []string{"look"}, Action: "sometimes"}}, model.ActionAsk, []string{"new"}},
	} {
		v := Evaluate(c.subject, c.policies)
		if v.Action != c.want || !cmp.Equal(v.Policies, c.by) {
			t.Errorf("%s: got %s by %v, want %s by %v", name, v.Action, v.Policies, c.want, c.by)
		}
	}
}

// Rules that ask together are as strict as the strictest.
func TestMergeIsStrict(t *testing.T) {
	t.Parallel()
	s := Subject{model.ToolDefinition{Name: "pay", Effect: model.EffectUnsafe}, nil, true}
	v := Evaluate(s, []model.Policy{
		{Name: "a", Tools: []string{"pay"}, Action: model.ActionAsk, Approvers: people("user:ann", "user:bob")},
		{Name: "b", Tools: []string{"pay"}, Action: model.ActionAsk, Approvers: people("user:bob", "user:cid"), Quorum: 2, FourEyes: true},
		{Name: "c", Tools: []string{"pay"}, Action: model.ActionAsk},
	})
	want := model.Requirement{Restricted: true, Approvers: []string{"user:bob"}, Quorum: 2, FourEyes: true}
	if diff := cmp.Diff(want, v.Rule); diff != "" {
		t.Error(diff)
	}
	nobody := Evaluate(s, []model.Policy{{Name: "d", Tools: []string{"pay"}, Action: model.ActionAsk, Approvers: &[]string{}}})
	if nobody.Rule.MayDecide(model.Principal{Subject: "user:bob", Roles: []model.Role{model.RoleApprover}}, "") {
		t.Error("an empty list of approvers is nobody")
	}
}
