// Package aisdk speaks the AI SDK's own protocol: it takes the streams of
// chat backends that run their own model, and gives every window of a
// conversation its stream, on any node.
//
// Two sources make a window's stream. What is committed comes from the rows:
// a message's turns, and what became of their calls. What is not committed yet
// comes over JetStream: the chunks of the turn that is live. Neither is asked
// for what the other knows: a call's card is in the chunks only because it was
// committed before (I7), and a turn that is over is told from its rows. So a
// window may come to any node at any time, and a node that dies takes nothing
// with it.
//
// It uses the use cases of package approval, the wire forms of package
// uistream, and package watch for what changes.
package aisdk
