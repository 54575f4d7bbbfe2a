package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an answer that is not 2xx (RFC 9457).
type Problem struct {
	Type   string         `json:"type"` // "/problems/already-decided"
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []ProblemError `json:"errors"`

	Raw        json.RawMessage `json:"-"` // the whole document, with the object that explains it
	RetryAfter time.Duration   `json:"-"` // what the server asked to wait, or 0
}

// ProblemError is one thing that is wrong with a request's body.
type ProblemError struct {
	Pointer string `json:"pointer"` // RFC 6901
	Detail  string `json:"detail"`
}

// Name is the last part of the type: "already-decided".
func (p *Problem) Name() string {
	return p.Type[strings.LastIndexByte(p.Type, '/')+1:]
}

func (p *Problem) Error() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s", p.Status, p.Name())
	if p.Detail != "" {
		out.WriteString(": " + p.Detail)
	}
	for _, e := range p.Errors {
		fmt.Fprintf(&out, "; %s: %s", e.Pointer, e.Detail)
	}
	return out.String()
}

// Member reads one member of the document into v, such as "approval", and
// tells whether it is there.
func (p *Problem) Member(name string, v any) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(p.Raw, &members) != nil || members[name] == nil {
		return false
	}
	return json.Unmarshal(members[name], v) == nil
}

// Is tells whether err is the problem of that name, such as "turn-open".
func Is(err error, name string) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Name() == name
}

// problem reads an answer that is not 2xx. Something between us and the
// server may have written it, so nothing about its body is certain.
func problem(response *http.Response, body []byte) *Problem {
	var p Problem
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		p = Problem{Detail: "the answer is no problem document; is this the address of a Countersign?"}
	}
	p.Status = response.StatusCode
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	p.Raw = body
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(min(seconds, 86_400)) * time.Second
	}
	return &p
}
