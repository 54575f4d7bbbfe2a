// Package view gives committed rows the shapes in which people and programs
// see them: messages as the AI SDK's UIMessages, topics, turns, cards.
//
// It is pure: no I/O, no clock. What it shows is always what the rows say; it
// promises that every message passes the AI SDK's validation and that inputs
// and outputs keep their exact bytes. It imports pkg/model and pkg/store's
// row types.
package view
