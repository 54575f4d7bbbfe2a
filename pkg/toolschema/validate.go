package toolschema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Violation is one way in which an input does not fit its schema.
type Violation struct {
	// Pointer is the place in the input, a JSON pointer (RFC 6901); empty for
	// the whole of it.
	Pointer string
	// Detail is a short sentence about the rule. It never repeats the value.
	Detail string
}

// Validate gives what is wrong with an input, ordered by place and bounded in
// number and size; nothing when it fits. The input is any JSON text.
func (s *Schema) Validate(input []byte) []Violation {
	doc, err := decode(input)
	if err != nil {
		return []Violation{{Detail: clip(err.Error(), maxDetail)}}
	}
	if s.compiled == nil {
		return nil
	}
	err = s.run(doc)
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return violations(invalid)
	}
	return []Violation{{Detail: clip(err.Error(), maxDetail)}}
}

// run validates within the budget. Whatever the library does on a hostile
// schema ends as an error.
func (s *Schema) run(doc any) (err error) {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.meter.left = maxEvaluations
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exhausted:
			err = errors.New("cannot be checked: the schema takes too much work for this input")
		default:
			err = fmt.Errorf("cannot be checked: %v", r)
		}
	}()
	return s.compiled.Validate(doc)
}
