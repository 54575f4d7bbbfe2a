// Package uimessage shows committed rows as the AI SDK's UIMessages: what a
// message's turns were registered with, and each call's part as its row is
// now.
//
// It is pure: no I/O, no clock. It promises that every message passes the AI
// SDK's validation and that inputs and outputs keep their exact bytes. The api
// gives messages to people and programs with it, the model loop makes its
// prompt of the same parts. It imports pkg/model and pkg/store's row types.
package uimessage
