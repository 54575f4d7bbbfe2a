package visible

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// SafeJSON writes the hidden characters of the JSON text raw as \u escapes:
// the same document for a program, and harmless for a terminal that it is
// printed on. Line feeds and tabs stay, which JSON allows between tokens only;
// carriage returns, which it allows there too, are left out.
func SafeJSON(raw []byte) []byte {
	var out bytes.Buffer
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		switch {
		case r == '\n', r == '\t', !hidden(r):
			out.Write(raw[:size])
		case r != '\r':
			writeEscape(&out, r)
		}
		raw = raw[size:]
	}
	return out.Bytes()
}

func writeEscape(out *bytes.Buffer, r rune) {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
		return
	}
	fmt.Fprintf(out, `\u%04x`, r)
}
