// Package egress is the only way out to addresses that somebody else named:
// HTTP tools, MCP servers, webhook sinks. It owns the guard against
// server-side request forgery and the proof of whether a request was sent.
//
// It promises:
//   - The address is checked where it is connected to, after the name was
//     resolved, so neither a name that resolves anew nor an odd spelling
//     (127.1, ::ffff:10.0.0.1) leads inside. Loopback, private, link-local,
//     shared, multicast, documentation and translated ranges are refused with
//     [ErrRefused], unless the operator's allow list names them.
//   - No proxy from the environment, no redirect followed, no decompression.
//   - Nothing is sent twice behind the caller's back: [Conn] is one
//     connection and has no retry at all; [Proof] tells for a request through
//     [Egress.HTTPClient] whether one byte of it may have left.
//
// HTTP/1.1 only: there the bytes after the handshake belong to one request at
// a time, which is what makes "nothing was sent" provable.
//
// It is the home of code.dny.dev/ssrf and imports nothing of ours; the worker
// and the continuer both need it, and services never import each other.
package egress
