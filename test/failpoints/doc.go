// Package failpoints shows what becomes of a call when a process dies, stops
// or loses an answer at any place between two actions: every point of package
// failpoint, with every action, in real processes, two of each service.
//
// A cell of the matrix arms one point in one of them and lets whole turns go
// through the system until it fires. What was killed is started again, what
// was stopped goes on after longer than a lease, and then everything must come
// to rest as the table in docs/reliability.md says, with no invariant broken.
// A cell in which nothing fired fails.
//
// It holds nothing but tests and what they share.
package failpoints
