package view

import (
	"encoding/hex"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

// Mask stands where a secret is.
const Mask = "***"

// Tool is a tool's definition, without its secrets.
type Tool struct {
	Name         string         `json:"name"`
	Server       string         `json:"server,omitzero" doc:"The MCP server that it was imported from."`
	Description  string         `json:"description,omitzero"`
	InputSchema  strictjson.Raw `json:"inputSchema,omitzero"`
	Annotations  strictjson.Raw `json:"annotations,omitzero" doc:"What an MCP server says about it."`
	Effect       model.Effect   `json:"effect" enum:"read,idempotent,keyed,unsafe"`
	Executor     model.Executor `json:"executor" enum:"worker,caller"`
	Timeout      model.Duration `json:"timeout"`
	MaxAttempts  int            `json:"maxAttempts"`
	KeyRetention model.Duration `json:"keyRetention,omitzero"`
	HTTP         *HTTPTarget    `json:"http,omitzero"`
	MCPTool      string         `json:"mcpTool,omitzero" doc:"The MCP server's own name for it."`
	Definition   string         `json:"definition" doc:"The hash of the definition, to which approvals are bound; hex."`
	UpdatedAt    time.Time      `json:"updatedAt"`
}

// HTTPTarget is where an HTTP tool's calls go; header values are masked.
type HTTPTarget struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitzero"`
}

// NewTool shows a tool.
func NewTool(t store.ToolRow) Tool {
	d := t.Definition
	v := Tool{
		Name: d.Name, Server: d.Server, Description: d.Description, InputSchema: strictjson.Raw(d.InputSchema),
		Annotations: strictjson.Raw(d.Annotations), Effect: d.Effect, Executor: d.Executor, Timeout: d.Timeout,
		MaxAttempts: d.MaxAttempts, KeyRetention: d.KeyRetention, Definition: hex.EncodeToString(t.Hash), UpdatedAt: utc(t.UpdatedAt),
	}
	if d.HTTP != nil {
		v.HTTP = &HTTPTarget{d.HTTP.Method, d.HTTP.URL, masked(t.Secrets.Headers)}
	}
	if d.MCP != nil {
		v.MCPTool = d.MCP.Tool
	}
	return v
}

// MCPServer is an MCP server with the names of its tools, without its
// secrets.
type MCPServer struct {
	Name                     string            `json:"name"`
	Command                  []string          `json:"command,omitzero"`
	Env                      map[string]string `json:"env,omitzero"`
	URL                      string            `json:"url,omitzero"`
	Headers                  map[string]string `json:"headers,omitzero"`
	AutoApprove              model.AutoApprove `json:"autoApprove" enum:"none,read,all"`
	DisabledAutoApproveTools []string          `json:"disabledAutoApproveTools"`
	State                    string            `json:"state" enum:"imported,importing,failed" doc:"Whether tools lists what this configuration offers. importing: no worker has read it yet; failed: see importError, it is tried again."`
	ImportError              string            `json:"importError,omitzero"`
	Tools                    []string          `json:"tools" doc:"The names of its tools, as they were imported last."`
}

// NewMCPServer shows an MCP server.
func NewMCPServer(m model.MCPServer, tools []string) MCPServer {
	v := MCPServer{
		Name: m.Name, Command: m.Command, Env: masked(m.Env), URL: m.URL, Headers: masked(m.Headers), AutoApprove: m.AutoApprove,
		DisabledAutoApproveTools: m.DisabledAutoApproveTool, State: "importing", ImportError: m.ImportError, Tools: tools,
	}
	switch {
	case m.ImportError != "":
		v.State = "failed"
	case m.ImportedRevision >= m.Revision:
		v.State = "imported"
	}
	return v
}

func masked(secrets map[string]string) map[string]string {
	if secrets == nil {
		return nil
	}
	out := make(map[string]string, len(secrets))
	for name := range secrets {
		out[name] = Mask
	}
	return out
}

// Key is an API key. The key itself is shown once, when it is made.
type Key struct {
	Name          string       `json:"name"`
	Roles         []model.Role `json:"roles"`
	ActsForPeople bool         `json:"actsForPeople,omitzero" doc:"May name a person in Countersign-Actor."`
	TokensDecide  bool         `json:"tokensDecide,omitzero" doc:"The tokens that it mints for people may decide."`
	Sink          *Sink        `json:"sink,omitzero" doc:"Where turns go that name no sink."`
	CreatedAt     time.Time    `json:"createdAt,omitzero"`
	Key           string       `json:"key,omitzero" doc:"The key itself, in the answer to its making alone."`
}

// NewKey shows an API key.
func NewKey(k store.KeyRow) Key {
	v := Key{Name: k.Name, Roles: k.Roles, ActsForPeople: k.ActsFor, TokensDecide: k.TokensDecide, CreatedAt: utc(k.CreatedAt)}
	if k.Sink != nil {
		s := NewSink(*k.Sink)
		v.Sink = &s
	}
	return v
}
