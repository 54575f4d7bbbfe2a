package model

import "errors"

// The sentinels: what can be wrong with a request or a message, one sentence
// each. Two tables translate them at the edges: problem types and statuses in
// services/api/httpapi, ack, nak and term in pkg/bus; a test asserts that
// each of [Sentinels] is in both.
var (
	ErrNotFound             = errors.New("no such thing, or it belongs to another tenant")
	ErrNotPermitted         = errors.New("this credential may not do that")
	ErrInvalid              = errors.New("the request is well-formed but cannot be accepted")
	ErrTurnConflict         = errors.New("another turn with this identity is registered already, with other content")
	ErrMessageConflict      = errors.New("another message with this id is stored already, with other content")
	ErrTurnOpen             = errors.New("a turn of this topic is still open")
	ErrTurnEnded            = errors.New("the turn has ended")
	ErrContinuationAccepted = errors.New("the continuation was accepted by another turn")
	ErrContinuationEnded    = errors.New("the continuation was superseded with its turn")
	ErrDecisionIDReused     = errors.New("this decisionId was used for another decision")
	ErrAlreadyDecided       = errors.New("another verdict stands")
	ErrApprovalClosed       = errors.New("the approval is no longer open")
	ErrCardStale            = errors.New("the input or the tool's definition changed since the card was shown")
	ErrNotClaimable         = errors.New("the call cannot be claimed in its state")
	ErrFenceLost            = errors.New("a later attempt or owner has taken over")
	ErrResultConflict       = errors.New("another result of the same attempt is recorded already")
	ErrAttemptMayBeAlive    = errors.New("the attempt whose outcome is not known may still be alive")
	ErrAlreadyResolved      = errors.New("another resolution, or the tool's own result, stands")
	ErrNotUnknown           = errors.New("the outcome of the call is not unknown")
	ErrVersionUnknown       = errors.New("the asked version did not come in time")
	ErrUnavailable          = errors.New("the database cannot be reached or is too busy")
	ErrIllegalTransition    = errors.New("no such edge in the state machine")
)

// Sentinels lists every sentinel above, for the tables at the edges and the
// test that compares them.
var Sentinels = []error{
	ErrNotFound, ErrNotPermitted, ErrInvalid, ErrTurnConflict, ErrMessageConflict, ErrTurnOpen, ErrTurnEnded,
	ErrContinuationAccepted, ErrContinuationEnded, ErrDecisionIDReused, ErrAlreadyDecided, ErrApprovalClosed,
	ErrCardStale, ErrNotClaimable, ErrFenceLost, ErrResultConflict, ErrAttemptMayBeAlive,
	ErrAlreadyResolved, ErrNotUnknown, ErrVersionUnknown, ErrUnavailable, ErrIllegalTransition,
}
