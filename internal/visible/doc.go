// Package visible turns untrusted text into text that shows everything it
// holds.
//
// It owns the one rule by which tool names, arguments, reasons and file names
// reach a person's eyes, on a terminal, on a page or in a log. A person
// approves what they see, so nothing may hide: terminal escapes that repaint a
// line, marks that reverse the reading direction, characters of no width and
// bytes that are no text at all are each written as a mark such as ‹U+202E› or
// ‹0xFF›. A mark that the text itself tries to forge is marked as well, so a
// reader can always tell one from the other.
//
// What it returns holds no control, format or bidirectional character but
// line feed and tab ([Text], [JSON]) or none at all ([Line]). It does not
// escape HTML: html/template does that for every page.
//
// It imports model, for the list of characters that are invisible, and the
// standard library.
package visible
