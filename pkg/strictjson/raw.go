package strictjson

import "bytes"

// Raw is one JSON value as it stood in the body, white space inside it
// included. A nil Raw is an absent value: give its field the option omitzero.
type Raw []byte

// MarshalJSON gives the bytes as they are, and null for a nil Raw. (Other
// encoders than [Marshal] compact what they get from here.)
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of value.
func (r *Raw) UnmarshalJSON(value []byte) error {
	*r = bytes.Clone(value)
	return nil
}

// String is the JSON text.
func (r Raw) String() string { return string(r) }
