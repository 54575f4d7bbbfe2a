package store

import "encoding/json"

// Parts are a turn's parts as they are stored: the exact bytes of each, and
// null where a call's part stands, which is drawn from the call's row.
type Parts []json.RawMessage

// Encode gives the stored JSON array.
func (p Parts) encode() []byte {
	out := []byte{'['}
	for i, part := range p {
		if i > 0 {
			out = append(out, ',')
		}
		if part == nil {
			out = append(out, "null"...)
		} else {
			out = append(out, part...)
		}
	}
	return append(out, ']')
}

func decodeParts(raw []byte) (Parts, error) {
	var p Parts
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	for i := range p {
		if string(p[i]) == "null" {
			p[i] = nil
		}
	}
	return p, nil
}

// Metadata is what a turn's stream said of its message, in order: JSON
// objects, their exact bytes.
type Metadata []json.RawMessage

func (m Metadata) encode() []byte {
	if m == nil {
		return nil
	}
	return Parts(m).encode()
}

func decodeMetadata(raw []byte) (m Metadata, err error) {
	if raw != nil {
		err = json.Unmarshal(raw, &m)
	}
	return m, err
}
