// Package bench measures how fast Countersign goes round: register a call
// that asks, decide it, run the tool, have the continuation delivered, each
// step durable. It runs the real store, bus, continuer and worker in this
// process, against real Postgres and NATS, with a tool that takes no time.
//
// Absolute figures say more about the machine than about the program, so the
// same run measures a limit on the same Postgres with pgbench: what a round
// trip of four guarded row writes could reach one statement at a time,
//
//	L(c) = 1 / (2/rmw(c) + 2/ins(c))
//
// where rmw is the rate of SELECT FOR UPDATE, UPDATE of a 1.9 KB row and an
// insert into an outbox, and ins that of the insert alone, with c clients.
package bench
