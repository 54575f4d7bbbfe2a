package model

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// NotePart is the type of the part that carries a [Note] in a message.
const NotePart = "data-countersign-note"

// Note tells the model what people did to a call that its part cannot say.
type Note struct {
	Text       string `json:"text"`
	ToolCallID string `json:"toolCallId"`
}

// maxNoteInput bounds the input that a note repeats, in bytes: the part of
// the call has the whole of it.
const maxNoteInput = 2000

// EditNote says that a person changed a call's input, and what it became.
func EditNote(toolCallID, tool string, input []byte) Note {
	shown := strings.ToValidUTF8(string(input), "\uFFFD")
	if len(shown) > maxNoteInput {
		cut := maxNoteInput
		for !utf8.RuneStart(shown[cut]) {
			cut--
		}
		shown = fmt.Sprintf("%s … (%d more bytes)", shown[:cut], len(shown)-cut)
	}
	return Note{
		Text:       fmt.Sprintf("A person changed the input of the call %s of %s before approving it. It is now: %s", toolCallID, tool, shown),
		ToolCallID: toolCallID,
	}
}
