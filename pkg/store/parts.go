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
