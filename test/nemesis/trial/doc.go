// Package trial is one run, from nothing to its verdict:
//
//	start   the site, its tenants and tools
//	load    users work while faults come as planned; rows and Redis are
//	        looked at all the time
//	heal    every fault is undone
//	rest    users finish what they began, until nothing is under way
//	check   rows, ledger, history, streams and Redis are compared
//
// A run in which nothing went wrong, or that saw none of what makes it hard,
// has proved nothing, and fails.
package trial
