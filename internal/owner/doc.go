// Package owner says who holds a port or a folder, and holds a folder for
// this process.
//
// It exists for error messages: "address already in use" sends a person
// hunting, "taken by pid 4711 (redis-server)" does not. Its answers are for
// people only; no code decides by them, because the holder may be gone by the
// time it is named. What is decided by is the lock of [Folder], which the
// kernel drops with the process however it dies, so a kill -9 never leaves a
// folder locked.
//
// It imports the standard library alone.
package owner
