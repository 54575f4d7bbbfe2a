package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may nest in what [Unmarshal] reads:
// deeper text is an attack on whoever walks it recursively.
const MaxDepth = 64

// Valid tells whether raw is exactly one strict JSON value that nests at most
// depth levels. Its error is an [*Error] of kind [Malformed].
func Valid(raw []byte, depth int) error {
	if err := checkDepth(raw, depth); err != nil {
		return err
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := decoder.ReadValue(); err != nil {
		return syntax(err)
	}
	switch _, err := decoder.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	default:
		return malformed("", fmt.Sprintf("something follows the JSON value, at byte %d", decoder.InputOffset()))
	}
}

// checkDepth counts brackets outside strings. For text that is not JSON it
// may count wrongly; such text is refused by the decoder in any case.
func checkDepth(raw []byte, limit int) error {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return malformed("", fmt.Sprintf("nests deeper than %d levels, at byte %d", limit, i))
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// syntax translates an error of the decoder.
func syntax(err error) *Error {
	var found *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return malformed("", "is empty; a JSON value is expected")
	case !errors.As(err, &found):
		return malformed("", "cannot be read as JSON")
	}
	pointer := string(found.JSONPointer)
	switch {
	case errors.Is(found.Err, jsontext.ErrDuplicateName):
		return malformed(pointer, "this name is given twice in one object")
	case errors.Is(found.Err, io.ErrUnexpectedEOF):
		return malformed(pointer, "ends in the middle")
	}
	return malformed(pointer, fmt.Sprintf("%v, at byte %d", found.Err, found.ByteOffset))
}
