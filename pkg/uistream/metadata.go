package uistream

import (
	"bytes"
	"errors"

	"github.com/countersign/countersign/pkg/strictjson"
)

var errMetadata = errors.New("messageMetadata: must be an object: what each chunk says is merged into what was said before")

// metadata is what a chunk says of its message, nil for nothing, which null
// is, too. The SDK's client takes any value; of what is no object, merging
// would make nonsense there.
func (c Chunk) metadata() (strictjson.Raw, error) {
	value := bytes.TrimSpace(c.MessageMetadata)
	switch {
	case len(value) == 0 || string(value) == "null":
		return nil, nil
	case value[0] != '{':
		return nil, errMetadata
	}
	return strictjson.Raw(value), nil
}

// About gives the chunk that tells clients what this one says of its message,
// wherever the message itself begins and ends for them; ok is false where it
// says nothing.
func (c Chunk) About() (about Chunk, ok bool) {
	value, err := c.metadata()
	return Chunk{Type: MessageMetadata, MessageMetadata: harmless(value)}, value != nil && err == nil
}

// Metadata is what the step's chunks said of their message, in order.
func (s *Step) Metadata() []strictjson.Raw { return s.metadata }
