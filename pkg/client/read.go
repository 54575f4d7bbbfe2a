package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// ReadOption changes a read.
type ReadOption func(*request)

// Wait lets the server hold the answer back until something changes, for d at
// most (and never more than 60 s). After that it answers with what there is.
func Wait(d time.Duration) ReadOption {
	return func(r *request) {
		r.wait = min(d, time.Minute)
		r.set("wait", d.String())
	}
}

// MinVersion refuses an answer that is older than that version of the topic.
func MinVersion(version int64) ReadOption {
	return func(r *request) { r.set("minVersion", strconv.FormatInt(version, 10)) }
}

func (r *request) set(name, value string) {
	if r.query == nil {
		r.query = url.Values{}
	}
	r.query.Set(name, value)
}

func read[T any](ctx context.Context, c *Client, path string, query url.Values, options []ReadOption) (T, error) {
	r := get(path, query)
	for _, option := range options {
		option(&r)
	}
	return send[T](ctx, c, r)
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"nextCursor,omitzero"` // "" after the last part
}

// Paging selects a part of a list. The zero value is the first part, in the
// server's own size.
type Paging struct {
	Limit  int
	Cursor string
}

func (p Paging) query(filters ...string) url.Values {
	query := url.Values{}
	if p.Limit > 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	filters = append(filters, "cursor", p.Cursor)
	for i := 0; i < len(filters); i += 2 {
		if filters[i+1] != "" {
			query.Set(filters[i], filters[i+1])
		}
	}
	return query
}

// All walks over a list from its first page on. An error ends it.
func All[T any](page func(cursor string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			got, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range got.Items {
				if !yield(item, nil) {
					return
				}
			}
			if got.NextCursor == "" || got.NextCursor == cursor {
				return
			}
			cursor = got.NextCursor
		}
	}
}
