// Package dev runs everything in one process, for a first look and for tests:
// Postgres and Redis as children and NATS in the process, all on private
// ports in one data folder (or the servers that the environment names), the
// three services, a first API key, and a demo to play with.
//
// It is the only place where the services meet: they never import each other.
// The folder survives kill -9: a start with the same folder finds the data
// and the key again.
package dev
