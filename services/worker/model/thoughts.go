package model

import (
	"encoding/json"

	"github.com/openai/openai-go/v3"
)

// thoughts reads what a model says to itself. The protocol has no member for
// it; providers that show it use one of these.
func thoughts(d openai.ChatCompletionChunkChoiceDelta) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if field, ok := d.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(field.Raw()), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}
