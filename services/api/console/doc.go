// Package console is the page at /: conversations as they stand, the card
// with exactly what would run, approve and deny, live in every open window.
//
// It owns HTML, a little script and the cookie that signs a browser in;
// everything else it shares with the HTTP API: it decides through the same
// use case, with channel "page", and reads the same rows.
//
// What it promises. A GET changes nothing; every POST is refused when it
// comes from another origin. The page runs no script but its own and is never
// framed (Content-Security-Policy). Whatever a model, a tool or a person
// wrote is shown as text with everything hidden in it marked (package
// visible), and a model's words are set apart from what Countersign says. The
// buttons stand before the arguments, however long these are, and answer
// exactly the card that was shown: its digest goes with the answer (I5).
// Before JavaScript, forms do all of it.
//
// The cookie holds the API key itself, HttpOnly and SameSite=Strict: nodes
// share no sessions, and a deleted key is signed out everywhere at once.
//
// It imports pkg/model, pkg/store's types, internal/visible, and the siblings
// approval (the decision), watch (live events) and view.
package console
