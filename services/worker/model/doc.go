// Package model is the model loop: it goes on from turns whose continuations
// go to the sink "model", by asking a model of any provider that speaks the
// chat completions protocol of OpenAI.
//
//	accept    open the next turn live, which accepts the continuation: of
//	          several workers one wins, and nobody else asks a model
//	prompt    of committed rows alone, each call followed by its result
//	ask       stream the answer into the turn: a call is committed before
//	          anybody is shown it, no other chunk costs a commit
//	end       the stream's end is the turn's
//
// A process that dies before accepting leaves a ready continuation, which is
// hinted at again. One that dies later leaves a lease, which runs out. Without
// a committed call the continuation is ready again then, for any worker, which
// streams anew under another turn while the windows are told to forget what
// they had; with one, the turn stands as it was committed, and goes on when its
// calls are settled. So each continuation is answered once (I2).
//
// A provider that fails is asked again, a bounded number of times. Then the
// continuation has failed, the conversation says error, and a person redrives
// it. What the provider cannot be asked is not asked: no prompt holds a call
// without its result.
//
// Hints come over JetStream. Workers with free slots also look at the rows
// themselves every few seconds, which is what answers with NATS off.
//
// It is the home of openai-go, and imports pkg/approval and pkg/intake, as the
// api does for the models of chat backends.
package model
