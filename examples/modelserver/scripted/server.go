package scripted

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Model is what answers. It is called for one request at a time.
type Model func(Request) Answer

// Request is what a model is asked.
type Request struct {
	N        int    `json:"-"` // how many came before
	Key      string `json:"-"` // the bearer token
	Body     string `json:"-"`
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []Message
	Tools    []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
}

// Message is one message of a conversation.
type Message struct {
	Role       string
	Content    json.RawMessage
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// Text is a message's content, where that is a text.
func (m Message) Text() string {
	var text string
	_ = json.Unmarshal(m.Content, &text)
	return text
}

// Last is the last message.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Answer is what is answered: a stream of events, or with a Status another
// answer than 200.
type Answer struct {
	Status     int
	RetryAfter string // the header, if any
	Body       string // of a Status
	Events     []Event
}

// Event is one event of a stream.
type Event struct {
	Data string
	// Before is called before it is sent, if it is there; ctx ends when the
	// client has gone.
	Before func(ctx context.Context)
	Cut    bool // break the connection off instead
}

// Server serves one model.
type Server struct {
	model Model

	mu   sync.Mutex
	seen []Request
}

// New makes a server.
func New(m Model) *Server { return &Server{model: m} }

// Requests are what was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.seen...)
}

// maxRequest bounds a request, in bytes.
const maxRequest = 64 << 20

// ServeHTTP answers POST …/chat/completions.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	request := Request{Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Body: string(body)}
	if err != nil || json.Unmarshal(body, &request) != nil || !request.Stream {
		http.Error(w, `{"error": {"message": "send a JSON request with stream: true"}}`, http.StatusBadRequest)
		return
	}
	answer := s.ask(request)
	if answer.Status != 0 {
		if answer.RetryAfter != "" {
			w.Header().Set("Retry-After", answer.RetryAfter)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Body)
		return
	}
	play(w, r, answer.Events)
}

func (s *Server) ask(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.N = len(s.seen)
	s.seen = append(s.seen, r)
	return s.model(r)
}

// play sends events, each at once.
func play(w http.ResponseWriter, r *http.Request, events []Event) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for _, e := range events {
		if e.Before != nil {
			e.Before(r.Context())
		}
		if e.Cut {
			panic(http.ErrAbortHandler)
		}
		if _, err := io.WriteString(w, "data: "+e.Data+"\n\n"); err != nil {
			return
		}
		if rc.Flush() != nil {
			return
		}
	}
}
