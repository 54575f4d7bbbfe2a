package terminal

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// columns tells how many columns of a terminal s takes.
func columns(s string) int {
	total := 0
	for _, r := range s {
		total += runeColumns(r)
	}
	return total
}

func runeColumns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// shorten cuts s to at most limit columns, with an ellipsis where it was cut.
func shorten(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	var out strings.Builder
	used := 1 // the ellipsis
	for _, r := range s {
		if used += runeColumns(r); used > limit {
			break
		}
		out.WriteRune(r)
	}
	out.WriteRune('…')
	return out.String()
}

// wrap cuts s into pieces of at most limit columns, wherever that is; a limit
// below 8 is none.
func wrap(s string, limit int) []string {
	var pieces []string
	start, used := 0, 0
	for i, r := range s {
		w := tabbed(r)
		if used+w > limit && limit >= 8 && i > start {
			pieces = append(pieces, s[start:i])
			start, used = i, 0
		}
		used += w
	}
	return append(pieces, s[start:])
}

// tabbed is runeColumns with the most that a tab can take.
func tabbed(r rune) int {
	if r == '\t' {
		return 8
	}
	return runeColumns(r)
}

func pad(s string, to int) string {
	return s + strings.Repeat(" ", max(0, to-columns(s)))
}
