package visible

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text shows s with every hidden character written as a mark. Line feeds and
// tabs stay.
func Text(s string) string {
	w := writer{keep: "\n\t"}
	w.text(s)
	return w.out.String()
}

// Line is [Text] for a place that is one line high: line feeds and tabs are
// marks too.
func Line(s string) string {
	var w writer
	w.text(s)
	return w.out.String()
}

// Count tells how many marks [Text] writes for s, for the warning on a card.
func Count(s string) int {
	w := writer{keep: "\n\t"}
	w.text(s)
	return w.marks
}

// writer collects the visible form and counts its marks.
type writer struct {
	out   strings.Builder
	keep  string // hidden characters that stay as they are
	marks int
}

func (w *writer) text(s string) {
	for len(s) > 0 {
		s = s[w.next(s):]
	}
}

// next writes the first character of s and tells its length in bytes.
func (w *writer) next(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		w.mark("0x%02X", rune(s[0]))
	case forged(s):
		w.mark("U+%04X", r)
	default:
		w.rune(r)
	}
	return size
}

// rune writes r, as a mark where it would not show.
func (w *writer) rune(r rune) {
	if hidden(r) && !strings.ContainsRune(w.keep, r) {
		w.mark("U+%04X", r)
		return
	}
	w.out.WriteRune(r)
}

func (w *writer) mark(format string, r rune) {
	w.marks++
	fmt.Fprintf(&w.out, "‹"+format+"›", r)
}

// forged tells whether s begins like a mark of ours: text may not pretend
// that something was found in it. A backslash may spell the rest of a mark as
// an escape of JSON, and counts.
func forged(s string) bool {
	rest, ok := strings.CutPrefix(s, "‹")
	if !ok {
		return false
	}
	for _, start := range []string{"U+", "0x", `\`, `U\`, `0\`} {
		if strings.HasPrefix(rest, start) {
			return true
		}
	}
	return false
}
