package failpoint

import "errors"

// Point names a place where a process may be made to fail.
type Point string

// ErrInjected is what the action error makes a place fail with.
var ErrInjected = errors.New("a fail point was armed here")

// The places that are not around a commit, in the order of the flow. The
// commits' own are named by their transactions; [Points] has all of them.
const (
	AnswerBefore          Point = "answer.before"
	AnnounceBefore        Point = "announce.before"
	ProjectBeforePut      Point = "project.before-put"
	HoldBeforeRenew       Point = "hold.before-renew"
	LookBeforeRead        Point = "look.before-read"
	DispatchBeforePublish Point = "dispatch.before-publish"
	DispatchAfterPublish  Point = "dispatch.after-publish"
	ReceiveBeforeRead     Point = "receive.before-read"
	ClaimBefore           Point = "claim.before"
	RunBeforeCheck        Point = "run.before-check"
	RunBeforeSend         Point = "run.before-send"
	RunAfterEffect        Point = "run.after-effect"
	RenewBefore           Point = "renew.before"
	RenewAfter            Point = "renew.after"
	AckBefore             Point = "ack.before"
	SinkBeforeSend        Point = "sink.before-send"
	SinkAfterSend         Point = "sink.after-send"
	SinkBeforeRecord      Point = "sink.before-record"
	SweepBeforeSignal     Point = "sweep.before-signal"
	SweepBeforeDispatch   Point = "sweep.before-dispatch"
	ImportBefore          Point = "import.before"
	StreamsBeforeMake     Point = "streams.before-make"
	StreamAfterBegin      Point = "stream.after-begin"
	AskBefore             Point = "ask.before"
	ShowBeforePublish     Point = "show.before-publish"
	AskAfter              Point = "ask.after"
	DrainBefore           Point = "drain.before"
	DrainAfter            Point = "drain.after"
)

// Place is a point, where it is, and what has happened there.
type Place struct {
	Point   Point
	Service string // api, worker, continuer
	Gap     string // a sentence: what is done, and what is not
}

// A commit has two points: before it the rows are locked and nothing is
// written, after it everything is written and nobody knows.
const (
	beforeCommit = ".before-commit"
	afterCommit  = ".after-commit"
)

// commits gives the two points of a transaction.
func commits(transaction, service, what string) []Place {
	return []Place{
		{Point(transaction + beforeCommit), service, "The rows of " + what + " are locked; nothing is written."},
		{Point(transaction + afterCommit), service, "The commit of " + what + " is done; nobody has been told of it."},
	}
}
