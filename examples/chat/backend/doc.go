// Package backend is a chat backend that uses Countersign, small enough to be
// read in one sitting: what the owner of a real one would write, with a
// scripted model in the place of a real one.
//
// It hands over the model's turns (RegisterTurn), is told by a signed webhook
// when a turn's calls are decided and done, accepts that continuation by
// opening the next turn (OpenTurn with continues), and streams into it what the
// model says then (StreamTurn). Countersign runs the tools.
//
// Nothing is remembered here: the history that Countersign keeps is the
// conversation, and what comes next follows from it alone. So a backend may
// die on any line, and any number may run at once: whoever accepts first goes
// on, the others are told so (continuation-accepted) and stop. A webhook that
// never came is made up for by looking through the open continuations.
//
// It uses pkg/client and the Standard Webhooks library, as any program could.
package backend
