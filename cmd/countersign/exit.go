package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

// The exit codes, for scripts.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitConflict = 3 // another verdict stands, or the card changed
	exitClosed   = 4 // expired, lapsed, cancelled, superseded
)

// usageError is an error of who typed the command.
type usageError struct{ error }

func usagef(format string, values ...any) error {
	return usageError{fmt.Errorf(format, values...)}
}

// changedError is a card that is not the one the person looked at.
type changedError struct{ error }

// report prints err, if there is one, and gives the exit code for it.
func report(p process, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(p.err, "countersign: %s\n", visible.Text(err.Error()))
	if hint := hintFor(err); hint != "" {
		fmt.Fprintf(p.err, "countersign: %s\n", hint)
	}
	return codeOf(err)
}

func codeOf(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[changedError](err); ok {
		return exitConflict
	}
	problem, ok := errors.AsType[*client.Problem](err)
	switch {
	case !ok:
		return exitError
	case problem.Status == http.StatusConflict, problem.Status == http.StatusPreconditionFailed:
		return exitConflict
	case problem.Status == http.StatusGone:
		return exitClosed
	}
	return exitError
}

// hintFor says what to do about the problems that a person can mend.
func hintFor(err error) string {
	problem, ok := errors.AsType[*client.Problem](err)
	switch {
	case !ok:
		return ""
	case problem.Status == http.StatusUnauthorized:
		return "the key is not known there; set COUNTERSIGN_API_KEY, or --key"
	case problem.Name() == "attempt-may-be-alive":
		return fmt.Sprintf("try again in %s", problem.RetryAfter)
	case problem.Status == http.StatusPreconditionFailed:
		return "look at the card again with `countersign show`, then decide"
	}
	return ""
}
