package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/countersign/countersign/pkg/model"
)

// cookieName is the session's name; over TLS it has the prefix that keeps
// other hosts and plain HTTP from setting it.
const (
	cookieName = "countersign"
	hostPrefix = "__Host-"
	// lifetime of a session in seconds: a working day.
	lifetime = 12 * 60 * 60
)

// session is what the cookie holds: the key, and the person that it acts for.
type session struct{ key, person string }

func (s session) encode() string { return url.Values{"k": {s.key}, "p": {s.person}}.Encode() }

func secure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func readSession(r *http.Request) (session, bool) {
	name := cookieName
	if secure(r) {
		name = hostPrefix + cookieName
	}
	cookie, err := r.Cookie(name)
	if err != nil {
		return session{}, false
	}
	values, err := url.ParseQuery(cookie.Value)
	if err != nil || values.Get("k") == "" {
		return session{}, false
	}
	return session{values.Get("k"), values.Get("p")}, true
}

// setSession signs in, or with an empty session out.
func setSession(w http.ResponseWriter, r *http.Request, s session) {
	cookie := &http.Cookie{
		Name: cookieName, Value: s.encode(), Path: "/", MaxAge: lifetime, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if secure(r) {
		cookie.Name, cookie.Secure = hostPrefix+cookieName, true
	}
	if s.key == "" {
		cookie.Value, cookie.MaxAge = "", -1
	}
	http.SetCookie(w, cookie)
}

var errSignIn = errors.New("this key is not known; it may have been deleted or mistyped")

// principal finds whom a session names.
func (c *Console) principal(ctx context.Context, s session) (model.Principal, error) {
	return s.principal(c.Authenticate(ctx, s.key))
}

// principal is who the session is, by what is known of its key.
func (s session) principal(p model.Principal, err error) (model.Principal, error) {
	switch {
	case errors.Is(err, model.ErrNotFound):
		return p, errSignIn
	case err != nil || s.person == "":
		return p, err
	case !p.ActsFor:
		return p, errors.New("this key does not act for people; leave the name empty")
	case model.CheckID(s.person) != nil:
		return p, errors.New("the name must be plain text of at most 200 bytes")
	}
	p.Subject, p.OnBehalf = "user:"+s.person, true
	return p, nil
}

type handler func(w http.ResponseWriter, r *http.Request, p model.Principal)

// signedIn shows the login to whoever is not signed in.
func (c *Console) signedIn(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := readSession(r)
		if !ok {
			c.render(w, http.StatusUnauthorized, "login", page{Title: "Sign in"})
			return
		}
		p, err := c.principal(r.Context(), s)
		switch {
		case errors.Is(err, model.ErrUnavailable):
			c.fail(w, err)
		case err != nil:
			if errors.Is(err, errSignIn) {
				setSession(w, r, session{})
			}
			c.render(w, http.StatusUnauthorized, "login", page{Title: "Sign in", Notice: refusal(err.Error())})
		default:
			next(w, r, p)
		}
	}
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	s := session{strings.TrimSpace(r.PostFormValue("key")), strings.TrimPrefix(strings.TrimSpace(r.PostFormValue("person")), "user:")}
	_, err := c.principal(r.Context(), s)
	switch {
	case errors.Is(err, model.ErrUnavailable):
		c.fail(w, err)
	case err != nil:
		c.render(w, http.StatusUnauthorized, "login", page{Title: "Sign in", Notice: refusal(err.Error())})
	default:
		setSession(w, r, s)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	setSession(w, r, session{})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// authorize tells a stream whether its session still stands.
func (c *Console) authorize(s session) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.principal(c.StillKnown(ctx, s.key))
		return err
	}
}
