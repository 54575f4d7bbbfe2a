// Package mcp runs the tools of MCP servers: it owns the sessions with them,
// the import of their tools, and the executor of their calls.
//
// It promises, besides what the package tool does for every executor:
//   - Arguments travel as the approved bytes, results come back as the
//     server's own JSON: no number passes through a float64. The SDK's typed
//     results are looked at, never stored; a tap on the transport keeps the
//     raw ones.
//   - A call runs only if the server's tool still is what was approved: each
//     session lists the tools it finds, again after tools/list_changed, and a
//     tool whose description, schema or annotations changed stops the call
//     (I5).
//   - A session belongs to one tenant and one configuration of a server, and
//     carries many calls at once. A dead one is replaced at the next
//     preparation, never in the middle of a run.
//   - A server's process sees PATH, HOME and what its configuration names,
//     lives in a process group of its own, and leaves nothing behind.
//
// What an answer means: a result is succeeded, one with isError failed; a
// JSON-RPC error that refuses the request (parse error, invalid request,
// unknown method or tool, invalid params) and an HTTP 4xx (but 408, 425, 429
// and the 404 of a lost session) failed; everything else after the request
// may have left is unknown.
//
// It is the home of the MCP SDK and imports model, egress and tool.
package mcp
