package model

// Note tells the model what happened outside of it: a person changed a
// call's input. The delivered continuation lists it, and registering the next
// turn puts it, as a data-countersign-note part, behind that turn's
// step-start.
type Note struct {
	ToolCallID string `json:"toolCallId"`
	Text       string `json:"text"`
}

// EditNotes are the notes about the turn's edited calls, in their order.
func (t *Turn) EditNotes() []Note {
	var out []Note
	for _, c := range t.Calls {
		if c.Edited {
			out = append(out, EditNote(c.Tool.Name, c.ToolCallID))
		}
	}
	return out
}

// EditNote is the note about one edited call.
func EditNote(tool, toolCallID string) Note {
	return Note{toolCallID, "A person changed the input of " + tool + " before answering. " +
		"The call stands with the changed input, which the history shows."}
}
