// Package site is the system that a run torments: real Postgres, NATS and
// Redis, a tool server with a ledger, and two of each service, every one a
// process of its own, with a proxy in each link between them.
//
// It starts all of it in one folder, breaks a part of it when it is told, and
// heals. What is a fault, and when, package inject and package schedule say.
package site
