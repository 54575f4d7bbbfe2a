// Package inject does to a site what a plan says, when it says so, and undoes
// it. Each fault leaves a [Record] of when it really began and ended and of
// what it did, by the clock of the history; one that could not do anything is
// not counted as fired.
package inject
