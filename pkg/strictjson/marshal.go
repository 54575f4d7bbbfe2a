package strictjson

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Marshal writes v. Every [Raw] in it stands in the output byte by byte, maps
// are sorted by key, and <, > and & are left alone: the output is JSON, not
// HTML. A Raw that is not JSON, and a string that is not UTF-8, is an error.
func Marshal(v any) ([]byte, error) {
	var cut cuts
	encoded, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(cut.take)))
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return cut.fill(encoded), nil
}

// cuts are the places of Raw values. The encoder would rewrite the white
// space of a raw value, and with it the bytes that a digest covers; so each
// is first written as a single 0, whose place is kept, and filled in later.
type cuts []place

type place struct {
	offset int64 // of the 0 in the encoder's output
	raw    Raw
}

func (c *cuts) take(encoder *jsontext.Encoder, raw Raw) error {
	if raw == nil {
		return encoder.WriteToken(jsontext.Null)
	}
	// Results of tools get here too: the grammar must hold, or the document
	// around it would break; doubled names in them are their own business.
	ok := jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if !ok {
		return fmt.Errorf("a raw value of %d bytes is not JSON", len(raw))
	}
	if err := encoder.WriteToken(jsontext.Int(0)); err != nil {
		return err
	}
	*c = append(*c, place{encoder.OutputOffset() - 1, raw})
	return nil
}

func (c cuts) fill(encoded []byte) []byte {
	if len(c) == 0 {
		return encoded
	}
	size := len(encoded)
	for _, place := range c {
		size += len(place.raw)
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	done := int64(0)
	for _, place := range c {
		out.Write(encoded[done:place.offset])
		out.Write(place.raw)
		done = place.offset + 1
	}
	out.Write(encoded[done:])
	return out.Bytes()
}
