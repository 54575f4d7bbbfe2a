// Package dispatch moves on what is due: queued runs become hints on
// JetStream, ready continuations go to their sinks. It is level-triggered: a
// signal or the sweep says look at these topics, and what is done follows
// from the committed rows alone (step 5 and step 9 of the nine).
//
// Everything here may happen twice, on two nodes or after a crash. A message
// carries ids and no verdict, its id is made from the row, and the row says
// what it is worth: a run is claimed once, a continuation accepted once.
//
// What was done is marked in batches, a few times a second, never one commit
// per message.
package dispatch
