package failpoints

import (
	"slices"

	"github.com/countersign/countersign/pkg/failpoint"
)

// row is one line of the matrix: a point, a flow that comes by it, and what
// may become of the unit that is struck, by action. Nothing said is what the
// flow comes to without a fault.
type row struct {
	place             failpoint.Place
	flow              flow
	kill, stop, error []outcome
	long              bool   // after kill and stop a webhook's lease of 20 s has to run out
	in                string // the service in which it is armed; "" is the place's
	at                int    // the hit that fires; 0 is the first
}

// plans are the flows of the points that are not on the way of an unsafe
// call, or where a fault shows in the outcome.
//
// Before the first byte goes to the tool, and until its result is committed,
// an attempt that dies leaves an unsafe call unknown, and any other one is
// tried again. One that was stopped there wakes after its lease. If it had not
// looked at the lease it sends nothing, and its proof of that settles the
// unsafe call; if it had, its late result does.
var plans = map[failpoint.Point][]row{
	"append-messages.before-commit":    {{flow: supersededChat, at: 2}, {flow: chatAnew, at: 2}},
	"append-messages.after-commit":     {{flow: supersededChat, at: 2}, {flow: queuedChat, at: 2}},
	"register.before-commit":           {{flow: unsafeCall}, {flow: chatTurn, in: "worker"}},
	"register.after-commit":            {{flow: unsafeCall}, {flow: chatTurn, in: "worker"}},
	"resolve.before-commit":            {{flow: resolvedCall}},
	"resolve.after-commit":             {{flow: resolvedCall}},
	"finish-live.before-commit":        {{flow: liveTurn}, {flow: chatTurn, in: "worker"}},
	"finish-live.after-commit":         {{flow: liveTurn}, {flow: chatTurn, in: "worker"}},
	"extend-live.before-commit":        {{flow: streamedTurn}, {flow: chatTurn, in: "worker"}},
	"extend-live.after-commit":         {{flow: streamedTurn}, {flow: chatTurn, in: "worker"}},
	"cancel.before-commit":             {{flow: cancelledTurn}},
	"cancel.after-commit":              {{flow: cancelledTurn}},
	"redrive.before-commit":            {{flow: deadSink}},
	"redrive.after-commit":             {{flow: deadSink}},
	failpoint.HoldBeforeRenew:          {{flow: heldTurn}},
	failpoint.SinkBeforeSend:           {{flow: unsafeCall, long: true}, {flow: jetStreamSink}, {flow: callerCall}, {flow: chatTurn}},
	failpoint.SinkAfterSend:            {{flow: unsafeCall, long: true}, {flow: jetStreamSink}, {flow: callerCall}, {flow: chatTurn}},
	failpoint.SinkBeforeRecord:         {{flow: deafSink}},
	failpoint.SweepBeforeSignal:        {{flow: owedSignal}},
	failpoint.SweepBeforeDispatch:      {{flow: deafSink}},
	"expire.before-commit":             {{flow: expiredCard}},
	"expire.after-commit":              {{flow: expiredCard}},
	"lapse.before-commit":              {{flow: lapsedTurn}, {flow: queuedChat}},
	"lapse.after-commit":               {{flow: lapsedTurn}, {flow: queuedChat}},
	"lose-leases.before-commit":        {{flow: callerIsGone}},
	"lose-leases.after-commit":         {{flow: callerIsGone}},
	"stop-unclaimed.before-commit":     {{flow: unclaimedCall}},
	"stop-unclaimed.after-commit":      {{flow: unclaimedCall}},
	"close-dead-turns.before-commit":   {{flow: deadLiveTurn}},
	"close-dead-turns.after-commit":    {{flow: deadLiveTurn}},
	"fail-continuations.before-commit": {{flow: deadSink}},
	"fail-continuations.after-commit":  {{flow: deadSink}},
	"stop.before-commit":               {{flow: stoppedCall}},
	"stop.after-commit":                {{flow: stoppedCall}},
	failpoint.ImportBefore:             {{flow: newServer}},
	"import-tools.before-commit":       {{flow: newServer}},
	"import-tools.after-commit":        {{flow: newServer}},

	failpoint.ReceiveBeforeRead:  {{flow: unsafeCall}, {flow: chatTurn}},
	failpoint.StreamAfterBegin:   {{flow: chatTurn}},
	failpoint.AskBefore:          {{flow: chatTurn}},
	failpoint.ShowBeforePublish:  {{flow: chatTurn}},
	failpoint.AskAfter:           {{flow: chatTurn}},
	"abandon-live.before-commit": {{flow: refusedChat}},
	"abandon-live.after-commit":  {{flow: refusedChat}},

	"claim.before-commit": {{flow: unsafeCall, stop: is(second, notRun)}},
	"claim.after-commit": {
		{flow: unsafeCall, kill: is(unknown0), stop: is(notRun)},
		{flow: keyedCall, kill: is(second), stop: is(second)}},
	failpoint.RunBeforeCheck: {
		{flow: unsafeCall, kill: is(unknown0), stop: is(notRun), error: is(second)},
		{flow: keyedCall, kill: is(second), stop: is(second), error: is(second)}},
	failpoint.RunBeforeSend: {
		{flow: unsafeCall, kill: is(unknown0), stop: is(once), error: is(second)},
		{flow: keyedCall, kill: is(second), stop: is(sameKey, second), error: is(second)}},
	failpoint.RunAfterEffect: {
		{flow: unsafeCall, kill: is(unknown1), error: is(unknown1)},
		{flow: keyedCall, kill: is(sameKey), stop: is(sameKey), error: is(sameKey)}},
	failpoint.RenewBefore:  {{flow: slowCall, kill: is(unknown1)}},
	failpoint.RenewAfter:   {{flow: slowCall, kill: is(unknown1)}},
	"finish.before-commit": {{flow: unsafeCall, kill: is(unknown1)}},
	failpoint.DrainBefore:  {{flow: drainedWorker, kill: is(unknown1)}},
	failpoint.DrainAfter:   {{flow: drainedWorker}},
}

