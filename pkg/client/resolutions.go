package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Resolution is what a person found out about a call whose outcome is
// unknown.
type Resolution struct {
	Outcome  string          `json:"outcome"`           // happened, did-not-happen, closed
	Output   json.RawMessage `json:"output,omitzero"`   // with happened: what the tool would have answered
	Evidence string          `json:"evidence,omitzero"` // how it is known; with happened it must be there
}

// Resolved is the resolution that stands.
type Resolved struct {
	Outcome    string    `json:"outcome"`
	Evidence   string    `json:"evidence,omitzero"`
	ResolvedBy string    `json:"resolvedBy"`
	ResolvedAt time.Time `json:"resolvedAt"`
	Channel    string    `json:"channel,omitzero"`
}

// Earlier is a call whose outcome is, or once was, unknown, and that another
// may repeat.
type Earlier struct {
	Call       string `json:"call"`
	State      string `json:"state"`
	Run        string `json:"run"`
	Resolution string `json:"resolution,omitzero"` // what a person found out about it
}

// ResolutionAnswer is what became of a resolution.
type ResolutionAnswer struct {
	Result string `json:"result"` // applied, already-applied
	Call   Call   `json:"call"`
	Turn   Turn   `json:"turn"`
	Topic  Topic  `json:"topic"`

	Raw json.RawMessage `json:"-"` // the whole document
}

// UnmarshalJSON keeps the whole document beside what is named.
func (a *ResolutionAnswer) UnmarshalJSON(raw []byte) error {
	type named ResolutionAnswer
	if err := json.Unmarshal(raw, (*named)(a)); err != nil {
		return err
	}
	a.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// ResolveCall says what became of a call whose outcome is unknown. The same
// resolution again is answered the same.
//
// Problems: not-found, not-permitted, invalid, attempt-may-be-alive (its
// RetryAfter says for how long), already-resolved, not-unknown.
func (c *Client) ResolveCall(ctx context.Context, id string, resolution Resolution) (ResolutionAnswer, error) {
	return send[ResolutionAnswer](ctx, c, request{
		method: http.MethodPost, path: path("v1", "calls", id, "resolution"), body: resolution, repeat: true,
	})
}
