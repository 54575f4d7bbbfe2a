package uimessage

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// object writes a JSON object member by member. It exists because the
// encoders rewrite raw values (white space, escapes), and an input must be
// shown in exactly the bytes that its digest covers.
type object struct{ out bytes.Buffer }

func (o *object) name(name string) {
	if o.out.Len() == 0 {
		o.out.WriteByte('{')
	} else {
		o.out.WriteByte(',')
	}
	o.out.Write(quote(name))
	o.out.WriteByte(':')
}

// raw writes a value as it is; nothing at all is null.
func (o *object) raw(name string, value []byte) {
	o.name(name)
	if len(value) == 0 {
		value = []byte("null")
	}
	o.out.Write(value)
}

func (o *object) text(name, value string)      { o.raw(name, quote(value)) }
func (o *object) flag(name string, value bool) { o.raw(name, strconv.AppendBool(nil, value)) }
func (o *object) number(name string, n int64)  { o.raw(name, strconv.AppendInt(nil, n, 10)) }

func (o *object) close() json.RawMessage {
	if o.out.Len() == 0 {
		o.out.WriteByte('{')
	}
	o.out.WriteByte('}')
	return o.out.Bytes()
}

// array joins values as they are.
func array(values []json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, value := range values {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(value)
	}
	out.WriteByte(']')
	return out.Bytes()
}

// quote is a JSON string that leaves <, > and & alone. What is not UTF-8
// becomes U+FFFD.
func quote(s string) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string can always be encoded
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
