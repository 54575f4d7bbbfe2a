// Package streamed measures what open streams cost: one api node with many
// windows, each on a live turn of its own, while some of the turns speak. The
// node, the chat backends that speak and the windows run in this process, over
// real HTTP, Postgres, NATS and Redis, so its memory is that of all of them.
//
// It shows three things: how late a chunk is that went from a backend through
// the node and JetStream to a window; that no chunk costs a commit (I7 asks
// for one before a card is shown, and nothing else does); and how long a long
// message takes to be told again to a window that comes back.
package streamed
