package model

// Action is what a policy says about a call.
type Action string

// The actions, by rank: deny beats ask, ask beats allow.
const (
	ActionAllow Action = "allow"
	ActionAsk   Action = "ask"
	ActionDeny  Action = "deny"
)

// Policy is one rule about tools, by exact name or all of a server's
// ("files__*").
type Policy struct {
	Name      string    `json:"name"`
	Tools     []string  `json:"tools"`
	Action    Action    `json:"action"`
	Approvers *[]string `json:"approvers,omitempty"` // absent: any approver; empty: nobody
	Quorum    int       `json:"quorum,omitempty"`
	FourEyes  bool      `json:"fourEyes,omitempty"`
	Reason    string    `json:"reason,omitempty"`
}

// Verdict is what the policies together say about one call.
type Verdict struct {
	Action   Action
	Policies []string // the names of those that decided, or the default's
	Rule     Requirement
	Reason   string
}
