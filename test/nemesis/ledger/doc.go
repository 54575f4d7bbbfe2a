// Package ledger is a tool that knows what it did: the ground truth against
// which the rows are checked.
//
// A [Server] takes any POST as a call of a tool. What it does about it, the
// effect, is one line of a file that is only ever appended to and that is
// synced before anybody is answered; so whatever dies, [Read] says what ran,
// how often, with which input and under which key. The rows, the logs and the
// answers of Countersign are only claims about that.
//
// How a call goes is asked for by whoever makes it, in the JSON input or in
// the query of the tool's URL, or drawn from a seeded [Schedule] that is set
// while the server runs. It can answer, hang, answer late, die or close the
// connection before or after the effect, fail after it, answer garbage, and
// honour or ignore idempotency keys: [Behaviours] has them all.
//
// It imports nothing of ours: what judges the product shares no code with it.
// The program around it is test/nemesis/toolserver.
package ledger
