package httpapi

import (
	"net/http"

	"github.com/countersign/countersign/pkg/model"
)

// kind is a type of problem: what an error looks like from outside.
type kind struct {
	err         error
	status      int
	name        string
	title       string
	explanation string
}

// kinds is the table of problems: every sentinel of the model, and the errors
// of HTTP itself.
var kinds = []kind{
	{errMalformed, http.StatusBadRequest, "malformed-json", "The body is not strict JSON",
		"The body must be one JSON value in UTF-8: no name twice in one object, nothing behind the value, no lone surrogates, at most 64 levels deep."},
	{errUnauthenticated, http.StatusUnauthorized, "unauthenticated", "No valid key or token",
		"Send Authorization: Bearer <key> with a key that exists and was not revoked, or a token that has not expired and whose key was not revoked."},
	{model.ErrNotPermitted, http.StatusForbidden, "not-permitted", "Not permitted",
		"The key is known but may not do this: its roles do not include it, a policy names other approvers, or the request is one's own under four eyes. A token is good for reading, following and chatting in its topics, and for deciding only where its key was allowed that."},
	{model.ErrNotFound, http.StatusNotFound, "not-found", "Not found",
		"There is no such thing, or it belongs to another tenant, or to a topic that the token is not good for."},
	{errNotAvailable, http.StatusNotFound, "not-available", "Not available in this version",
		"The contract has this, but this version does not answer it yet."},
	{errMethod, http.StatusMethodNotAllowed, "method-not-allowed", "Method not allowed",
		"The path exists, but not with this method; the Allow header lists those it takes."},
	{model.ErrTurnOpen, http.StatusConflict, "turn-open", "A turn is still open",
		"A turn of this topic has not ended. Continue it (its continuation is in the document), or send whileOpen: supersede or parallel."},
	{model.ErrTurnConflict, http.StatusConflict, "turn-conflict", "Registered with other content",
		"A turn with this topic, message and continued turn is registered already, with other content."},
	{model.ErrMessageConflict, http.StatusConflict, "message-conflict", "The message id is taken",
		"A message with this id exists already with other content, or belongs to another turn."},
	{model.ErrTurnEnded, http.StatusConflict, "turn-ended", "The turn has ended",
		"The turn is not open any more: it was cancelled, superseded or finished, or its lease ran out."},
	{model.ErrContinuationAccepted, http.StatusConflict, "continuation-accepted", "Accepted by another turn",
		"Another turn went on from this one already. Of two nodes that continue, one stops here."},
	{model.ErrContinuationEnded, http.StatusConflict, "continuation-superseded", "The continuation was superseded",
		"The turn was cancelled or superseded, and nothing continues it any more."},
	{model.ErrDecisionIDReused, http.StatusUnprocessableEntity, "decision-id-reused", "The decisionId was used before",
		"The decisionId names another decision: other content, another card or another decider. Make a new one."},
	{model.ErrAlreadyDecided, http.StatusConflict, "already-decided", "Another verdict stands",
		"The card was decided otherwise before. The first committed verdict is final; it is in the document with who gave it and when."},
	{model.ErrApprovalClosed, http.StatusGone, "approval-closed", "The card is closed",
		"The card expired, lapsed, or was cancelled or superseded before anybody decided; the document says which. The tool did not run."},
	{model.ErrCardStale, http.StatusPreconditionFailed, "card-stale", "The card has changed",
		"The input or the definition is not the one whose digest was sent. Look at the card in the document and decide again."},
	{model.ErrNotClaimable, http.StatusConflict, "not-claimable", "The call cannot be claimed",
		"The call is not queued for its caller: the document has its state."},
	{model.ErrFenceLost, http.StatusConflict, "fence-lost", "Taken over",
		"A later attempt or owner has taken over, or the token is not this fence's."},
	{model.ErrResultConflict, http.StatusConflict, "result-conflict", "Another result is recorded",
		"The attempt has a result already, and this is another one; or a person has resolved the call, which is final. A result that came too late is noted on its attempt."},
	{model.ErrAttemptMayBeAlive, http.StatusConflict, "attempt-may-be-alive", "The attempt may still be alive",
		"Nobody can say yet what became of the call: its last attempt may still be running, and its own result would be better than anybody's word. The document and Retry-After say from when it can be resolved: the end of its lease, the tool's timeout, and a margin."},
	{model.ErrAlreadyResolved, http.StatusConflict, "already-resolved", "Resolved already",
		"Another resolution stands, with who gave it and when in the document, or the tool's own result came first. Either is final; to run the call again, the model makes a new one, with a new card."},
	{model.ErrNotUnknown, http.StatusConflict, "not-unknown", "The outcome is not unknown",
		"Only a call that was started and whose outcome nobody knows can be resolved; the document has its state."},
	{model.ErrVersionUnknown, http.StatusConflict, "version-unknown", "The version did not come",
		"The topic did not reach minVersion within 5 seconds: it was never committed, or this node is behind."},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too-large", "The body is too large",
		"The body has more bytes than this installation takes (1 MiB by default)."},
	{errMediaType, http.StatusUnsupportedMediaType, "unsupported-media-type", "Not JSON",
		"Send the body with Content-Type: application/json."},
	{model.ErrInvalid, http.StatusUnprocessableEntity, "invalid", "The request cannot be accepted",
		"The request is well-formed, but a value of it cannot be accepted; errors lists the places."},
	{errRateLimited, http.StatusTooManyRequests, "rate-limited", "Too many requests",
		"This key asks more often than this installation allows. Wait as long as Retry-After says."},
	{model.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", "Unavailable",
		"The database cannot be reached or is too busy. Nothing is lost: send the same request again after Retry-After."},
	{model.ErrIllegalTransition, http.StatusInternalServerError, "internal", "Internal error", internalText},
}

const internalText = "Something went wrong here; it was logged. What was acknowledged before is safe."

// internal is every error that nobody foresaw.
var internal = kind{errPanicked, http.StatusInternalServerError, "internal", "Internal error", internalText}
