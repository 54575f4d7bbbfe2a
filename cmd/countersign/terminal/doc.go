// Package terminal draws what the operator's command shows to people.
//
// It owns tables that fit the window, cards, colours, and the way times and
// ids are written. Everything that came from a server passes internal/visible
// here, on its way to the screen, so that no command can forget it; the only
// control characters in the output are the line feeds and colours of this
// package.
//
// Lists may shorten, with an ellipsis, so that a row stays a row. A card
// never does: whoever approves has seen everything. What came from a model
// stands behind a bar at the left edge, so that it cannot imitate the lines
// around it, and below what can be done about it, so that its length cannot
// push that out of sight.
//
// It imports pkg/client for the shapes and internal/visible.
package terminal
