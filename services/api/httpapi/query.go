package httpapi

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
)

// The sizes of a page.
const (
	defaultPage = 50
	maxPage     = 200
)

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"nextCursor,omitzero" doc:"Absent after the last part."`
}

var paging = []string{"limit", "cursor"}

// limit reads how many items a page may have.
func (r *request) limit() (int, error) {
	text := r.param("limit")
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, approval.NewInvalid("?limit", "must be between 1 and "+strconv.Itoa(maxPage))
	}
	return n, nil
}

// paging reads how many items a page may have, and the last item before it,
// or "".
func (r *request) paging() (limit int, after string, err error) {
	if limit, err = r.limit(); err != nil {
		return 0, "", err
	}
	text := r.param("cursor")
	if text == "" {
		return limit, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || model.CheckID(string(raw)) != nil {
		return 0, "", errCursor
	}
	return limit, string(raw), nil
}

var errCursor = approval.NewInvalid("?cursor", "is none that this list gave")

// idAfter is the last item before a page where items are known by their ids.
func idAfter[ID ~string](after string) (ID, error) {
	if after == "" {
		return "", nil
	}
	id, err := model.ParseUUID[ID](after)
	if err != nil {
		return "", errCursor
	}
	return id, nil
}

func cursorOf(item string) string { return base64.RawURLEncoding.EncodeToString([]byte(item)) }

// page cuts a list that was read with one item more than asked for, and gives
// the cursor behind the last item that stays.
func page[T, V any](items []T, limit int, show func(T) V, cursor func(T) string) Page[V] {
	p := Page[V]{Items: []V{}}
	if len(items) > limit {
		items = items[:limit]
		p.NextCursor = cursor(items[limit-1])
	}
	for _, item := range items {
		p.Items = append(p.Items, show(item))
	}
	return p
}

// word reads a filter that is one of several words.
func (r *request) word(name string, known ...string) (string, error) {
	text := r.param(name)
	if text != "" && !slices.Contains(known, text) {
		return "", approval.NewInvalid("?"+name, "must be one of "+strings.Join(known, ", "))
	}
	return text, nil
}

// id reads a filter that is an id of a caller's choice.
func (r *request) id(name string) (string, error) {
	text := r.param(name)
	if text == "" {
		return "", nil
	}
	if err := model.CheckID(text); err != nil {
		return "", approval.NewInvalid("?"+name, err.Error())
	}
	return text, nil
}

// maxWait is the longest time that an answer is held back.
const maxWait = time.Minute

// wait reads how long the answer may be held back; 0 is not at all.
func (r *request) wait() (time.Duration, error) {
	text := r.param("wait")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, approval.NewInvalid("?wait", `must be a duration such as "30s"`)
	}
	return min(d, maxWait), nil
}

// version reads a version of a topic; 0 is none.
func (r *request) version(name string) (int64, error) {
	text := r.param(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, approval.NewInvalid("?"+name, "must be a version: a whole number")
	}
	return n, nil
}

// wholePage pages through a list that is short enough to be read whole.
func (r *request) wholePage(cut func(limit int, after string) any) (answer, error) {
	limit, after, err := r.paging()
	if err != nil {
		return answer{}, err
	}
	return ok(cut(limit, after)), nil
}

// behind gives the items after the one that has a name, in the list's order.
func behind[T any](items []T, name string, nameOf func(T) string) []T {
	if name == "" {
		return items
	}
	for i, item := range items {
		if nameOf(item) == name {
			return items[i+1:]
		}
	}
	return nil
}
