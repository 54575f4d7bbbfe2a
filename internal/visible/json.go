package visible

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// indent of one level in [JSON].
const indent = "  "

// JSON shows the JSON value raw over several lines. Numbers, the order of
// members and doubled names stay as they stand in raw. Escapes of characters
// that can be read are shown as the characters, so that nothing hides behind
// \u0072\u006d, and hidden characters are marks whichever way raw spells
// them. What is no JSON is shown as [Text].
func JSON(raw []byte) string {
	w := jsonView(raw)
	return w.out.String()
}

// CountJSON tells how many marks [JSON] writes for raw.
func CountJSON(raw []byte) int {
	w := jsonView(raw)
	return w.marks
}

// JSONLine is [JSON] on one line, without spaces between the tokens, for lists.
func JSONLine(raw []byte) string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Line(string(raw))
	}
	var w writer
	w.json(compact.String())
	return w.out.String()
}

func jsonView(raw []byte) *writer {
	w := &writer{keep: "\n\t"}
	var spread bytes.Buffer
	// Indent moves white space between tokens and touches nothing else.
	if err := json.Indent(&spread, bytes.TrimSpace(raw), "", indent); err != nil {
		w.text(string(raw))
		return w
	}
	w.json(spread.String())
	return w
}

// json writes JSON text. Backslashes occur only within its strings.
func (w *writer) json(s string) {
	for len(s) > 0 {
		if s[0] == '\\' {
			s = s[w.escape(s):]
			continue
		}
		s = s[w.next(s):]
	}
}

// escape writes the escape sequence that s begins with and tells its length
// in bytes. The short ones (\n, \") show what they are and stay.
func (w *writer) escape(s string) int {
	r, size := unescape(s)
	switch {
	case size == 0:
		w.out.WriteString(s[:2])
		return 2
	case r == '"' || r == '\\':
		w.out.WriteByte('\\')
		w.out.WriteRune(r)
	case hidden(r), r == '‹':
		// Even a line feed: spelled as \u000a it was meant to be missed.
		w.mark("U+%04X", r)
	default:
		w.out.WriteRune(r)
	}
	return size
}

// unescape reads \uXXXX, or a surrogate pair of them, at the start of s. Its
// size is 0 for every other escape; a lone surrogate is its own code point.
func unescape(s string) (rune, int) {
	first, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if second, ok := hex4(s[6:]); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, 12
		}
	}
	return first, 6
}

func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}
