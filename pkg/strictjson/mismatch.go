package strictjson

import (
	"errors"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// mismatch translates an error about well-formed JSON that does not fit. It
// builds its own sentence: the decoder's would quote the value.
func mismatch(err error) *Error {
	var found *json.SemanticError
	if !errors.As(err, &found) {
		return &Error{Kind: Invalid, Detail: "cannot be read into what is expected here"}
	}
	return &Error{Kind: Invalid, Pointer: string(found.JSONPointer), Detail: describe(found)}
}

func describe(found *json.SemanticError) string {
	wanted := expected(found.GoType)
	switch {
	case errors.Is(found.Err, json.ErrUnknownName):
		return "is not a member that is known here"
	case errors.Is(found.Err, errNull):
		return "must be " + wanted + ", not null; leave it out if there is none"
	case errors.Is(found.Err, strconv.ErrRange):
		return "is too large or too small for " + wanted
	case errors.Is(found.Err, strconv.ErrSyntax):
		return "must be " + wanted
	case ownWords(found):
		return found.Err.Error()
	case found.JSONKind != 0:
		return "must be " + wanted + ", not " + kindName(found.JSONKind)
	}
	return "must be " + wanted
}

// ownWords tells whether the error was written by a type that reads itself;
// the types of the standard library quote what they were given.
func ownWords(found *json.SemanticError) bool {
	t := found.GoType
	return found.Err != nil && t != nil && readsItself(t) && t.PkgPath() != "time"
}

// expected names what fits t in words of JSON.
func expected(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return "another value"
	case t == reflect.TypeFor[time.Time]():
		return "a time in RFC 3339"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 {
		return "a whole number"
	}
	return "another value"
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{', '}':
		return "an object"
	}
	return "an array"
}
