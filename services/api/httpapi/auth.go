package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/token"
)

// authenticate finds out who asks, whether they ask too often, and for whom
// they speak.
func (r *request) authenticate() error {
	by, err := r.api.Authenticate(r.Request)
	if err != nil {
		return err
	}
	r.by = by
	r.via = r.Header.Get("Countersign-Channel")
	switch r.via {
	case "":
		r.via = "api"
	case "api", "cli", "page":
	default:
		return approval.NewInvalid("", "the header Countersign-Channel must be api, cli or page")
	}
	return nil
}

// Authenticate finds whom a request's credential names, and counts the
// request. A key that may act for people names one in Countersign-Actor.
// Errors: that there is no such credential, that it asks too often,
// [model.ErrNotPermitted], [model.ErrUnavailable].
func (a *API) Authenticate(r *http.Request) (model.Principal, error) {
	p, err := a.recognize(r)
	if err == nil && !a.mayAskNow(p) {
		err = errRateLimited
	}
	return p, err
}

// recognize finds whom a request's credential names.
func (a *API) recognize(r *http.Request) (model.Principal, error) {
	credential, err := credentialOf(r)
	if err != nil {
		return model.Principal{}, err
	}
	find := a.holder
	if token.Is(credential) {
		find = a.bearer
	}
	p, err := find(r.Context(), credential)
	if err != nil {
		return p, err
	}
	return actFor(p, r.Header.Get("Countersign-Actor"))
}

// maxCredential is more than any key or token of ours has, in bytes.
const maxCredential = len(token.Prefix) + token.MaxLength

// credentialOf takes the credential from the header, or a token from its
// cookie. A browser sends a cookie whoever made the request, so one by which
// something would change counts from our own origin alone.
func credentialOf(r *http.Request) (string, error) {
	credential, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Header.Get("Authorization") == "" {
		if credential, is = tokenCookie(r); is && sameOrigin.Check(r) != nil {
			return "", say(model.ErrNotPermitted, "A page of another origin sends its token as Authorization: Bearer.")
		}
	}
	if !is || credential == "" || len(credential) > maxCredential {
		return "", errUnauthenticated
	}
	return credential, nil
}

var sameOrigin = http.NewCrossOriginProtection()

// TokenCookie is the cookie in which a backend on our own site hands a token
// to a browser; over TLS it has the prefix __Host-, which keeps others from
// setting it. A key is no cookie.
const TokenCookie = "countersign_token"

func tokenCookie(r *http.Request) (string, bool) {
	name := TokenCookie
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		name = "__Host-" + name
	}
	cookie, err := r.Cookie(name)
	if err != nil || !token.Is(cookie.Value) {
		return "", false
	}
	return cookie.Value, true
}

// Principal finds whom a key names, for a request, which is counted. Errors:
// see [API.Authenticate].
func (a *API) Principal(ctx context.Context, key string) (model.Principal, error) {
	p, err := a.holder(ctx, key)
	if err == nil && !a.mayAskNow(p) {
		err = errRateLimited
	}
	return p, err
}

// StillKnown is [API.Principal] without counting: what an open stream asks
// about its key at each of its events is no request.
func (a *API) StillKnown(ctx context.Context, key string) (model.Principal, error) {
	return a.holder(ctx, key)
}

// holder finds whom a key names. It asks the database at most every [keyAge],
// so a revoked key is refused everywhere within that time, and at once on the
// node where it was revoked.
func (a *API) holder(ctx context.Context, key string) (model.Principal, error) {
	return a.keys.find(string(store.HashKey(key)), func() (model.Principal, error) { return a.Store.Authenticate(ctx, key) })
}

// bearer finds for whom a token was minted. The right to decide is its key's,
// now.
func (a *API) bearer(ctx context.Context, text string) (model.Principal, error) {
	var minter store.Minter
	t, err := token.Read(text, func(tenant model.TenantID, key string) (_ []byte, err error) {
		minter, err = a.minters.find(string(tenant)+"\x00"+key, func() (store.Minter, error) {
			if model.CheckID(string(tenant)) != nil || model.CheckID(key) != nil {
				return store.Minter{}, model.ErrNotFound // a text that the database would refuse
			}
			return a.Store.Minter(ctx, tenant, key)
		})
		return minter.Secret, err
	})
	if errors.Is(err, token.ErrInvalid) {
		err = errUnauthenticated
	}
	if err != nil {
		return model.Principal{}, err
	}
	p := model.Principal{Tenant: t.Tenant, Key: t.Key, Subject: t.Subject, OnBehalf: true, Token: true, Topics: t.Topics, Sink: minter.Sink}
	if minter.Decide {
		p.Roles = []model.Role{model.RoleApprover}
	}
	return p, nil
}

// personPrefix begins the name of every person; others ("key:", "policy:")
// are names that nobody may take.
const personPrefix = "user:"

// isPerson tells whether a text can name a person.
func isPerson(name string) bool {
	return strings.HasPrefix(name, personPrefix) && len(name) > len(personPrefix) && model.CheckID(name) == nil
}

func actFor(p model.Principal, person string) (model.Principal, error) {
	if person == "" {
		return p, nil
	}
	if p.Token {
		return p, say(model.ErrNotPermitted, "A token names its person already; leave Countersign-Actor out.")
	}
	if !p.ActsFor {
		return p, say(model.ErrNotPermitted, "This key may not act for people; leave Countersign-Actor out.")
	}
	if !isPerson(person) {
		return p, approval.NewInvalid("", "the header Countersign-Actor must name a person, such as user:bob")
	}
	p.Subject, p.OnBehalf = person, true
	return p, nil
}

// forgetKeys makes the next request ask the database again, whatever its
// credential is.
func (a *API) forgetKeys() {
	a.keys.forget()
	a.minters.forget()
}
