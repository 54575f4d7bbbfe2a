package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Server is the tool. Its zero value is not usable.
type Server struct {
	file *File

	mu       sync.Mutex
	schedule Schedule
	fired    map[Behaviour]int
	letGo    chan struct{} // closed: what hangs, or is late, goes on
}

// NewServer makes a server that writes to a ledger.
func NewServer(file *File) *Server {
	return &Server{file: file, fired: map[Behaviour]int{}, letGo: make(chan struct{})}
}

// Release lets everything go that hangs or is late now: what hangs ends
// without an effect of its own and without an answer.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.letGo)
	s.letGo = make(chan struct{})
}

// Set sets how requests go that ask for nothing.
func (s *Server) Set(schedule Schedule) error {
	if err := schedule.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule = schedule
	return nil
}

// Fired counts requests by how they went, since this process started.
func (s *Server) Fired() map[Behaviour]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.fired)
}

// Handler is the tool at every path, with these beside it:
//
//	GET  /readyz      200
//	PUT  /_/schedule  a [Schedule]
//	POST /_/release   [Server.Release]
//	GET  /_/fired     [Server.Fired]
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /_/schedule", s.putSchedule)
	mux.HandleFunc("POST /_/release", func(http.ResponseWriter, *http.Request) { s.Release() })
	mux.HandleFunc("GET /_/fired", s.getFired)
	mux.HandleFunc("POST /", s.call)
	return mux
}

// call takes one request from its first byte to its end.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it did not come whole: nothing is done about it
	}
	call := r.Header.Get("Countersign-Call")
	n := s.file.arrived(call)
	wish, err := asked(r.URL.Query(), body, n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(body)
	behave, letGo := s.decide(wish.behave, sum, n)
	attempt, _ := strconv.ParseInt(r.Header.Get("Countersign-Attempt"), 10, 64)
	request := Request{Call: call, Attempt: attempt, Key: r.Header.Get("Idempotency-Key"), Path: r.URL.Path,
		SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(body)), Time: time.Now(), Behave: behave}
	if err := s.file.note(request); err != nil {
		panic(err) // which breaks this request off: nothing goes on that is not written down
	}
	s.behave(w, r, request, wish, letGo)
}

// decide settles how a request goes, and counts it.
func (s *Server) decide(wished Behaviour, input [sha256.Size]byte, n int) (Behaviour, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wished == "" {
		wished = s.schedule.draw(input, n)
	}
	s.fired[wished]++
	return wished, s.letGo
}
