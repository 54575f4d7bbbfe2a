// Nemesis torments a whole Countersign and then holds it to its invariants:
// every process of it real, users and faults drawn from a seed, everything
// that was told and done written down.
//
//	go run ./test/nemesis                      three fixed seeds
//	go run ./test/nemesis -seed random -minutes 30
//	go run ./test/nemesis -bugs all            each known bug must be found
//
// Its parts, in the order in which they take part:
//
//	schedule    which faults come when: a pure function of the seed
//	site        the system: servers, services, tool, and a proxy in each link
//	users       chat backends, callers and people
//	inject      does the faults
//	history     what was asked and told
//	ledger      what tools did
//	projection  what Redis held
//	rows        what Postgres holds in the end
//	check       what cannot all be true
//	trial       one run of all of it
//
// docs/reliability.md says what a run shows and what it cannot.
package main
