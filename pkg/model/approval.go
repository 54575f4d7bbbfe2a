package model

import (
	"slices"
	"time"
)

// ApprovalState is the state of the question put to people about one call.
type ApprovalState string

// The states of an approval; all but the first are final (I1).
const (
	ApprovalRequested  ApprovalState = "requested"
	ApprovalApproved   ApprovalState = "approved"
	ApprovalDenied     ApprovalState = "denied"
	ApprovalExpired    ApprovalState = "expired"
	ApprovalLapsed     ApprovalState = "lapsed"
	ApprovalCancelled  ApprovalState = "cancelled"
	ApprovalSuperseded ApprovalState = "superseded"
)

// DefaultExpiry is how long an approval stays open when nobody says.
const DefaultExpiry = 7 * 24 * time.Hour

// Approval is the question put to people about one call.
type Approval struct {
	ID          ApprovalID
	State       ApprovalState
	RequestedAt time.Time
	ExpiresAt   time.Time
	Rule        Requirement
	Policies    []string // the names of the policies that asked, or that denied

	Reason     string
	DecidedBy  string
	DecidedAt  time.Time
	DecisionID string
	Channel    string
	Changed    bool // by the transaction that holds the turn
}

// Requirement says who may answer and how many must.
type Requirement struct {
	Restricted bool     // true: only Approvers may answer, an empty list is nobody
	Approvers  []string // principals: "user:bob", "key:ops"
	Quorum     int      // distinct people who must approve; at least 1
	FourEyes   bool     // the requester may not answer
}

// Role is what an API key may do.
type Role string

// The roles of a key.
const (
	RoleBackend  Role = "backend"
	RoleApprover Role = "approver"
	RoleAdmin    Role = "admin"
	RoleViewer   Role = "viewer"
)

// Principal is whom a credential names.
type Principal struct {
	Tenant   TenantID
	Key      string // the key's name
	Subject  string // "key:<name>", or the person the key acts for: "user:bob"
	Roles    []Role
	ActsFor  bool // may name a person it acts for
	Sink     *Sink
	OnBehalf bool // Subject is a person the key acts for

	// Token says that the credential is a token that the key minted for a
	// person: it is good for Topics and for nothing else.
	Token  bool
	Topics []TopicID
}

// Sees tells whether a topic of its tenant exists for the principal.
func (p Principal) Sees(topic TopicID) bool { return !p.Token || slices.Contains(p.Topics, topic) }

// Has tells whether the principal has a role.
func (p Principal) Has(r Role) bool { return slices.Contains(p.Roles, r) }

// Actor names the principal in the audit: the person, and the key by which a
// person acted.
func (p Principal) Actor() string {
	if p.OnBehalf {
		return p.Subject + " by key:" + p.Key
	}
	return p.Subject
}

// MayDecide tells whether p may answer under r about a turn that requestedBy
// asked for. The role alone is never enough where a policy names approvers,
// and an empty list of approvers is nobody.
func (r Requirement) MayDecide(p Principal, requestedBy string) bool {
	if !p.Has(RoleApprover) {
		return false
	}
	if r.FourEyes && (p.Subject == requestedBy || "key:"+p.Key == requestedBy) {
		return false
	}
	return !r.Restricted || slices.Contains(r.Approvers, p.Subject)
}

// Restrict leaves only those approvers who are named here too.
func (r *Requirement) Restrict(to []string) {
	if !r.Restricted {
		r.Restricted, r.Approvers = true, slices.Clone(to)
		return
	}
	r.Approvers = slices.DeleteFunc(r.Approvers, func(p string) bool { return !slices.Contains(to, p) })
}
