// Package users is who uses the system in a run: chat backends that register
// turns, run calls of their own and continue conversations, two at once, and
// people who answer cards, twice, against each other, with edits. Each draws
// what it does from the run's seed.
//
// They behave as the contract allows and as real ones do: whoever gets no
// answer asks again under the same id, on the other node. Every request is an
// operation of the history.
package users
