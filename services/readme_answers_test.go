package services

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// answers compares what the README says with what was answered. An id of the
// README stands for one id throughout; times stand for any.
type answers map[string]string

// left out is what … stands for in the README's JSON: further members, or a
// value.
const leftOut = "…"

var (
	furtherMembers = regexp.MustCompile(`([{,]\s*)…`)
	id             = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

func (a answers) compare(t *testing.T, want block, got string) {
	t.Helper()
	text := strings.ReplaceAll(want.text, "[…]", `["…"]`)
	text = furtherMembers.ReplaceAllString(text, `$1"…": 0`)
	text = regexp.MustCompile(`: …`).ReplaceAllString(text, `: "…"`)
	var wanted, answered any
	if err := json.Unmarshal([]byte(text), &wanted); err != nil {
		t.Fatalf("README line %d: %v in %s", want.line, err, text)
	}
	if err := json.Unmarshal([]byte(got), &answered); err != nil {
		t.Fatalf("README line %d: the answer is %q: %v", want.line, got, err)
	}
	if err := a.match(wanted, answered); err != nil {
		t.Errorf("README line %d: %v\nthe answer is %s", want.line, err, got)
	}
}

func (a answers) match(want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		return a.object(want, got)
	case []any:
		return a.list(want, got)
	case string:
		return a.text(want, got)
	}
	if want != got {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}

func (a answers) object(want map[string]any, got any) error {
	answered, is := got.(map[string]any)
	if !is {
		return fmt.Errorf("%v, want an object", got)
	}
	_, more := want[leftOut]
	for name, value := range want {
		if name == leftOut {
			continue
		}
		if _, there := answered[name]; !there {
			return fmt.Errorf("%s is missing", name)
		}
		if err := a.match(value, answered[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name := range answered {
		if _, said := want[name]; !said && !more {
			return fmt.Errorf("%s is not in the README", name)
		}
	}
	return nil
}

func (a answers) list(want []any, got any) error {
	answered, is := got.([]any)
	if !is {
		return fmt.Errorf("%v, want a list", got)
	}
	if len(want) == 1 && want[0] == leftOut {
		return nil
	}
	if len(want) != len(answered) {
		return fmt.Errorf("%d items, want %d", len(answered), len(want))
	}
	for i := range want {
		if err := a.match(want[i], answered[i]); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

func (a answers) text(want string, got any) error {
	answered, isText := got.(string)
	_, isTime := time.Parse(time.RFC3339, want)
	switch {
	case want == leftOut:
		return nil
	case !isText:
		return fmt.Errorf("%v, want a text", got)
	case isTime == nil:
		_, err := time.Parse(time.RFC3339, answered)
		return err
	case id.MatchString(want) && id.MatchString(answered):
		if known, seen := a[want]; seen && known != answered {
			return fmt.Errorf("the id %s, which was %s before", answered, known)
		}
		a[want] = answered
		return nil
	case want != answered:
		return fmt.Errorf("%q, want %q", answered, want)
	}
	return nil
}
