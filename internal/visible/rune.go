package visible

import (
	"unicode"

	"github.com/countersign/countersign/pkg/model"
)

// hidden tells whether r must be written as a mark. It is wider than
// [model.Invisible], which says what may not stand in an id: here everything
// counts that a reader could not tell from a plain space or from nothing.
func hidden(r rune) bool {
	switch {
	case r == ' ':
		return false
	case model.Invisible(r), !unicode.IsPrint(r):
		// Not printable: controls, formats, surrogates, private use,
		// unassigned code points, and every space but the plain one.
		return true
	}
	return blank(r)
}

// blank lists the characters that count as printable and still draw nothing.
func blank(r rune) bool {
	switch {
	case r == '\u2800', r == '\u17b4', r == '\u17b5', r == '\U0001d159':
		// Braille blank, Khmer inherent vowels, musical null notehead.
		return true
	case r >= 0x180b && r <= 0x180f:
		return true // Mongolian variation selectors
	}
	return false
}
