package toolschema

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxSchemaBytes bounds a schema; the largest of public MCP servers are a
	// tenth of it.
	MaxSchemaBytes = 256 << 10
	// location is where a schema stands for the references within it. Nothing
	// can be loaded from its scheme.
	location = "schema:///tool"
)

// Schema is a compiled schema, safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema // nil accepts anything
	meter    *meter
}

// Compile reads a schema. The error says what is wrong with it, and where.
func Compile(schema []byte) (s *Schema, err error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		return &Schema{}, nil
	}
	if len(schema) > MaxSchemaBytes {
		return nil, fmt.Errorf("the schema has %d bytes; at most %d are allowed", len(schema), MaxSchemaBytes)
	}
	doc, err := decode(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema %w", err)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("the schema must be a JSON object or a boolean")
	}
	// The schema is a stranger's: should the library fail on it, that is the
	// schema's error and not the process's end.
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the schema cannot be compiled: %v", r)
		}
	}()
	return compile(doc)
}

func compile(doc any) (*Schema, error) {
	m := &meter{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(denyAll{})
	c.RegisterVocabulary(m.vocabulary())
	c.AssertVocabs()
	if err := c.AddResource(location, doc); err != nil {
		return nil, explain(err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, explain(err)
	}
	return &Schema{compiled: compiled, meter: m}, nil
}

// denyAll is the loader that loads nothing.
type denyAll struct{}

var errOutside = errors.New("references outside of the schema are not followed; move what it needs into $defs")

func (denyAll) Load(string) (any, error) { return nil, errOutside }

// explain turns the library's errors into sentences that name no internal
// location.
func explain(err error) error {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("the schema refers to %q: %w", clip(trimLocation(load.URL), maxName), errOutside)
	}
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](bad.Err); ok {
			if v := violations(invalid); len(v) > 0 {
				return fmt.Errorf("the schema is not a valid JSON Schema: at %q: %s", v[0].Pointer, v[0].Detail)
			}
		}
	}
	return fmt.Errorf("the schema cannot be compiled: %s", clip(trimLocation(err.Error()), maxDetail))
}
