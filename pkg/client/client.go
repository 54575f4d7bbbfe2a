package client

import (
	"net/http"
	"strings"
)

// Client talks to one Countersign, on behalf of one API key. It is safe for
// concurrent use.
type Client struct {
	base    string // without a slash at its end
	key     string
	actor   string
	channel string
	tries   int
	http    *http.Client
}

// Option changes how a new Client behaves.
type Option func(*Client)

// DefaultTries is how often a request that may be repeated is sent.
const DefaultTries = 5

// New makes a client for the server at baseURL ("http://127.0.0.1:8787"). It
// does no I/O; a base URL that cannot be used fails at the first request.
func New(baseURL, apiKey string, options ...Option) *Client {
	c := &Client{base: strings.TrimRight(baseURL, "/"), key: apiKey, tries: DefaultTries, http: &http.Client{}}
	for _, option := range options {
		option(c)
	}
	return c
}

// WithHTTPClient sends through h. It should have no Timeout: reads that wait
// and event streams last as long as their context.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithActor names the person ("user:bob") that a key which may act for people
// acts for.
func WithActor(subject string) Option { return func(c *Client) { c.actor = subject } }

// WithChannel names the way by which people reach the server through this
// program ("cli"), for the audit; without it, it is the api.
func WithChannel(name string) Option { return func(c *Client) { c.channel = name } }

// WithTries sends a request that may be repeated at most n times.
func WithTries(n int) Option { return func(c *Client) { c.tries = max(n, 1) } }
