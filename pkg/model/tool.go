package model

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Effect is what running a tool twice would do.
type Effect string

// The effects. Undeclared means unsafe.
const (
	EffectRead       Effect = "read"
	EffectIdempotent Effect = "idempotent"
	EffectKeyed      Effect = "keyed"
	EffectUnsafe     Effect = "unsafe"
)

// Executor is who runs a tool's calls.
type Executor string

// The executors: a worker of ours, or the chat backend that registered.
const (
	ExecutorWorker Executor = "worker"
	ExecutorCaller Executor = "caller"
)

// Defaults and bounds of a tool.
const (
	DefaultMaxAttempts  = 5
	DefaultToolTimeout  = 30 * time.Second
	MaxToolTimeout      = 10 * time.Minute
	DefaultKeyRetention = 24 * time.Hour
	// ServerSeparator stands between an MCP server's name and its tool's.
	ServerSeparator = "__"
)

// Tool is a tool as it is configured. Its definition is what a person sees
// on the card; its secrets are kept apart, so that a new token does not
// unsettle what was approved.
type Tool struct {
	Tenant     TenantID
	Definition ToolDefinition
	Secrets    ToolSecrets
}

// ToolDefinition is the part of a tool that an approval is bound to.
type ToolDefinition struct {
	Name         string          `json:"name"`
	Server       string          `json:"server,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Effect       Effect          `json:"effect"`
	Executor     Executor        `json:"executor"`
	Timeout      Duration        `json:"timeout"`
	MaxAttempts  int             `json:"maxAttempts"`
	KeyRetention Duration        `json:"keyRetention,omitempty"`
	HTTP         *HTTPTarget     `json:"http,omitempty"`
	MCP          *MCPTarget      `json:"mcp,omitempty"`
}

// HTTPTarget is where an HTTP tool's calls go. Header values are secrets and
// not part of it.
type HTTPTarget struct {
	Method      string   `json:"method"`
	URL         string   `json:"url"`
	HeaderNames []string `json:"headerNames,omitempty"`
}

// MCPTarget names a tool of an MCP server: the server's own name for it, and
// what the server was when it was imported.
type MCPTarget struct {
	Tool     string   `json:"tool"`
	Command  []string `json:"command,omitempty"`
	URL      string   `json:"url,omitempty"`
	EnvNames []string `json:"envNames,omitempty"`
}

// ToolSecrets are the values that never leave the database but to the tool.
type ToolSecrets struct {
	Headers map[string]string `json:"headers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Encode gives the definition's stored bytes and their hash, to which
// approvals are bound.
func (d ToolDefinition) Encode() (stored, hash []byte, err error) {
	stored, err = json.Marshal(d)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(stored)
	return stored, sum[:], nil
}

// MCPServer is an MCP server whose tools are imported as <name>__<tool>.
type MCPServer struct {
	Tenant                  TenantID          `json:"-"`
	Name                    string            `json:"name"`
	Command                 []string          `json:"command,omitempty"`
	Env                     map[string]string `json:"env,omitempty"`
	URL                     string            `json:"url,omitempty"`
	Headers                 map[string]string `json:"headers,omitempty"`
	AutoApprove             AutoApprove       `json:"autoApprove"`
	DisabledAutoApproveTool []string          `json:"disabledAutoApproveTools"`
	Revision                int64             `json:"revision"`
	ImportedRevision        int64             `json:"importedRevision"`
	ImportError             string            `json:"importError,omitempty"`
}

// AutoApprove says which tools of an MCP server run without being asked
// about, where no policy speaks.
type AutoApprove string

// The levels: none, those that the server declares read-only, all.
const (
	AutoApproveNone AutoApprove = "none"
	AutoApproveRead AutoApprove = "read"
	AutoApproveAll  AutoApprove = "all"
)

// ToolName is the name under which an MCP server's tool is registered.
func ToolName(server, tool string) string { return server + ServerSeparator + tool }

// MatchTool tells whether a pattern names a tool: its exact name, or
// <server>__* for all of a server's.
func MatchTool(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasSuffix(prefix, ServerSeparator) {
		return strings.HasPrefix(name, prefix) && len(name) > len(prefix)
	}
	return pattern == name
}

// Duration is a time.Duration that JSON spells as Go does: "30s", "24h".
type Duration time.Duration

// MarshalText gives "30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "30s".
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New(`must be a duration such as "30s" or "24h"`) // the parser's error repeats the text
	}
	*d = Duration(parsed)
	return nil
}
