package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"
)

// content hashes what a request says, each field with its length before it,
// so that no two different requests hash alike. What names the turn, and how
// it is to get in, is not part of what it says.
type content struct{ hash.Hash }

func newContent(kind string) content {
	c := content{sha256.New()}
	c.field([]byte(kind))
	return c
}

func (c content) field(value []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(value)))
	c.Write(length[:])
	c.Write(value)
}

func (c content) texts(values ...string) {
	for _, v := range values {
		c.field([]byte(v))
	}
}

func (c content) sum() []byte { return c.Sum(nil) }

// content covers all but whileOpen, and the identity: topic, message and
// continued turn.
func (r TurnRequest) content() []byte {
	c := newContent("turn-v1")
	c.texts(r.RequestedBy, r.Execution, r.Executor, r.ExpiresIn, strconv.FormatBool(r.Live), r.Lease)
	if s := r.Sink; s != nil {
		c.texts("sink", s.Type, s.URL, s.Name, s.AcceptWithin, s.Model, s.System)
		c.texts(s.Tools...)
	}
	if h := r.Hold; h != nil {
		c.texts("hold", h.Lease, h.OnLapse)
	}
	c.texts("parts")
	for _, p := range r.Parts {
		c.field(p)
	}
	return c.sum()
}

func (r FinishRequest) content() []byte {
	c := newContent("finish-v1")
	c.texts(r.Executor, r.ExpiresIn)
	if r.Error != nil {
		c.texts("error", *r.Error)
	}
	c.texts("parts")
	for _, p := range r.Parts {
		c.field(p)
	}
	if len(r.about) > 0 {
		c.texts("about")
		for _, said := range r.about {
			c.field(said)
		}
	}
	return c.sum()
}

// content covers what was asked and by whom; the name of the answer is what
// it is compared under.
func (r DecisionRequest) content(approval, subject string) []byte {
	c := newContent("decision-v1")
	c.texts(approval, subject, strconv.FormatBool(*r.Approved), r.Reason, r.Digest, strconv.FormatBool(r.UpdatedInput != nil))
	c.field(r.UpdatedInput)
	return c.sum()
}
