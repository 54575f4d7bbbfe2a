package tool

import (
	"context"
	"errors"

	"github.com/countersign/countersign/pkg/model"
)

// ErrForGood is wrapped by errors of [Runner.Prepare] that no further try
// would mend, such as a refused target or a tool that its server no longer
// has: the call is to be stopped. Every other error may pass.
var ErrForGood = errors.New("cannot be prepared")

// Call is what a tool is told about one attempt.
type Call struct {
	ID model.CallID
	// Attempt is the fence of the claim: 1 for the first.
	Attempt int64
	// IdempotencyKey is the same for all attempts of one run.
	IdempotencyKey string
	// Input is the approved JSON, byte for byte.
	Input []byte
}

// Runner executes the calls of one tool definition. Safe for concurrent use.
type Runner interface {
	// Prepare resolves, connects and checks, without an effect and within
	// ctx. The caller must end what it gets with Run or Release, soon:
	// connections do not wait for ever.
	Prepare(ctx context.Context) (Ready, error)
}

// Ready is one prepared attempt.
type Ready interface {
	// Run sends the call and waits for its outcome, at most until ctx ends
	// (the tool's timeout, the lease). The trace of ctx travels along. It
	// must be called once at most.
	Run(ctx context.Context, call Call) model.Result
	// Release gives back what was prepared. It does nothing after Run.
	Release()
}

func succeeded(output []byte) model.Result {
	return model.Result{Kind: model.ResultSucceeded, Output: output}
}

func failed(text string) model.Result {
	return model.Result{Kind: model.ResultFailed, Text: text}
}

func unknown(reason string) model.Result {
	return model.Result{Kind: model.ResultUnknown, Text: reason}
}

func nothingSent(reason string) model.Result {
	return model.Result{Kind: model.ResultNothingSent, Text: reason}
}
