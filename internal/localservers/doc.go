// Package localservers runs the three real servers on this machine, for
// "countersign dev" and for tests: Postgres and Redis as child processes,
// NATS inside this process. For tests that pause or kill it, NATS also runs
// as a process.
//
// It promises:
//
//   - Private: every server listens on 127.0.0.1 alone, on a port of its own,
//     with its files in the folder it was given.
//   - No orphans: a child dies with this process, however this process dies.
//     Where the system cannot promise that, the next start on the same folder
//     stops what was left behind.
//   - Restartable: after [Postgres.Close], [Postgres.Kill] or a kill -9 of
//     this process, a start on the same folder finds every committed row.
//     Settings are Postgres's own defaults unless the caller changes them, so
//     a commit is on disk when it is acknowledged.
//   - Root is no obstacle: Postgres refuses to run as root, so it is then
//     started as an unprivileged user, who must be able to enter the folder.
//   - Errors say what to do: what to install, which folder is closed to whom,
//     who holds a port.
//
// Nothing here belongs into production: access is by trust on loopback.
//
// It imports the server library of NATS, pgx for one readiness query, and
// internal/owner and internal/freeport. Redis is asked in its plain text protocol, because one PING
// is not worth a client library.
package localservers
