package history

import "time"

// Result is what a user knows about a request.
type Result string

// Done; refused, and so not done; nobody knows.
const (
	OK      Result = "ok"
	Fail    Result = "fail"
	Unknown Result = "unknown"
)

// Kind is what was asked.
type Kind string

// The kinds of requests.
const (
	Register Kind = "register"
	Open     Kind = "open"
	Finish   Kind = "finish"
	Decide   Kind = "decide"
	Card     Kind = "card"  // a read of an approval
	Turn     Kind = "turn"  // a read of a turn
	Topic    Kind = "topic" // a read of a topic, from Redis where it is there
	Cancel   Kind = "cancel"
	Claim    Kind = "claim"
	Report   Kind = "result" // of a call that its caller runs
	Resolve  Kind = "resolve"
	Say      Kind = "say"     // a person's message in a chat
	Again    Kind = "again"   // another answer in a chat
	Foreign  Kind = "foreign" // a read of another tenant's approval
)

// Op is one request. Fields that do not belong to its kind are empty.
type Op struct {
	Seq      int64         `json:"seq"`
	Process  string        `json:"process"` // who asked
	Kind     Kind          `json:"op"`
	Node     int           `json:"node"` // the api node that was asked
	Tenant   string        `json:"tenant"`
	Topic    string        `json:"topic,omitzero"`
	Turn     string        `json:"turn,omitzero"`
	Call     string        `json:"call,omitzero"`
	Approval string        `json:"approval,omitzero"`
	Invoked  time.Duration `json:"invoked"` // since the run began
	Returned time.Duration `json:"returned"`

	Result  Result `json:"result"`
	Status  int    `json:"status,omitzero"`  // of the answer
	Problem string `json:"problem,omitzero"` // its name, or the error's text

	// Of a decision: what was sent.
	Decision string `json:"decision,omitzero"` // the decision's id
	Approved bool   `json:"approved,omitzero"`
	By       string `json:"by,omitzero"`
	Seen     string `json:"seen,omitzero"` // the input of the card whose digest was sent
	Edit     string `json:"edit,omitzero"` // the input that was sent
	// Of a decision, of a read of a card: what was told.
	Answer string `json:"answer,omitzero"` // applied, already-applied, recorded
	State  string `json:"state,omitzero"`
	Input  string `json:"input,omitzero"`

	Continues string `json:"continues,omitzero"`
	Message   string `json:"message,omitzero"`
	While     string `json:"while,omitzero"` // of a message in a chat: whileOpen
	Fence     int64  `json:"fence,omitzero"`
	Token     string `json:"token,omitzero"` // a claim's id
	Output    string `json:"output,omitzero"`
	Version   int64  `json:"version,omitzero"` // of the topic
}
