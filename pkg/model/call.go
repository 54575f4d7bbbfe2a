package model

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// CallState is the state of a call's tool part, in the AI SDK's words.
type CallState string

// The states of a tool part.
const (
	CallInputStreaming    CallState = "input-streaming"
	CallInputAvailable    CallState = "input-available"
	CallApprovalRequested CallState = "approval-requested"
	CallApprovalResponded CallState = "approval-responded"
	CallOutputAvailable   CallState = "output-available"
	CallOutputError       CallState = "output-error"
	CallOutputDenied      CallState = "output-denied"
)

// Settled tells whether the part has reached one of its three ends.
func (s CallState) Settled() bool {
	return s == CallOutputAvailable || s == CallOutputError || s == CallOutputDenied
}

// RunState is the state of a call's run. It is a column of the call, so that
// claim and cancel guard the same row.
type RunState string

// The states of a run. The claim is the start: everything that can fail
// without an effect comes before it, the first outside byte right after it.
const (
	RunNone      RunState = ""
	RunQueued    RunState = "queued"
	RunStarted   RunState = "started"
	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"
	RunStopped   RunState = "stopped"
	RunUnknown   RunState = "outcome-unknown"
	RunClosed    RunState = "closed"
)

// Outcome says what the AI SDK has no state for.
type Outcome string

// The outcomes, as toolMetadata.countersign.outcome shows them.
const (
	OutcomeExpired    Outcome = "expired"
	OutcomeLapsed     Outcome = "lapsed"
	OutcomeCancelled  Outcome = "cancelled"
	OutcomeSuperseded Outcome = "superseded"
	OutcomeStopped    Outcome = "stopped"
	OutcomeUnknown    Outcome = "unknown"
)

// Call is one tool call of a turn, and the authority of one tool part.
type Call struct {
	ID         CallID
	Part       int    // the part's place within the turn's parts
	ToolCallID string // the model's own id, unique within the message
	Tool       CallTool

	State     CallState
	Outcome   Outcome
	ErrorText string
	AllowedBy string // the policy or default that let it run without being asked; else ""

	Digest []byte // see Digest
	Edited bool   // a person replaced the input

	Run            RunState
	Fence          int64 // the number of the last attempt; grows by one with each claim
	ClaimToken     string
	Worker         string
	LeaseUntil     time.Time
	QueuedAt       time.Time
	NotBefore      time.Time // a queued run is not claimed earlier
	FirstStartedAt time.Time
	ResultDigest   []byte // SHA-256 over the recorded result, to know a repeated one
	Uncertain      bool   // an attempt of which nobody knows the outcome was followed by another

	Resolution  *Resolved // a person's word on an outcome that nobody knew, or nil
	DuplicateOf CallID    // of a call that is being registered: see SuspectDuplicate

	Approval *Approval // nil where nobody was asked

	// Written by the transaction that holds the turn, never read back.
	NewInput  []byte    // an edit's input
	NewOutput []byte    // a result's output
	UnknownAt time.Time // when its outcome became unknown, in this very transaction
	Changed   bool
}

// CallTool is what a call keeps of its tool's definition at registration.
type CallTool struct {
	Name         string
	Server       string // the MCP server's name, or ""
	Definition   []byte // the definition's hash (SHA-256); nil for a tool nobody defined
	Effect       Effect
	Executor     Executor
	MaxAttempts  int
	KeyRetention time.Duration
	Timeout      time.Duration
}

// Digest binds an approval to what was shown: SHA-256 over the tenant, the
// call, the tool's name, its definition's hash and the exact input bytes,
// each with its length before it, so that no two different cards can have
// equal digests (I5).
func Digest(tenant TenantID, call CallID, tool string, definition, input []byte) []byte {
	h := sha256.New()
	for _, field := range [][]byte{
		[]byte("countersign-call-v1"), []byte(tenant), []byte(call), []byte(tool), definition, input,
	} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		h.Write(length[:])
		h.Write(field)
	}
	return h.Sum(nil)
}

func (c *Call) approved() bool {
	return c.State == CallApprovalResponded || c.State == CallInputAvailable && c.AllowedBy != ""
}
