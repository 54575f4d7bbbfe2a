package dev

import (
	"fmt"
	"io"
	"time"

	"github.com/countersign/countersign/internal/devstate"
)

// printWelcome says where to look and what to type next.
func printWelcome(w io.Writer, o Options, s devstate.State, took time.Duration) error {
	program := o.Program
	if program == "" {
		program = "countersign"
	}
	_, err := fmt.Fprintf(w, `
Countersign is ready, in %.1f s. Everything is in %s.

  Look     %s/#key=%s
           (the page; it signs you in)

  Key      export COUNTERSIGN_URL=%s
           export COUNTERSIGN_API_KEY=%s

  Play     %s demo         a conversation, step by step
           %s inbox        what waits for a decision
           %s approve ID   or: deny ID --reason "..."

  Or make a card yourself:

curl -sS %s/v1/topics/hello/turns \
  -H "Authorization: Bearer %s" -H 'Content-Type: application/json' -d '
  {"parts": [{"type": "text", "text": "I will clean up."},
             {"type": "tool-workspace__delete_file", "toolCallId": "call_1", "state": "input-available",
              "input": {"path": "logs/2024-11.log"}}],
   "whileOpen": "parallel"}'

Ctrl-C stops everything; the same command starts it again with its data.
`, took.Seconds(), o.Dir, s.URL, s.APIKey, s.URL, s.APIKey, program, program, program, s.URL, s.APIKey)
	return err
}
