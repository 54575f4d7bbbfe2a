package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/api/view"
)

// serverRequest configures an MCP server, by command or by URL.
type serverRequest struct {
	Command                  []string          `json:"command,omitzero" doc:"Started by the workers; speaks MCP over stdio."`
	Env                      map[string]string `json:"env,omitzero" doc:"The values are secrets and never shown again."`
	URL                      string            `json:"url,omitzero" doc:"Streamable HTTP."`
	Headers                  map[string]string `json:"headers,omitzero" doc:"The values are secrets and never shown again."`
	AutoApprove              string            `json:"autoApprove,omitzero" enum:"none,read,all" doc:"Which of its tools run without asking, where no policy speaks; read by default."`
	DisabledAutoApproveTools []string          `json:"disabledAutoApproveTools,omitzero" doc:"Always asked about: a tool's own name, <server>__<tool>, or <server>__*."`
}

// The bounds of an MCP server's configuration.
const (
	maxArguments = 100
	maxArgument  = 8 << 10 // bytes
	maxDisabled  = 1000
)

func (in serverRequest) read(tenant model.TenantID, name string) (model.MCPServer, error) {
	c := &checks{}
	c.id("", name)
	// Nor at its end: the tool _x of a server a would be the tool x of a_.
	if strings.Contains(name+"_", model.ServerSeparator) {
		c.add("", "the name within the path must neither contain "+model.ServerSeparator+", which stands between a server and its tool, nor end in _")
	}
	if len(in.Command) > 0 == (in.URL != "") {
		c.add("", "must have either command or url")
	}
	in.checkCommand(c)
	if in.URL != "" {
		c.target("/url", in.URL)
	}
	c.headers("/headers", in.Headers)
	if len(in.Headers) > 0 && in.URL == "" {
		c.add("/headers", "belong to a server with a url")
	}
	if len(in.DisabledAutoApproveTools) > maxDisabled {
		c.add("/disabledAutoApproveTools", fmt.Sprintf("must not have more than %d items", maxDisabled))
	}
	for i, pattern := range in.DisabledAutoApproveTools {
		c.toolPattern(fmt.Sprintf("/disabledAutoApproveTools/%d", i), pattern)
	}
	return model.MCPServer{
		Tenant: tenant, Name: name, Command: in.Command, Env: in.Env, URL: in.URL, Headers: in.Headers,
		AutoApprove: model.AutoApprove(c.word("/autoApprove", in.AutoApprove,
			string(model.AutoApproveRead), string(model.AutoApproveNone), string(model.AutoApproveAll))),
		DisabledAutoApproveTool: append([]string{}, in.DisabledAutoApproveTools...),
	}, c.err()
}

func (in serverRequest) checkCommand(c *checks) {
	if len(in.Command) > maxArguments {
		c.add("/command", fmt.Sprintf("must not have more than %d items", maxArguments))
	}
	for i, argument := range in.Command {
		switch pointer := fmt.Sprintf("/command/%d", i); {
		case i == 0 && argument == "":
			c.add(pointer, "must name a program")
		case len(argument) > maxArgument || strings.ContainsRune(argument, 0):
			c.add(pointer, fmt.Sprintf("must have at most %d bytes and no NUL", maxArgument))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			c.add("/env", "must have names of environment variables")
		}
		if len(in.Env[name]) > maxSecret || strings.ContainsRune(in.Env[name], 0) || in.Env[name] == view.Mask {
			c.add("/env", fmt.Sprintf("must have values of at most %d bytes without NUL, and not the mask of answers", maxSecret))
		}
	}
	if len(in.Env) > 0 && len(in.Command) == 0 {
		c.add("/env", "belongs to a server with a command")
	}
}

// toolPattern checks an exact name or <server>__*.
func (c *checks) toolPattern(pointer, pattern string) {
	c.id(pointer, pattern)
	if rest, wild := strings.CutSuffix(pattern, "*"); strings.Contains(rest, "*") || wild && !strings.HasSuffix(rest, model.ServerSeparator) {
		c.add(pointer, "must be an exact name, or <server>"+model.ServerSeparator+"* for all tools of a server")
	}
}

const (
	// importWait is how long putting a server waits for a worker to import
	// its tools: starting a server through a package runner takes seconds.
	importWait = 15 * time.Second
	// importLook is how often it looks.
	importLook = 100 * time.Millisecond
)

func (a *API) putServer(r *request, in serverRequest) (answer, error) {
	wait := importWait
	if r.param("wait") != "" {
		var err error
		if wait, err = r.wait(); err != nil {
			return answer{}, err
		}
	}
	server, err := in.read(r.tenant(), r.PathValue("name"))
	if err != nil {
		return answer{}, err
	}
	revision, isNew, err := a.Store.PutMCPServer(r.Context(), server, r.actor(), r.via)
	if err != nil {
		return answer{}, err
	}
	if err := r.awaitImport(server.Name, revision, wait); err != nil {
		return answer{}, err
	}
	body, err := r.serverNow(server.Name)
	return created(isNew, body), err
}

// awaitImport waits until a worker has imported this revision or failed to.
func (r *request) awaitImport(name string, revision int64, wait time.Duration) error {
	ctx, cancel := r.waiting(wait)
	defer cancel()
	tick := time.NewTicker(importLook)
	defer tick.Stop()
	for {
		m, err := r.api.Store.MCPServer(r.Context(), r.tenant(), name)
		if err != nil {
			return err
		}
		if m.ImportedRevision >= revision || m.ImportError != "" || m.Revision > revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *request) serverNow(name string) (view.MCPServer, error) {
	m, err := r.api.Store.MCPServer(r.Context(), r.tenant(), name)
	if err != nil {
		return view.MCPServer{}, err
	}
	tools, err := r.toolsByServer()
	if err != nil {
		return view.MCPServer{}, err
	}
	return view.NewMCPServer(m, append([]string{}, tools[name]...)), nil
}

// toolsByServer lists the names of all imported tools.
func (r *request) toolsByServer() (map[string][]string, error) {
	out := map[string][]string{}
	for after := ""; ; {
		tools, err := r.api.Store.Tools(r.Context(), r.tenant(), after, maxPage)
		if err != nil {
			return nil, err
		}
		for _, t := range tools {
			after = t.Definition.Name
			if t.Definition.Server != "" {
				out[t.Definition.Server] = append(out[t.Definition.Server], t.Definition.Name)
			}
		}
		if len(tools) < maxPage {
			return out, nil
		}
	}
}

func (a *API) getServer(r *request) (answer, error) {
	body, err := r.serverNow(r.PathValue("name"))
	return ok(body), err
}

func (a *API) listServers(r *request) (answer, error) {
	servers, err := a.Store.MCPServers(r.Context(), r.tenant())
	if err != nil {
		return answer{}, err
	}
	tools, err := r.toolsByServer()
	if err != nil {
		return answer{}, err
	}
	show := func(m model.MCPServer) view.MCPServer {
		return view.NewMCPServer(m, append([]string{}, tools[m.Name]...))
	}
	return r.wholePage(func(limit int, after string) any {
		return page(behind(servers, after, func(m model.MCPServer) string { return m.Name }), limit, show,
			func(m model.MCPServer) string { return cursorOf(m.Name) })
	})
}

func (a *API) deleteServer(r *request) (answer, error) {
	return answer{status: http.StatusNoContent}, a.Store.DeleteMCPServer(r.Context(), r.tenant(), r.PathValue("name"), r.actor(), r.via)
}
