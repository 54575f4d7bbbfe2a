package approval

import "github.com/countersign/countersign/pkg/strictjson"

// TurnRequest is an assistant turn as a chat backend hands it over, or with
// Live the wish to open one. Durations are texts: "90s", "24h".
type TurnRequest struct {
	MessageID   string           `json:"messageId,omitzero" doc:"Absent: the continued turn's message, or a new one."`
	Parts       []strictjson.Raw `json:"parts,omitzero" doc:"The turn's parts, as the AI SDK's UIMessage has them."`
	Continues   string           `json:"continues,omitzero" doc:"The turn whose continuation this one accepts."`
	RequestedBy string           `json:"requestedBy,omitzero" doc:"On whose behalf the model acts, such as user:alice."`
	Sink        *SinkRequest     `json:"sink,omitzero"`
	Execution   string           `json:"execution,omitzero" enum:"when-decided,eager"`
	Executor    string           `json:"executor,omitzero" enum:"worker,caller" doc:"Who runs the calls of tools that name nobody."`
	Hold        *HoldRequest     `json:"hold,omitzero"`
	ExpiresIn   string           `json:"expiresIn,omitzero" doc:"How long the approvals stay open; 168h by default."`
	WhileOpen   string           `json:"whileOpen,omitzero" enum:"block,supersede,parallel" doc:"What becomes of other turns that are open: the request is refused (block, the default), they are ended (supersede), or nothing (parallel, the default with continues)."`
	Live        bool             `json:"live,omitzero" doc:"Open the turn and end it later with its parts."`
	Lease       string           `json:"lease,omitzero" doc:"How long a live turn may take; 60s by default, 10m at most."`
}

// SinkRequest says where a turn's continuation goes.
type SinkRequest struct {
	Type         string `json:"type" enum:"none,webhook,jetstream,model"`
	URL          string `json:"url,omitzero" doc:"Of a webhook."`
	Name         string `json:"name,omitzero" doc:"Of a JetStream sink."`
	AcceptWithin string `json:"acceptWithin,omitzero" doc:"10m by default."`

	Model  string   `json:"model,omitzero" maxLength:"256" doc:"Of the model loop, as are system and tools: the model's name; the worker's own by default."`
	System string   `json:"system,omitzero" maxLength:"32768" doc:"The system prompt; the worker's own by default."`
	Tools  []string `json:"tools,omitzero" maxItems:"128" doc:"The tools that the model may call; all by default."`
}

// HoldRequest marks a live caller that waits for the answers.
type HoldRequest struct {
	Lease   string `json:"lease,omitzero" doc:"60s by default, 10m at most; waiting renews it."`
	OnLapse string `json:"onLapse,omitzero" enum:"deny,park"`
}

// FinishRequest ends a live turn with its parts, or with an error.
type FinishRequest struct {
	Fence     int64            `json:"fence"`
	Token     string           `json:"token"`
	Parts     []strictjson.Raw `json:"parts,omitzero"`
	Error     *string          `json:"error,omitzero" doc:"Why the turn failed; instead of parts."`
	Executor  string           `json:"executor,omitzero" enum:"worker,caller"`
	ExpiresIn string           `json:"expiresIn,omitzero"`

	aborted  bool             // the error is that its own side gave up
	streamed bool             // the parts are those of a stream
	about    []strictjson.Raw // what the stream said of its message
}

// MessagesRequest appends messages of the user or the system.
type MessagesRequest struct {
	Messages  []strictjson.Raw `json:"messages" doc:"UIMessages of role user or system, each with its id."`
	WhileOpen string           `json:"whileOpen,omitzero" enum:"block,supersede,parallel,queue" doc:"queue: with reply, which waits until the open turns are over."`
	Reply     bool             `json:"reply,omitzero" doc:"Ask for an answer to the last message: a continuation is ready at once, for whoever opens the turn that answers."`
	Sink      *SinkRequest     `json:"sink,omitzero" doc:"With reply: where that continuation goes; the key's own sink by default."`
}

// ResolutionRequest is what a person found out about a call whose outcome is
// unknown.
type ResolutionRequest struct {
	Outcome  string         `json:"outcome" enum:"happened,did-not-happen,closed" doc:"closed: nobody can find out."`
	Output   strictjson.Raw `json:"output,omitzero" doc:"With happened: what the tool would have answered, any JSON value."`
	Evidence string         `json:"evidence,omitzero" maxLength:"4000" doc:"How it is known. With happened it must be there; the model is told."`
}

// DecisionRequest is a person's answer to a card.
type DecisionRequest struct {
	Approved     *bool          `json:"approved"`
	Reason       string         `json:"reason,omitzero" maxLength:"4000"`
	UpdatedInput strictjson.Raw `json:"updatedInput,omitzero" doc:"Replaces the input of the call that is approved."`
	Digest       string         `json:"digest,omitzero" doc:"Of the card that was shown: another one is refused with 412."`
	DecisionID   string         `json:"decisionId,omitzero" doc:"Names the answer: given again, it is the same answer."`
}
