// Package demo plays the example conversation in a terminal, step by step,
// against a running system: a person asks, the model's harmless call runs, its
// dangerous one stops at a card, somebody decides, and the conversation goes
// on.
//
// It is an ordinary client: it writes the person's message, follows the
// topic's events, and decides over the API. Whoever decides first, here, on
// the page or with another command, has decided; the story goes on in any
// case. The chat backend of examples/chat must run, as it does within
// countersign dev.
package demo
