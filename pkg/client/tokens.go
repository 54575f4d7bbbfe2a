package client

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// TokenRequest mints a token for a person, good for some topics.
type TokenRequest struct {
	Subject   string   `json:"subject"` // "user:bob"
	Topics    []string `json:"topics"`  // 1 to 50; they need not exist yet
	ExpiresIn string   `json:"expiresIn,omitzero"`
}

// Token is a person's credential: a browser sends it as Authorization: Bearer,
// or as the HttpOnly cookie countersign_token, never in a URL. Logs mask it.
type Token struct {
	Token     string    `json:"token"`
	Subject   string    `json:"subject"`
	Topics    []string  `json:"topics"`
	ExpiresAt time.Time `json:"expiresAt"`
	MayDecide bool      `json:"mayDecide"` // whether its key's tokens may decide
}

// String names the token without showing it.
func (t Token) String() string { return "token of " + t.Subject }

// LogValue keeps the token out of logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MintToken mints a token with a backend key. Nothing is kept of it: another
// one is as good, and deleting the key ends them all.
func (c *Client) MintToken(ctx context.Context, mint TokenRequest) (Token, error) {
	return send[Token](ctx, c, request{method: http.MethodPost, path: "/v1/tokens", body: mint, repeat: true})
}
