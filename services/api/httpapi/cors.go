package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Origins are the web pages of others that may use what is open to tokens:
// "https://chat.example". None may by default.
type Origins []string

// ParseOrigins reads origins as browsers send them: a scheme and a host, with
// a port that is not the scheme's own.
func ParseOrigins(given []string) (Origins, error) {
	for _, origin := range given {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(u.Host, "*") {
			return nil, fmt.Errorf("%q is no origin; write it as https://chat.example, with a port where it has one, and one by one", origin)
		}
	}
	return given, nil
}

// What a page of another origin may send, and read of an answer. A cookie is
// not among it (Access-Control-Allow-Credentials): such a page brings a token.
var (
	sentHeaders = "Authorization, Content-Type, Last-Event-ID, Idempotency-Key, Countersign-AI-SDK, Countersign-Channel, traceparent, tracestate"
	readHeaders = "Retry-After"
)

// preflightAge is how many seconds a browser may remember that it may ask.
const preflightAge = "600"

// admit lets a page of an allowed origin read the answer. It tells whether
// there is such a page.
func (o Origins) admit(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(o, origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", readHeaders)
	return true
}

// crossOrigin lets pages of other origins use a route that is open to tokens.
// The others need a key, which no page should have.
func (a *API) crossOrigin(rt route, next http.Handler) http.Handler {
	if rt.tokens == closed || len(a.origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.origins.admit(w, r)
		next.ServeHTTP(w, r)
	})
}

// preflights answers browsers that ask whether a page of another origin may
// send what it wants to send.
func (a *API) preflights(mux *http.ServeMux, routes []route) {
	if len(a.origins) == 0 {
		return
	}
	open := map[string][]string{}
	for _, rt := range routes {
		if rt.tokens != closed {
			open[rt.path] = append(open[rt.path], rt.method)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(open)) {
		allowed := strings.Join(open[path], ", ")
		mux.HandleFunc("OPTIONS "+path, func(w http.ResponseWriter, r *http.Request) {
			if a.origins.admit(w, r) {
				w.Header().Set("Access-Control-Allow-Methods", allowed)
				w.Header().Set("Access-Control-Allow-Headers", sentHeaders)
				w.Header().Set("Access-Control-Max-Age", preflightAge)
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
}
