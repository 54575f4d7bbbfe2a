package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type approveCmd struct {
	people
	ID     string `arg:"" help:"The card: its id, its call's id, or the beginning or end of one."`
	Reason string `help:"Why; kept with the decision."`
	Input  string `help:"Run with the JSON in this file instead (- for standard input)." placeholder:"FILE"`
	Digest string `help:"Only if the card still has this digest, or one that begins so." placeholder:"DIGEST"`
}

// Help is shown below the flags' help.
func (approveCmd) Help() string {
	return `The card is shown, and exactly what was shown is approved: if its input or its tool changed in between, nothing
happens and the exit code is 3. To approve what an earlier "show" printed, pass its digest.

Examples:
  countersign approve 4f2a91c0
  countersign approve 4f2a91c0 --digest 9c1e55 --reason 'checked with Ann'
  echo '{"path": "old.log"}' | countersign approve 4f2a91c0 --input -`
}

func (cmd *approveCmd) Run(ctx context.Context, p process) error {
	input, err := readJSON(cmd.Input, p.in, "input")
	if err != nil {
		return err
	}
	return answer{cmd.people, cmd.ID, true, cmd.Reason, cmd.Digest, input}.give(ctx, p)
}

// maxInput is the largest input that a server takes, in bytes. An output that
// a person has is bounded by the same.
const maxInput = 256 << 10

// readJSON reads JSON from a file, or with "-" from standard input; no name is
// no JSON. what it is to be stands in errors.
func readJSON(name string, standard io.Reader, what string) (json.RawMessage, error) {
	if name == "" {
		return nil, nil
	}
	source := standard
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer file.Close()
		source = file
	}
	input, err := io.ReadAll(io.LimitReader(source, maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the %s: %w", what, err)
	case len(input) > maxInput:
		return nil, usagef("the %s is larger than %d bytes", what, maxInput)
	case !json.Valid(input):
		return nil, usagef("the %s from %s is not JSON", what, name)
	}
	return input, nil
}
