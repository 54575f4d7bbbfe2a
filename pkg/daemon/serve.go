package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/owner"
)

const (
	// headerTimeout bounds the wait for a request's header: a client that
	// needs longer is broken or holds connections on purpose.
	headerTimeout = 5 * time.Second
	// bodyTimeout bounds the wait for a request's body. It ends with the body,
	// so that an answer may take as long as it likes.
	bodyTimeout = 30 * time.Second
	// idleTimeout outlasts the keep-alive of the usual load balancers (60 s),
	// who else would send into a connection that is just being closed.
	idleTimeout = 2 * time.Minute
	// headerBytes is far above what any client of ours sends.
	headerBytes = 64 << 10
	// drainTimeout is how long requests in progress may take to end, below
	// the default grace time.
	drainTimeout = 20 * time.Second
)

// Listen opens a TCP address. When it is taken, the error names who has it
// and the setting that changes it, such as "--listen or COUNTERSIGN_LISTEN".
func Listen(addr, setting string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is taken by %s: stop it, or choose another address with %s: %w", addr, holder(addr), setting, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s (set by %s): %w", addr, setting, err)
	}
	return listener, nil
}

func holder(addr string) string {
	host, text, _ := net.SplitHostPort(addr)
	if port, err := strconv.Atoi(text); err == nil {
		if process, found := owner.Port(host, port); found {
			return process.String()
		}
	}
	return "another process"
}

type drainingKey struct{}

// Draining is closed when the server that serves the request is stopping. A
// handler whose answer has no end, such as a stream of events, ends it then.
// Outside of [Serve] it is nil, which blocks for ever.
func Draining(ctx context.Context) <-chan struct{} {
	draining, _ := ctx.Value(drainingKey{}).(chan struct{})
	return draining
}

// Serve answers requests until ctx ends. Then it goes on for as long as notice
// says, so that load balancers learn from /readyz to send requests elsewhere,
// and ends each connection with its next answer, so that no client sends into
// one that is just being closed. After that it takes no new requests, lets those
// in progress end, and returns nil. Requests that need more than 20 s are cut,
// and that is an error. Request contexts are not ended by ctx.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, notice time.Duration) error {
	draining := make(chan struct{})
	server := &http.Server{
		Handler:           sayGoodbye(ctx, limitBody(handler)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), drainingKey{}, draining)
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-time.After(notice):
	}
	close(draining)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return errors.Join(fmt.Errorf("requests on %s did not end within %v and were cut", listener.Addr(), drainTimeout), server.Close())
	}
	return nil
}

// sayGoodbye ends the connection with each answer once ctx has ended.
func sayGoodbye(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// limitBody bounds the reading of bodies. http.Server's own ReadTimeout would
// go on after the body and end long answers.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if control.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
				r.Body = &limitedBody{ReadCloser: r.Body, control: control}
			}
		}
		next.ServeHTTP(w, r)
	})
}
