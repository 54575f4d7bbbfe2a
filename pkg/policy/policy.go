// Package policy answers allow, ask or deny for a call. It is pure: step 1 of
// the nine, without an effect. Every rule is asked, and the verdicts are
// merged by rank, deny over ask over allow; where no rule speaks, a tool that
// only reads is allowed and everything else asks. An answer that cannot be
// had is therefore never "allow".
//
// It imports pkg/model.
package policy

import (
	"slices"

	"github.com/countersign/countersign/pkg/model"
)

// Subject is what is judged: a tool, and where it comes from an MCP server,
// that server's settings.
type Subject struct {
	Tool   model.ToolDefinition
	Server *model.MCPServer
	// Known is false for a tool that nobody defined.
	Known bool
}

// Evaluate merges what the policies and the server's settings say about a
// call of the tool.
func Evaluate(s Subject, policies []model.Policy) model.Verdict {
	var said [3][]model.Policy // by rank: allow, ask, deny
	for _, p := range policies {
		if slices.ContainsFunc(p.Tools, func(pattern string) bool { return model.MatchTool(pattern, s.Tool.Name) }) {
			said[rank(p.Action)] = append(said[rank(p.Action)], p)
		}
	}
	if s.optedOut() {
		said[1] = append(said[1], model.Policy{Name: "disabledAutoApproveTools", Action: model.ActionAsk})
	}
	for _, group := range [][]model.Policy{said[2], said[1], said[0]} {
		if len(group) > 0 {
			return merge(group)
		}
	}
	return s.byDefault()
}

// Denied tells whether a policy forbids the tool, and why: the question that
// is asked again right before a run.
func Denied(s Subject, policies []model.Policy) (reason string, denied bool) {
	v := Evaluate(s, policies)
	return v.Reason, v.Action == model.ActionDeny
}

func rank(a model.Action) int {
	switch a {
	case model.ActionAllow:
		return 0
	case model.ActionDeny:
		return 2
	}
	return 1 // ask, and whatever a newer version may have written
}

var actions = [...]model.Action{model.ActionAllow, model.ActionAsk, model.ActionDeny}

// merge joins rules of one rank: the largest quorum, four eyes if any says
// so, and of the approvers only those whom every rule that names some names.
func merge(group []model.Policy) model.Verdict {
	v := model.Verdict{Action: actions[rank(group[0].Action)], Rule: model.Requirement{Quorum: 1}}
	for _, p := range group {
		v.Policies = append(v.Policies, p.Name)
		v.Rule.Quorum = max(v.Rule.Quorum, p.Quorum)
		v.Rule.FourEyes = v.Rule.FourEyes || p.FourEyes
		if p.Approvers != nil {
			v.Rule.Restrict(*p.Approvers)
		}
		if v.Reason == "" {
			v.Reason = p.Reason
		}
	}
	if v.Action == model.ActionDeny && v.Reason == "" {
		v.Reason = "Policy " + v.Policies[0] + " denies this tool."
	}
	return v
}

// optedOut tells whether the server's list asks about the tool whatever
// autoApprove says: by the server's own name for it, by <server>__<tool>, or
// by <server>__*.
func (s Subject) optedOut() bool {
	if s.Server == nil {
		return false
	}
	return slices.ContainsFunc(s.Server.DisabledAutoApproveTool, func(entry string) bool {
		return s.Tool.MCP != nil && entry == s.Tool.MCP.Tool || model.MatchTool(entry, s.Tool.Name)
	})
}

// byDefault is the answer where no rule speaks.
func (s Subject) byDefault() model.Verdict {
	ask := model.Verdict{Action: model.ActionAsk, Policies: []string{"default"}, Rule: model.Requirement{Quorum: 1}}
	allow := model.Verdict{Action: model.ActionAllow, Policies: []string{"default"}}
	if !s.Known {
		return ask
	}
	reads := s.Tool.Effect == model.EffectRead
	if s.Server == nil {
		if reads {
			return allow
		}
		return ask
	}
	switch s.Server.AutoApprove {
	case model.AutoApproveAll:
		allow.Policies = []string{"autoApprove"}
		return allow
	case model.AutoApproveRead:
		if reads {
			allow.Policies = []string{"autoApprove"}
			return allow
		}
	}
	return ask
}
