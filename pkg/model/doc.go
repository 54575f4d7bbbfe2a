// Package model is the vocabulary of Countersign and its rules: ids, topics,
// turns, calls, approvals, decisions, runs, continuations, and the legal
// transitions between their states. It is pure: no I/O, no clock, no
// database. A transaction in pkg/store loads a [Turn] under its row lock,
// calls one method of it with the database's time, and writes what changed.
// Whatever decides about an approval is therefore here, can be read in one
// sitting, and can be explored without a server.
//
// It imports nothing of ours.
//
// # Words
//
// A tenant owns everything below it. A topic is one conversation. A message
// is one UIMessage of the AI SDK; an assistant message holds one or more
// turns (the SDK's steps) in order. A turn is what waits and continues; the
// message that carries its calls is its anchor. A call is one tool call and
// the authority of one tool part. An approval is the question put to people
// about one call, a decision one person's (or policy's) answer. A run is the
// execution of one approved call, an attempt one try of it with a fence, the
// claim the commit that starts it. The continuation is the one dispatch that
// lets the conversation go on; its sink is where it goes.
//
// # How a call moves
//
//	                     ask                    approve                 claim          finish
//	input-available ───────▶ approval-requested ───────▶ approval-responded ──▶ (started) ──▶ output-available
//	      │  │                     │                            │                             output-error
//	      │  └─ policy allows ─────┼──────── queued ────────────┴── stopped before it ran ──▶ output-error
//	      └──── policy denies ─────┴─ denied, expired, lapsed, cancelled, superseded ───────▶ output-denied
//
// # Invariants
//
//	I1   A decided call never goes back to approval-requested; the first committed verdict is final.
//	I2   Each turn that has calls and is not ended by cancel, supersede or error gets exactly one
//	     continuation, created by the commit after which the turn is not streaming and every call of it is
//	     settled. Ended and text-only turns get none. Exactly one next turn ever completes for it.
//	I3   A decision that was acknowledged is in Postgres, and survives any restart of anything.
//	I4   unsafe: at most one attempt is ever started, unless an earlier one provably sent nothing. keyed: all
//	     attempts carry one key. read, idempotent: may be tried again, a bounded number of times. Where the
//	     outcome cannot be known the row says so; nothing is silently run again or silently dropped.
//	I5   Nothing runs without an approval (a person's or a policy's) committed before it, of exactly the tool
//	     definition and the input bytes that run.
//	I6   A denied, expired, cancelled or superseded call that has not started has no effect at all.
//	I7   A card is shown only after its row is committed, so every card can be answered.
//	I8   After faults heal, everything decided is run, everything settled is continued, and Redis and every
//	     open stream equal Postgres: nothing is ever stranded.
//	I9   No tenant sees, changes or infers another tenant's rows.
//	I10  The audit chain verifies: who, what exactly, when, through which channel, under which rule.
package model
