package ledger

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// hugeBytes is the size of a huge answer.
const hugeBytes = 2 << 20

// behave does to a request what was settled: what comes before the effect, the
// effect, and what comes after it.
func (s *Server) behave(w http.ResponseWriter, r *http.Request, request Request, wish wish, letGo <-chan struct{}) {
	if request.Behave == LateEffect {
		wait(context.WithoutCancel(r.Context()), wish.delay, letGo)
	}
	if !request.Behave.effect() {
		without(w, r, request.Behave, letGo)
		return
	}
	effect, err := s.file.do(request, wish.honour)
	if err != nil {
		panic(err) // which breaks this request off: nobody is answered for what is not written down
	}
	after(w, r, effect, request.Behave, wish.delay, letGo)
}

// without is what happens instead of an effect.
func without(w http.ResponseWriter, r *http.Request, behave Behaviour, letGo <-chan struct{}) {
	switch behave {
	case Hang:
		hang(w, r, letGo)
	case DieBeforeEffect:
		die()
	case CloseBeforeEffect:
		reset(w)
	case FailBeforeEffect:
		http.Error(w, "it was not done", http.StatusInternalServerError)
	case Refuse:
		http.Error(w, "the tool says no", http.StatusConflict)
	}
}

// after is what the caller sees of an effect.
func after(w http.ResponseWriter, r *http.Request, effect Effect, behave Behaviour, delay time.Duration, letGo <-chan struct{}) {
	answer := fmt.Sprintf(`{"effect":%d}`, effect.N)
	switch behave {
	case Late:
		wait(r.Context(), delay, letGo)
	case HangAfterEffect:
		hang(w, r, letGo)
		return
	case DieAfterEffect:
		die()
		return
	case CloseAfterEffect:
		reset(w)
		return
	case CloseInAnswer:
		half(w, answer)
		return
	case FailAfterEffect:
		http.Error(w, "it was done, and then something broke", http.StatusInternalServerError)
		return
	case Garbage:
		answer = "<<<" + answer
	case NUL:
		answer = `{"text":"a\u0000b"}`
	case BadUTF8:
		answer = "\xff\xfe\x00" + answer
	case Huge:
		answer = `"` + strings.Repeat("x", hugeBytes-2) + `"`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(answer))
}

// wait lets time pass, until it is let go or ctx ends.
func wait(ctx context.Context, d time.Duration, letGo <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-letGo:
	case <-ctx.Done():
	}
}

// hang says nothing, for as long as the caller stays.
func hang(w http.ResponseWriter, r *http.Request, letGo <-chan struct{}) {
	select {
	case <-letGo:
		reset(w)
	case <-r.Context().Done():
	}
}

// reset ends the connection as a crash of the machine behind it would.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// half sends the beginning of an answer and resets the connection.
func half(w http.ResponseWriter, answer string) {
	w.Header().Set("Content-Length", fmt.Sprint(2*len(answer)))
	_, _ = w.Write([]byte(answer))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// die ends this process, with not one step more.
func die() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}
