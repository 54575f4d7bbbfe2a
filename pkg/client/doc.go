// Package client is the Go SDK of Countersign: one method per route, with the
// words of the HTTP contract.
//
//	c := client.New("http://127.0.0.1:8787", os.Getenv("COUNTERSIGN_API_KEY"))
//	answer, err := c.RegisterTurn(ctx, "chat-42", client.TurnRequest{
//		RequestedBy: "user:alice",
//		Parts:       []client.Part{client.TextPart("I will clean up."), client.ToolPart("delete_file", "call_1", input)},
//	})
//
// It promises that what it repeats is safe to repeat. A request whose answer
// was lost is sent again only where the server recognizes it: reads, and
// writes under an id that the client makes before the first try (decisionId,
// claimId, messageId). Everything else fails with the error of its one try,
// and the caller looks before trying again.
//
// An answer that is not 2xx is a [*Problem]; [Is] asks for one by name.
//
// It keeps JSON that belongs to others (tool inputs, outputs, message parts)
// as it came. It imports nothing of ours, so that a backend that uses it
// brings in nothing but uuid and the standard library.
package client
