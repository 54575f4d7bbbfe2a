// Package services holds the three services, and here the way of one call
// through them. The same word stands for each step in file, span, log,
// metric and test.
//
//	  step       where                                 what is durable after it
//	1 evaluate   pkg/policy                            nothing
//	2 register   pkg/store/register.go                 turn, calls, approvals, status, version
//	3 announce   pkg/bus/announce.go, pkg/status       nothing: lossy by design, healed by the sweep
//	4 decide     pkg/store/decide.go                   decision, counters, audit, continuation
//	5 dispatch   services/continuer/dispatch           a message on JetStream, marked later
//	6 deliver    pkg/bus/runs.go                       nothing until the ack
//	7 claim, run pkg/store/claim.go, services/worker   fence, lease, attempt; then the effect
//	8 finish     pkg/store/finish.go                   result, counters, continuation; then the ack
//	9 continue   services/continuer/dispatch, sink     continuation dispatched, then accepted
//
// pkg/step gives each step its span and its duration; docs/metrics.md lists
// what is counted.
//
// Services never import each other. What they share lies in pkg/, and one
// library has one home; imports_test.go holds both.
package services
