package uistream

// Version is the major version of the AI SDK that a client speaks. A client
// that does not say gets V6, of which every chunk is known to both.
type Version int

// The versions: a V6 client fails its whole stream on a chunk that only V7
// knows.
const (
	V6 Version = 6
	V7 Version = 7
)

// ParseVersion reads what a client said, "" included.
func ParseVersion(text string) (Version, bool) {
	switch text {
	case "", "6":
		return V6, true
	case "7":
		return V7, true
	}
	return 0, false
}

// onlyV7 are the chunks on which a V6 client fails.
var onlyV7 = map[string]bool{
	ToolApprovalResponse: true, ReasoningFile: true, Custom: true, ResetStep: true,
}

// Knows tells whether a client of this version takes the chunk.
func (v Version) Knows(c Chunk) bool {
	return v >= V7 || !onlyV7[c.Type] && c.FinishReason != "interrupted"
}
