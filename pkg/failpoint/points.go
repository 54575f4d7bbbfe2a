package failpoint

import "slices"

// Points are all places, in the order of the flow.
func Points() []Place {
	return slices.Concat(
		commits("append-messages", api, "a person's message"),
		commits("register", api, "a turn"),
		commits("decide", api, "a decision"),
		commits("resolve", api, "a person's word about an unknown outcome"),
		commits("finish-live", api, "the end of a live turn"),
		commits("extend-live", api, "a call of a turn that streams"),
		commits("cancel", api, "a cancelled turn"),
		commits("redrive", api, "a continuation that is tried again"),
		inAPI,
		inContinuer,
		commits("mark", continuer, "what was dispatched"),
		commits("expire", continuer, "a card past its deadline"),
		commits("lapse", continuer, "a hold whose holder is gone, or a queued reply,"),
		commits("lose-leases", continuer, "a run whose worker is gone"),
		commits("stop-unclaimed", continuer, "a call that no caller claimed"),
		commits("close-dead-turns", continuer, "a live turn whose owner is gone"),
		commits("fail-continuations", continuer, "a delivery that is given up"),
		commits("link-audit", continuer, "audit rows that are linked into their chain"),
		inWorker,
		commits("claim", worker, "a claim"),
		commits("finish", worker, "a result"),
		commits("stop", worker, "a call that may not run any more"),
		commits("import-tools", worker, "a server's tools"),
		commits("abandon-live", worker, "a turn that no model could answer"),
	)
}

// Where a point is armed to be shown. Some are hit elsewhere too: every service
// signals, and a caller's claim is committed by the api.
const (
	api       = "api"
	continuer = "continuer"
	worker    = "worker"
)

var inAPI = []Place{
	{AnswerBefore, api, "A request has done all that it does; its answer is not sent."},
	{AnnounceBefore, api, "A commit is done and its signal is due; it is not sent."},
	{ProjectBeforePut, api, "A signalled topic is read; Redis has not been told."},
	{HoldBeforeRenew, api, "A holder waits for answers; its hold is not renewed."},
}

var inContinuer = []Place{
	{LookBeforeRead, continuer, "A signal has arrived; its topic is not looked at."},
	{DispatchBeforePublish, continuer, "A queued run is read; no worker has been told."},
	{DispatchAfterPublish, continuer, "JetStream has a run's hint; the row does not say so."},
	{SinkBeforeSend, continuer, "A continuation, or a caller's call, is due; its sink has not been told."},
	{SinkAfterSend, continuer, "A sink has been told; the row does not say so."},
	{SinkBeforeRecord, continuer, "A delivery has failed; the row does not say so."},
	{SweepBeforeSignal, continuer, "The sweep has found a signal that is owed; it is not sent."},
	{SweepBeforeDispatch, continuer, "The sweep has found what is due; none of it is dispatched."},
}

var inWorker = []Place{
	{ReceiveBeforeRead, worker, "A hint has arrived; its row is not read."},
	{ClaimBefore, worker, "The tool's server is connected; the call is not claimed."},
	{RunBeforeCheck, worker, "The call is claimed; whether enough of its lease is left is not checked."},
	{RunBeforeSend, worker, "The lease is checked; nothing is sent."},
	{RunAfterEffect, worker, "The tool has answered; its result is not committed."},
	{RenewBefore, worker, "A call runs; its lease is not renewed."},
	{RenewAfter, worker, "A lease is renewed; its owner does not know."},
	{AckBefore, worker, "The result is committed; the hint is not acknowledged."},
	{ImportBefore, worker, "A server's tools are listed; they are not imported."},
	{StreamAfterBegin, worker, "A live turn's stream has begun; its writer does not know."},
	{AskBefore, worker, "A continuation is accepted; no model has been asked."},
	{ShowBeforePublish, worker, "A model has said something; no window has been told."},
	{AskAfter, worker, "A model has answered; its turn is not ended."},
	{StreamsBeforeMake, worker, "The process has just started; no stream is looked at."},
	{DrainBefore, worker, "A signal to stop has come; nothing is stopped."},
	{DrainAfter, worker, "Everything is stopped; no connection is closed."},
}
