package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Tool is a tool's definition. Without HTTP it is run by the backend
// (executor caller). Durations are texts ("30s").
type Tool struct {
	Name         string          `json:"name,omitzero"` // in answers
	Description  string          `json:"description,omitzero"`
	InputSchema  json.RawMessage `json:"inputSchema,omitzero"`
	Effect       string          `json:"effect,omitzero"`
	Timeout      string          `json:"timeout,omitzero"`
	Executor     string          `json:"executor,omitzero"`
	KeyRetention string          `json:"keyRetention,omitzero"`
	MaxAttempts  int             `json:"maxAttempts,omitzero"`
	HTTP         *HTTPTool       `json:"http,omitzero"`
}

// HTTPTool is how a tool is called over HTTP.
type HTTPTool struct {
	Method  string            `json:"method,omitzero"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitzero"`
}

// MCPServer is a server whose tools are imported, by Command or by URL.
type MCPServer struct {
	Name                     string            `json:"name,omitzero"` // in answers
	Command                  []string          `json:"command,omitzero"`
	Env                      map[string]string `json:"env,omitzero"`
	URL                      string            `json:"url,omitzero"`
	Headers                  map[string]string `json:"headers,omitzero"`
	AutoApprove              string            `json:"autoApprove,omitzero"` // none, read, all
	DisabledAutoApproveTools []string          `json:"disabledAutoApproveTools,omitzero"`
}

// Policy says for some tools whether they run, ask or are denied.
type Policy struct {
	Name      string   `json:"name,omitzero"` // in answers
	Tools     []string `json:"tools"`         // exact names, or "<server>__*"
	Action    string   `json:"action"`        // allow, ask, deny
	Approvers []string `json:"approvers,omitzero"`
	Quorum    int      `json:"quorum,omitzero"`
	FourEyes  bool     `json:"fourEyes,omitzero"`
	Reason    string   `json:"reason,omitzero"`
}

// Key is an API key. Key is the key itself, in the answer to its making only.
type Key struct {
	Name          string   `json:"name,omitzero"`
	Roles         []string `json:"roles"` // backend, approver, admin, viewer
	ActsForPeople bool     `json:"actsForPeople,omitzero"`
	TokensDecide  bool     `json:"tokensDecide,omitzero"` // the tokens that it mints may decide
	Sink          *Sink    `json:"sink,omitzero"`
	Key           string   `json:"key,omitzero"`
}

// PutTool defines a tool, or replaces its definition.
func (c *Client) PutTool(ctx context.Context, name string, tool Tool) (Tool, error) {
	tool.Name = ""
	return put[Tool](ctx, c, path("v1", "tools", name), tool)
}

// GetTool reads a tool's definition.
func (c *Client) GetTool(ctx context.Context, name string) (Tool, error) {
	return send[Tool](ctx, c, get(path("v1", "tools", name), nil))
}

// DeleteTool removes a tool: calls of it stop before they run.
func (c *Client) DeleteTool(ctx context.Context, name string) error {
	return c.remove(ctx, path("v1", "tools", name))
}

// PutMCPServer adds an MCP server, or replaces it.
func (c *Client) PutMCPServer(ctx context.Context, name string, server MCPServer) (MCPServer, error) {
	server.Name = ""
	return put[MCPServer](ctx, c, path("v1", "mcp-servers", name), server)
}

// GetMCPServer reads an MCP server.
func (c *Client) GetMCPServer(ctx context.Context, name string) (MCPServer, error) {
	return send[MCPServer](ctx, c, get(path("v1", "mcp-servers", name), nil))
}

// DeleteMCPServer removes an MCP server and its tools.
func (c *Client) DeleteMCPServer(ctx context.Context, name string) error {
	return c.remove(ctx, path("v1", "mcp-servers", name))
}

// PutPolicy adds a policy, or replaces it.
func (c *Client) PutPolicy(ctx context.Context, name string, policy Policy) (Policy, error) {
	policy.Name = ""
	return put[Policy](ctx, c, path("v1", "policies", name), policy)
}

// GetPolicy reads a policy.
func (c *Client) GetPolicy(ctx context.Context, name string) (Policy, error) {
	return send[Policy](ctx, c, get(path("v1", "policies", name), nil))
}

// DeletePolicy removes a policy.
func (c *Client) DeletePolicy(ctx context.Context, name string) error {
	return c.remove(ctx, path("v1", "policies", name))
}

// PutKey makes an API key, or changes its roles. The answer to its making is
// the only one that holds the key itself, so it is sent once: a caller who
// loses it deletes the key and makes another.
func (c *Client) PutKey(ctx context.Context, name string, key Key) (Key, error) {
	key.Name, key.Key = "", ""
	return send[Key](ctx, c, request{method: http.MethodPut, path: path("v1", "keys", name), body: key})
}

// Keys reads a page of API keys, without the keys themselves.
func (c *Client) Keys(ctx context.Context, paging Paging) (Page[Key], error) {
	return send[Page[Key]](ctx, c, get("/v1/keys", paging.query()))
}

// DeleteKey revokes an API key at once.
func (c *Client) DeleteKey(ctx context.Context, name string) error {
	return c.remove(ctx, path("v1", "keys", name))
}

// SigningSecret is the tenant's secret for webhooks.
type SigningSecret struct {
	Secret   string `json:"secret"`            // "whsec_…"
	Previous string `json:"previous,omitzero"` // the one before a rotation, while it is still valid
}

// SigningSecret reads the secret with which webhooks are signed.
func (c *Client) SigningSecret(ctx context.Context) (SigningSecret, error) {
	return send[SigningSecret](ctx, c, get("/v1/signing-secret", nil))
}

// RotateSigningSecret makes a new secret; both are valid for 24 hours. It is
// sent once: a second rotation would end the first secret's time.
func (c *Client) RotateSigningSecret(ctx context.Context) (SigningSecret, error) {
	return send[SigningSecret](ctx, c, request{method: http.MethodPost, path: "/v1/signing-secret/rotate", body: struct{}{}})
}

func put[T any](ctx context.Context, c *Client, path string, body T) (T, error) {
	return send[T](ctx, c, request{method: http.MethodPut, path: path, body: body, repeat: true})
}

func (c *Client) remove(ctx context.Context, path string) error {
	return c.perform(ctx, request{method: http.MethodDelete, path: path, repeat: true}, func([]byte) error { return nil })
}
