package users

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/history"
)

// patience bounds one request: beyond it a user asks again.
const patience = 7 * time.Second

// request sends one request through a client and writes down in op what it
// was told.
type request func(ctx context.Context, c *client.Client, op *history.Op) error

// ask sends one request and writes it into the history.
func (w *World) ask(ctx context.Context, t tenant, op history.Op, send request) (*history.Op, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	op.Tenant = t.name
	done := w.history.Invoke(op)
	err := send(ctx, w.client(t, op.Node, op.By), done)
	judge(done, err)
	w.history.Return(done)
	return done, err
}

// judge says what an answer means for what is known.
func judge(op *history.Op, err error) {
	op.Result, op.Status = history.OK, http.StatusOK
	if err == nil {
		return
	}
	op.Result, op.Status, op.Problem = history.Unknown, 0, err.Error()
	if p, ok := errors.AsType[*client.Problem](err); ok {
		op.Status, op.Problem = p.Status, p.Name()
		if p.Status < 500 && p.Status != http.StatusRequestTimeout {
			op.Result = history.Fail
		}
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		op.Result, op.Problem = history.Fail, unreached
	}
}

// unreached is the problem of a request that never left.
const unreached = "unreached"

// definite tells whether the system has answered.
func definite(op *history.Op) bool {
	return op.Result != history.Unknown && op.Problem != unreached && op.Status != http.StatusTooManyRequests
}

// insist asks again, on either node, until it is answered or ctx ends. What it
// sends must be known when it comes again.
func (w *World) insist(ctx context.Context, r *rand.Rand, t tenant, op history.Op, send request) (*history.Op, error) {
	for try := 1; ; try++ {
		op.Node = r.IntN(2)
		done, err := w.ask(ctx, t, op, send)
		if definite(done) || !pause(ctx, time.Duration(50+r.IntN(100*min(try, 8)))*time.Millisecond) {
			return done, err
		}
	}
}
