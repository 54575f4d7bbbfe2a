package httpapi

import (
	"net/http"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/services/api/view"
)

const (
	get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	is201, is200        = http.StatusCreated, http.StatusOK
)

// nothing is the answer of a route that answers nothing.
type nothing struct{}

// routes is the contract: each line is one operation. A line that opens
// nothing is closed to tokens.
func (a *API) routes() []route {
	return append(a.conversation(), a.configuration()...)
}

func (a *API) conversation() []route {
	return []route{
		write[approval.MessagesRequest, MessagesAnswer](post, "/v1/topics/{topic}/messages", backend, is201, "Append messages of the user or the system", a.postMessages),
		write[approval.TurnRequest, TurnAnswer](post, "/v1/topics/{topic}/turns", backend, is201, "Register an assistant turn, or open one live", a.registerTurn),
		write[approval.FinishRequest, TurnAnswer](post, "/v1/topics/{topic}/turns/{turn}/finish", backend, is200, "End a live turn", a.finishTurn),
		stream(post, "/v1/topics/{topic}/turns/{turn}/chunks", backend, "Stream a live turn's chunks in (NDJSON or server-sent events)", a.takeChunks).with("executor", "expiresIn"),
		a.chatRoute(),
		stream(get, "/api/chat/{topic}/stream", anybody, "Follow the message that is being written, as the AI SDK's client does; 204 when there is none", a.resumeChat).with("sdk").open(ofPath),
		write[cancelRequest, CancelAnswer](post, "/v1/topics/{topic}/cancel", conductors, is200, "End a turn, or all open ones", a.cancel).open(ofPath),
		read[TopicSettings](get, "/v1/topics/{topic}/settings", anybody, nil, "Read what holds for a topic where a request does not say", a.getSettings),
		write[settingsRequest, TopicSettings](put, "/v1/topics/{topic}/settings", operators, is200, "Say what holds for a topic where a request does not say", a.putSettings),
		read[Page[view.TopicBody]](get, "/v1/topics", anybody, []string{"limit", "cursor", "status", "id"}, "List topics", a.listTopics).open(ofOwn),
		read[view.TopicBody](get, "/v1/topics/{topic}", anybody, []string{"minVersion"}, "Read a topic's status", a.getTopic).open(ofPath),
		read[Page[strictjson.Raw]](get, "/v1/topics/{topic}/messages", anybody, paging, "Read committed messages, oldest first", a.listMessages).with("minVersion").open(ofPath),
		read[nothing](get, "/v1/topics/{topic}/events", anybody, nil, "Follow a topic as server-sent events: message, dropped, status", a.events).open(ofPath),
		read[view.Turn](get, "/v1/turns/{turn}", anybody, []string{"wait", "after", "minVersion"}, "Read a turn, or wait for its change", a.getTurn).open(ofPath),

		read[Page[view.Card]](get, "/v1/approvals", anybody, paging, "List cards, newest first", a.listApprovals).with("state", "topic", "tool", "assignee", "wait", "minVersion").open(ofOwn),
		read[view.Card](get, "/v1/approvals/{approval}", anybody, []string{"wait", "minVersion"}, "Read a card, or wait for its answer", a.getApproval).open(ofPath),
		write[approval.DecisionRequest, DecisionAnswer](post, "/v1/approvals/{approval}/decision", anybody, is200, "Answer a card", a.decide).open(ofPath),
		write[batchRequest, Page[BatchItem]](post, "/v1/decisions", anybody, is200, "Answer several cards", a.decideMany).open(ofOwn),

		read[Page[view.Call]](get, "/v1/calls", anybody, paging, "List calls, oldest first", a.listCalls).with("state", "executor", "topic", "wait", "minVersion").open(ofOwn),
		read[view.Call](get, "/v1/calls/{call}", anybody, []string{"wait", "minVersion"}, "Read a call with its attempts", a.getCall).open(ofPath),
		read[strictjson.Raw](get, "/v1/calls/{call}/input", anybody, nil, "Read the exact bytes of a call's input", a.callInput).open(ofPath),
		write[claimRequest, ClaimAnswer](post, "/v1/calls/{call}/claim", backend, is200, "Start a call that the backend runs itself", a.claimCall),
		write[heartbeatRequest, HeartbeatAnswer](post, "/v1/calls/{call}/heartbeat", backend, is200, "Renew a claimed call's lease", a.heartbeatCall),
		write[resultRequest, ResultAnswer](post, "/v1/calls/{call}/result", backend, is200, "End a claimed call", a.resultOfCall),
		write[approval.ResolutionRequest, ResolutionAnswer](post, "/v1/calls/{call}/resolution", anybody, is200, "Say what became of a call whose outcome is unknown", a.resolveCall).open(ofPath),

		read[Page[view.Continuation]](get, "/v1/continuations", anybody, paging, "List continuations", a.listContinuations).with("state", "topic", "wait", "minVersion"),
		write[redriveRequest, RedriveAnswer](post, "/v1/continuations/{continuation}/redrive", operators, is200, "Deliver a failed continuation again", a.redrive),
	}
}

func (a *API) configuration() []route {
	return []route{
		read[Page[view.Tool]](get, "/v1/tools", anybody, paging, "List tools", a.listTools),
		read[view.Tool](get, "/v1/tools/{name}", anybody, nil, "Read a tool", a.getTool),
		write[toolRequest, view.Tool](put, "/v1/tools/{name}", admin, is200, "Define a tool", a.putTool),
		read[nothing](del, "/v1/tools/{name}", admin, nil, "Remove a tool: calls of it stop before they run", a.deleteTool),

		read[Page[view.MCPServer]](get, "/v1/mcp-servers", anybody, paging, "List MCP servers", a.listServers),
		read[view.MCPServer](get, "/v1/mcp-servers/{name}", anybody, nil, "Read an MCP server", a.getServer),
		write[serverRequest, view.MCPServer](put, "/v1/mcp-servers/{name}", admin, is200, "Add an MCP server and import its tools", a.putServer).with("wait"),
		read[nothing](del, "/v1/mcp-servers/{name}", admin, nil, "Remove an MCP server and its tools", a.deleteServer),

		read[Page[model.Policy]](get, "/v1/policies", anybody, paging, "List policies", a.listPolicies),
		read[model.Policy](get, "/v1/policies/{name}", anybody, nil, "Read a policy", a.getPolicy),
		write[policyRequest, model.Policy](put, "/v1/policies/{name}", admin, is200, "Add a policy", a.putPolicy),
		read[nothing](del, "/v1/policies/{name}", admin, nil, "Remove a policy", a.deletePolicy),

		read[Page[view.Key]](get, "/v1/keys", admin, paging, "List API keys", a.listKeys),
		read[view.Key](get, "/v1/keys/{name}", admin, nil, "Read what an API key may do", a.getKey),
		write[keyRequest, view.Key](put, "/v1/keys/{name}", admin, is201, "Make an API key, or change what it may do", a.putKey),
		read[nothing](del, "/v1/keys/{name}", admin, nil, "Revoke an API key", a.deleteKey),

		write[tokenRequest, TokenAnswer](post, "/v1/tokens", backend, is201, "Mint a token for a person, good for some topics", a.mintToken),

		read[SigningSecret](get, "/v1/signing-secret", operators, nil, "Read what webhooks are signed with", a.signingSecret),
		write[rotateRequest, SigningSecret](post, "/v1/signing-secret/rotate", admin, is200, "Make a new signing secret; the old one signs for 24 hours more", a.rotateSecret),
	}
}
