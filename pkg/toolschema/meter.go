package toolschema

import (
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxEvaluations bounds how many subschemas one validation may visit. A
// schema whose branches refer to each other can double the work with every
// level of the input; an honest one visits a few per value.
const maxEvaluations = 1_000_000

// meter counts the evaluations of one validation at a time. It is a keyword
// of a vocabulary of our own that every subschema carries without naming it.
type meter struct {
	mu   sync.Mutex // held for the length of a validation
	left int
}

type exhausted struct{}

func (m *meter) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "schema:///meter",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			return m, nil
		},
	}
}

// Validate is called by the library for each visited subschema.
func (m *meter) Validate(*jsonschema.ValidatorContext, any) {
	if m.left--; m.left < 0 {
		panic(exhausted{})
	}
}
