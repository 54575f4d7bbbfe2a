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

func pad(s string, to int) string {
	return s + strings.Repeat(" ", max(0, to-columns(s)))
}
