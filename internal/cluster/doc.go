// Package cluster runs Countersign's three services as processes of this
// machine, built from this source: for tests, and for programs that prove
// what the services promise by killing them.
//
// It knows how a process is built, started, signalled and asked whether it is
// ready; which servers the processes use, and how many there are of each, its
// caller says. It imports nothing of ours, so that what is under test is only
// what runs in the processes. Package testcluster puts a whole deployment
// together for a test.
package cluster
