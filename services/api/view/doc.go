// Package view gives committed rows the shapes in which people and programs
// see them: topics, turns, cards, calls. Messages are pkg/uimessage's.
//
// It is pure: no I/O, no clock. What it shows is always what the rows say. It
// imports pkg/model and pkg/store's row types.
package view
