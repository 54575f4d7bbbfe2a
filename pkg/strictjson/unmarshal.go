package strictjson

import (
	"encoding"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Option loosens [Unmarshal] in one point.
type Option func(*settings)

type settings struct{ allowUnknown bool }

// AllowUnknownMembers passes over members that the type does not name, for
// documents that others define and extend.
func AllowUnknownMembers() Option {
	return func(s *settings) { s.allowUnknown = true }
}

// Unmarshal reads data, exactly one JSON value, into the value v points to.
// Names match to the letter. null is accepted only for pointers, interfaces
// and [Raw]: an absent member is left out. The error is an [*Error]; text
// that is malformed anywhere is [Malformed], whatever else is wrong with it.
func Unmarshal(data []byte, v any, options ...Option) error {
	var s settings
	for _, option := range options {
		option(&s)
	}
	if err := checkDepth(data, MaxDepth); err != nil {
		return err
	}
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(!s.allowUnknown), json.WithUnmarshalers(refuseNull))
	if err == nil {
		return nil
	}
	// The decoder stops at the first error of either kind. The whole text is
	// looked at again only now, so that a good body is read once.
	if err := Valid(data, MaxDepth); err != nil {
		return err
	}
	return mismatch(err)
}

var errNull = errors.New("null is no value")

// refuseNull stops null where the decoder would silently leave a zero:
// {"approved": null} is not a denial.
var refuseNull = json.UnmarshalFromFunc(func(decoder *jsontext.Decoder, target any) error {
	if t := reflect.TypeOf(target).Elem(); decoder.PeekKind() == 'n' && !takesNull(t) {
		return &json.SemanticError{JSONKind: 'n', GoType: t, Err: errNull}
	}
	return errors.ErrUnsupported // means: read it as usual
})

func takesNull(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8 && readsItself(t)
	}
	return false
}

var (
	textReader   = reflect.TypeFor[encoding.TextUnmarshaler]()
	valueReader  = reflect.TypeFor[json.Unmarshaler]()
	streamReader = reflect.TypeFor[json.UnmarshalerFrom]()
)

// readsItself tells whether t has its own way to be read.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(textReader) || p.Implements(valueReader) || p.Implements(streamReader)
}
