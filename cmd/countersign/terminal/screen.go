package terminal

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// Screen is where a command writes.
type Screen struct {
	Out         io.Writer
	Interactive bool // a person looks at it
	Width       int  // columns; 0: as wide as needed
	Color       bool
}

// Open looks at what out is. Colours follow NO_COLOR (https://no-color.org)
// and TERM=dumb; COLUMNS overrules the window's width.
func Open(out io.Writer, getenv func(string) string) Screen {
	screen := Screen{Out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		screen.Interactive = true
		screen.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			screen.Width = width
		}
	}
	if columns, err := strconv.Atoi(getenv("COLUMNS")); err == nil && columns > 0 {
		screen.Width = columns
	}
	return screen
}

// Style is how a piece of text looks.
type Style string

// The styles, as SGR parameters.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

func (s Screen) paint(style Style, text string) string {
	if !s.Color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// EffectStyle warns of the effects that cannot be taken back.
func EffectStyle(effect string) Style {
	switch effect {
	case "read", "idempotent":
		return Plain
	case "keyed":
		return Yellow
	}
	return Red
}

// StateStyle is the colour of a state of any kind.
func StateStyle(state string) Style {
	switch state {
	case "approved", "done", "accepted":
		return Green
	case "requested", "awaiting-approval", "needs-attention", "ready", "dispatched":
		return Yellow
	case "denied", "error", "failed", "expired", "lapsed":
		return Red
	}
	return Plain
}
