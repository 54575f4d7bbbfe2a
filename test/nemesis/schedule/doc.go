// Package schedule says which faults come when. A plan is a pure function of
// its seed, its length and what it dwells on: the same numbers give the same
// faults, whatever the system does meanwhile.
//
// It only names faults; package inject does them.
package schedule
