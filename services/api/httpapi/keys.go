package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

// keyRequest makes an API key, or changes what one may do.
type keyRequest struct {
	Roles         []string              `json:"roles" doc:"backend, approver, admin, viewer."`
	ActsForPeople bool                  `json:"actsForPeople,omitzero" doc:"May name the person it acts for in Countersign-Actor."`
	TokensDecide  bool                  `json:"tokensDecide,omitzero" doc:"The tokens that it mints for people may decide, too."`
	Sink          *approval.SinkRequest `json:"sink,omitzero" doc:"Where turns go that name no sink."`
}

var knownRoles = []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer}

func (in keyRequest) read(name string) (store.KeyRow, error) {
	c := &checks{}
	c.id("", name)
	k := store.KeyRow{Name: name, ActsFor: in.ActsForPeople, TokensDecide: in.TokensDecide}
	if len(in.Roles) == 0 {
		c.add("/roles", "must have at least one role")
	}
	for i, role := range in.Roles {
		c.word(fmt.Sprintf("/roles/%d", i), role, "backend", "approver", "admin", "viewer")
		if role == "" {
			c.add(fmt.Sprintf("/roles/%d", i), "must not be empty")
		}
	}
	for _, role := range knownRoles { // in one order, each once
		for _, given := range in.Roles {
			if model.Role(given) == role {
				k.Roles = append(k.Roles, role)
				break
			}
		}
	}
	if in.TokensDecide && !slices.Contains(k.Roles, model.RoleBackend) {
		c.add("/tokensDecide", "belongs to a key with the role backend, which mints tokens")
	}
	if in.Sink != nil {
		sink, err := approval.ReadSink("/sink", in.Sink)
		if err != nil {
			c.faults = append(c.faults, err.Faults...)
		}
		k.Sink = &sink
	}
	return k, c.err()
}

// putKey makes a key, whose answer alone shows it, or changes what a key may
// do.
func (a *API) putKey(r *request, in keyRequest) (answer, error) {
	k, err := in.read(r.PathValue("name"))
	if err != nil {
		return answer{}, err
	}
	err = a.Store.ChangeKey(r.Context(), r.tenant(), k, r.actor(), r.via)
	defer a.forgetKeys()
	if err == nil {
		return ok(view.NewKey(k)), nil
	}
	if !errors.Is(err, model.ErrNotFound) {
		return answer{}, err
	}
	secret := store.NewKey()
	if _, err := a.Store.PutKey(r.Context(), r.tenant(), k, secret, r.actor(), r.via); err != nil {
		return answer{}, err
	}
	body := view.NewKey(k)
	body.Key = secret
	return created(true, body), nil
}

func (a *API) getKey(r *request) (answer, error) {
	keys, err := a.Store.Keys(r.Context(), r.tenant())
	if err != nil {
		return answer{}, err
	}
	for _, k := range keys {
		if k.Name == r.PathValue("name") {
			return ok(view.NewKey(k)), nil
		}
	}
	return answer{}, model.ErrNotFound
}

func (a *API) listKeys(r *request) (answer, error) {
	keys, err := a.Store.Keys(r.Context(), r.tenant())
	if err != nil {
		return answer{}, err
	}
	return r.wholePage(func(limit int, after string) any {
		return page(behind(keys, after, func(k store.KeyRow) string { return k.Name }), limit, view.NewKey,
			func(k store.KeyRow) string { return cursorOf(k.Name) })
	})
}

// deleteKey revokes a key, and with it the tokens that it minted: here at
// once, on other nodes within [keyAge].
func (a *API) deleteKey(r *request) (answer, error) {
	defer a.forgetKeys()
	return answer{status: http.StatusNoContent}, a.Store.DeleteKey(r.Context(), r.tenant(), r.PathValue("name"), r.actor(), r.via)
}

// SigningSecret is what webhooks are signed with.
type SigningSecret struct {
	Secret   string `json:"secret" doc:"whsec_…, as Standard Webhooks has it."`
	Previous string `json:"previous,omitzero" doc:"The one before a rotation; signs as well for 24 hours."`
}

func (a *API) signingSecret(r *request) (answer, error) {
	secrets, err := a.Store.SigningSecrets(r.Context(), r.tenant())
	if err != nil {
		return answer{}, err
	}
	if len(secrets) == 0 {
		return answer{}, model.ErrNotFound
	}
	body := SigningSecret{Secret: secrets[0]}
	if len(secrets) > 1 {
		body.Previous = secrets[1]
	}
	return ok(body), nil
}

// rotateRequest has nothing to say.
type rotateRequest struct{}

func (a *API) rotateSecret(r *request, _ rotateRequest) (answer, error) {
	if err := a.Store.RotateSigningSecret(r.Context(), r.tenant(), r.actor(), r.via); err != nil {
		return answer{}, err
	}
	return a.signingSecret(r)
}
