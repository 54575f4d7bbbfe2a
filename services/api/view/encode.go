package view

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/strictjson"
)

// encode writes a shape of this package. Raw values in them were checked when
// they came in, so a failure is an error of this program.
func encode(v any) json.RawMessage {
	out, err := strictjson.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("view: %v", err))
	}
	return out
}

// utc is a time as answers show it; the zero time is absent.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
