package store

import "strings"

// storable makes any text one that Postgres takes: it refuses NUL and bytes
// that are not UTF-8, and the text of a failing tool must not be able to
// keep its result from being recorded. What was there is shown, not dropped.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", `\u0000`)
}
