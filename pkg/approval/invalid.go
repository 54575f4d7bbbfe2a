package approval

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/model"
)

// Fault is one thing that is wrong with a request.
type Fault struct {
	Pointer string // RFC 6901, into the request's body
	Detail  string // a sentence without values from the body
}

// Invalid is a request that is well-formed but cannot be accepted. It is a
// [model.ErrInvalid].
type Invalid struct{ Faults []Fault }

func (e *Invalid) Error() string {
	var out []string
	for _, f := range e.Faults {
		out = append(out, f.Pointer+": "+f.Detail)
	}
	return strings.Join(out, "; ")
}

func (e *Invalid) Unwrap() error { return model.ErrInvalid }

// maxFaults bounds an answer: who sends a body with more mistakes learns
// nothing from the rest of them.
const maxFaults = 20

// faults collects what is wrong with one request.
type faults struct{ list []Fault }

func (f *faults) add(pointer, format string, args ...any) {
	if len(f.list) < maxFaults {
		f.list = append(f.list, Fault{pointer, fmt.Sprintf(format, args...)})
	}
}

// check adds err, if there is one.
func (f *faults) check(pointer string, err error) {
	if err != nil {
		f.add(pointer, "%s", err)
	}
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Invalid{f.list}
}

// NewInvalid is a request with one fault.
func NewInvalid(pointer, detail string) error { return &Invalid{[]Fault{{pointer, detail}}} }
