// Package intake takes the stream of a model into its live turn, chunk by
// chunk, whoever runs the model: a chat backend, whose chunks come to the api,
// or the worker's own model loop.
//
// It promises that a call is committed before anybody is shown it (I7), that
// what the windows are sent is what the rows will say, in the order in which
// the AI SDK's own server would send it, and that the end of the stream is the
// turn's end. A stream that breaks off leaves the turn as it was last
// committed. No chunk costs a commit but one that completes a call, and the
// last.
//
// It imports the use cases of pkg/approval, which commit, pkg/uistream, which
// knows what the chunks come to, and pkg/bus's messages. It is a package of its
// own because services never import each other.
package intake