func is(o ...outcome) []outcome { return o }

// rows are all lines, in the order of the points.
func rows() (all []row) {
	for _, place := range failpoint.Points() {
		all = append(all, rowsOf(place)...)
	}
	return all
}

// rowsOf are the lines of a point.
func rowsOf(place failpoint.Place) []row {
	lines := slices.Clone(plans[place.Point])
	if lines == nil {
		lines = []row{{flow: unsafeCall}}
	}
	for i := range lines {
		lines[i].place = place
	}
	return lines
}

// service is where the point is armed.
func (r row) service() string {
	if r.in != "" {
		return r.in
	}
	return r.place.Service
}

// name of a line: its point, and the flow where a point has several.
func (r row) name() string {
	if len(plans[r.place.Point]) > 1 {
		where := r.flow.name
		if r.in != "" {
			where += ", in the " + r.in
		}
		return string(r.place.Point) + " (" + where + ")"
	}
	return string(r.place.Point)
}

// want is what may become of the unit that an action strikes.
func (r row) want(action string) []outcome {
	for name, want := range map[string][]outcome{"kill": r.kill, "stop": r.stop, "error": r.error} {
		if name == action && want != nil {
			return want
		}
	}
	return []outcome{r.flow.normal}
}

// fault is the row of the table of faults that a cell shows, or "".
func (r row) fault(action string) string {
	for _, f := range []struct {
		fault, action string
		points        []failpoint.Point
	}{
		{"1", "kill", []failpoint.Point{"decide.before-commit"}},
		{"2", "kill", []failpoint.Point{failpoint.AnswerBefore}},
		{"3", "kill", []failpoint.Point{"decide.after-commit", failpoint.AnnounceBefore}},
		{"13", "kill", []failpoint.Point{failpoint.ReceiveBeforeRead, failpoint.ClaimBefore, "claim.before-commit"}},
		{"14", "kill", []failpoint.Point{"claim.after-commit"}},
		{"15", "kill", []failpoint.Point{failpoint.RunBeforeCheck, failpoint.RunBeforeSend}},
		{"16", "kill", []failpoint.Point{failpoint.RunAfterEffect, "finish.before-commit"}},
		{"17", "kill", []failpoint.Point{"finish.after-commit", failpoint.AckBefore}},
		{"18", "stop", []failpoint.Point{"claim.after-commit", failpoint.RunBeforeCheck}},
		{"19", "stop", []failpoint.Point{failpoint.RunBeforeSend, failpoint.RunAfterEffect}},
		{"55", "kill", []failpoint.Point{failpoint.LookBeforeRead, failpoint.DispatchBeforePublish, failpoint.DispatchAfterPublish,
			failpoint.SinkBeforeSend, failpoint.SinkAfterSend, "mark.before-commit", "mark.after-commit"}},
		{"71", "kill", []failpoint.Point{failpoint.DrainBefore, failpoint.DrainAfter}},
	} {
		if f.action == action && slices.Contains(f.points, r.place.Point) {
			return f.fault
		}
	}
	return ""
}
