// Package check compares what everybody says: the rows, the ledger of what
// tools did, the history of what users asked and were told, and the faults
// that came between. Each check is a pure function of these [Facts] and gives
// what cannot all be true.
//
// The invariants are those of package model, cited by number.
package check
