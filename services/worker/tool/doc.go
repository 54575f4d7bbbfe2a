// Package tool runs calls: it owns what an executor is ([Runner], [Ready])
// and the executor of HTTP tools ([HTTP]). MCP tools are in the package mcp
// beside it.
//
// It promises, for every executor:
//   - Preparation has no effect and may be repeated at will; everything that
//     can fail without an effect fails there, before the claim. The first
//     byte that the tool could act on leaves in [Ready.Run], after it.
//   - A run is sent at most once. Nothing below repeats a request, follows a
//     redirect or asks again.
//   - The outcome is as definite as the evidence (I4): succeeded and failed
//     only if the tool said so, nothing-sent only if it is proven, and unknown
//     for all the rest.
//   - What the tool answered is neither lost nor able to hurt anybody: see
//     [Output].
//
// An HTTP tool's rule is: 2xx succeeded, 4xx failed, except 408, 425 and 429,
// which like everything else (1xx, 3xx, 5xx, a timeout, a cut connection)
// leave it unknown whether it was done.
//
// It imports model and egress.
package tool
