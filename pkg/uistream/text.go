package uistream

import "fmt"

// openText begins a text or a reasoning, which grows under its id until it is
// ended.
func (s *Step) openText(c Chunk) error {
	kind := "text"
	if c.Type == ReasoningStart {
		kind = "reasoning"
	}
	key := kind + "\x00" + c.ID
	switch {
	case s.open[key] != nil:
		return fmt.Errorf("id: a %s of that id is open", kind)
	case s.called && kind == "text":
		return ErrTextFirst
	}
	p := &part{Type: kind, State: "streaming", ProviderMetadata: c.ProviderMetadata, growing: []byte{}}
	if kind == "reasoning" {
		p.ID = c.ID
	}
	if s.open == nil {
		s.open = map[string]*part{}
	}
	s.open[key] = p
	s.push(p)
	return nil
}

func (s *Step) growText(c Chunk) error {
	kind := "text"
	if c.Type == ReasoningDelta || c.Type == ReasoningEnd {
		kind = "reasoning"
	}
	key := kind + "\x00" + c.ID
	p := s.open[key]
	if p == nil {
		return fmt.Errorf("id: no %s of that id is open", kind)
	}
	if c.ProviderMetadata != nil {
		p.ProviderMetadata = c.ProviderMetadata
	}
	if c.Type == TextEnd || c.Type == ReasoningEnd {
		p.State = "done"
		delete(s.open, key)
		return nil
	}
	p.growing = append(p.growing, c.Delta...)
	return nil
}
