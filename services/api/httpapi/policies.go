package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/countersign/countersign/pkg/model"
)

// policyRequest says for some tools whether they run, ask or are denied.
type policyRequest struct {
	Tools     []string  `json:"tools" doc:"Exact names, or <server>__*."`
	Action    string    `json:"action" enum:"allow,ask,deny"`
	Approvers *[]string `json:"approvers,omitzero" doc:"Who may answer, such as user:bob. Absent: anybody who may approve. Empty: nobody."`
	Quorum    int       `json:"quorum,omitzero" doc:"How many people must approve; 1 by default."`
	FourEyes  bool      `json:"fourEyes,omitzero" doc:"On whose behalf the turn acts may not answer."`
	Reason    string    `json:"reason,omitzero" doc:"What the model is told when it is denied."`
}

const (
	maxPatterns = 1000
	maxQuorum   = 100
	maxReason   = 4000 // bytes
)

func (in policyRequest) read(name string) (model.Policy, error) {
	c := &checks{}
	c.id("", name)
	if n := len(in.Tools); n == 0 || n > maxPatterns {
		c.add("/tools", fmt.Sprintf("must have 1 to %d items", maxPatterns))
	}
	for i, pattern := range in.Tools {
		c.toolPattern(fmt.Sprintf("/tools/%d", i), pattern)
	}
	if in.Action == "" {
		c.add("/action", "is missing")
	}
	action := model.Action(c.word("/action", in.Action, string(model.ActionAsk), string(model.ActionAllow), string(model.ActionDeny)))
	in.checkRule(c, action)
	c.prose("/reason", in.Reason, maxReason)
	return model.Policy{
		Name: name, Tools: in.Tools, Action: action, Approvers: in.Approvers, Quorum: in.Quorum, FourEyes: in.FourEyes, Reason: in.Reason,
	}, c.err()
}

func (in policyRequest) checkRule(c *checks, action model.Action) {
	if in.Quorum < 0 || in.Quorum > maxQuorum {
		c.add("/quorum", fmt.Sprintf("must be between 1 and %d", maxQuorum))
	}
	if action != model.ActionAsk && (in.Approvers != nil || in.Quorum > 1 || in.FourEyes) {
		c.add("/action", "must be ask where the policy says who answers")
	}
	if in.Approvers == nil {
		return
	}
	for i, who := range *in.Approvers {
		c.id(fmt.Sprintf("/approvers/%d", i), who)
		if !strings.HasPrefix(who, personPrefix) && !strings.HasPrefix(who, "key:") {
			c.add(fmt.Sprintf("/approvers/%d", i), "must name a person (user:…) or a key (key:…)")
		}
	}
	if n := len(*in.Approvers); n > 0 && in.Quorum > n {
		c.add("/quorum", "must not be more than there are approvers")
	}
}

func (a *API) putPolicy(r *request, in policyRequest) (answer, error) {
	p, err := in.read(r.PathValue("name"))
	if err != nil {
		return answer{}, err
	}
	isNew, err := a.Store.PutPolicy(r.Context(), r.tenant(), p, r.actor(), r.via)
	return created(isNew, p), err
}

func (a *API) getPolicy(r *request) (answer, error) {
	policies, err := a.Store.Policies(r.Context(), r.tenant())
	if err != nil {
		return answer{}, err
	}
	for _, p := range policies {
		if p.Name == r.PathValue("name") {
			return ok(p), nil
		}
	}
	return answer{}, model.ErrNotFound
}

func (a *API) listPolicies(r *request) (answer, error) {
	policies, err := a.Store.Policies(r.Context(), r.tenant())
	if err != nil {
		return answer{}, err
	}
	return r.wholePage(func(limit int, after string) any {
		return page(behind(policies, after, func(p model.Policy) string { return p.Name }), limit,
			func(p model.Policy) model.Policy { return p }, func(p model.Policy) string { return cursorOf(p.Name) })
	})
}

func (a *API) deletePolicy(r *request) (answer, error) {
	return answer{status: http.StatusNoContent}, a.Store.DeletePolicy(r.Context(), r.tenant(), r.PathValue("name"), r.actor(), r.via)
}
