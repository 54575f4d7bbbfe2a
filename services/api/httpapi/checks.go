package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/api/view"
)

// checks collects what is wrong with a piece of configuration.
type checks struct{ faults []approval.Fault }

func (c *checks) add(pointer, detail string) {
	c.faults = append(c.faults, approval.Fault{Pointer: pointer, Detail: detail})
}

func (c *checks) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	return &approval.Invalid{Faults: c.faults}
}

// id checks an id; with no pointer it is the name within the path.
func (c *checks) id(pointer, id string) {
	if err := model.CheckID(id); err != nil {
		if pointer == "" {
			c.add("", "the name within the path "+err.Error())
		} else {
			c.add(pointer, err.Error())
		}
	}
}

func (c *checks) prose(pointer, text string, most int) {
	if len(text) > most {
		c.add(pointer, fmt.Sprintf("must not be longer than %d bytes", most))
	}
	if err := model.CheckProse(text); err != nil {
		c.add(pointer, err.Error())
	}
}

// word reads one of several words; "" is the first.
func (c *checks) word(pointer, text string, known ...string) string {
	if text == "" {
		return known[0]
	}
	if !slices.Contains(known, text) {
		c.add(pointer, "must be one of "+strings.Join(known, ", "))
	}
	return text
}

func (c *checks) duration(pointer, text string, otherwise, most time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > most {
		c.add(pointer, fmt.Sprintf(`must be a duration between "1s" and %q`, most))
	}
	return d
}

// target checks a URL that this installation would call.
func (c *checks) target(pointer, url string) {
	if err := approval.CheckTarget(url); err != nil {
		c.add(pointer, err.Error())
	}
}

// ownHeaders are those that Countersign or the connection itself sets.
var ownHeaders = []string{
	"connection", "content-length", "content-type", "host", "idempotency-key", "te", "trailer", "traceparent", "tracestate",
	"transfer-encoding", "upgrade",
}

// maxSecret bounds one header's or variable's value, in bytes.
const maxSecret = 8 << 10

// headers checks headers that go with every call; their values are secrets.
func (c *checks) headers(pointer string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lower := strings.ToLower(name)
		switch {
		case !isToken(name):
			c.add(pointer, "must have names that are HTTP header names")
		case slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "countersign-"):
			c.add(pointer, "must not set "+name+", which Countersign sets itself")
		}
		c.secret(pointer, headers[name])
	}
}

// secret checks a value that is stored and never shown again.
func (c *checks) secret(pointer, value string) {
	switch {
	case value == view.Mask:
		c.add(pointer, "must have the values themselves, not the mask that stands for them in answers")
	case len(value) > maxSecret:
		c.add(pointer, fmt.Sprintf("must have values of at most %d bytes", maxSecret))
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		c.add(pointer, "must have values without control characters")
	}
}

func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
