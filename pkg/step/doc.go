// Package step observes the steps of a call's way: evaluate, register,
// announce, decide, dispatch, deliver, claim, finish, continue, and what a
// worker does around its claim: prepare and execute. Each is a span and a
// duration under the step's own word, the same in every service, so that
// whoever knows the words finds them in a trace, on a dashboard and in the
// code.
//
// Spans carry ids, sizes and outcomes, never an input, an output or a
// person's text. A trace begins where a turn is registered and travels in its
// row, in the headers of messages and in requests (W3C). No span stays open
// while a person thinks: a decision is a trace of its own that links to the
// turn's.
//
// It imports the OpenTelemetry API alone; what becomes of spans and numbers is
// pkg/daemon's.
package step
