package terminal

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/internal/visible"
)

// Line writes one line of our own words, wrapped to the window; what strangers
// wrote in it is made visible.
func (s Screen) Line(indent string, style Style, format string, values ...any) {
	s.lines(indent, style, visible.Line(fmt.Sprintf(format, values...)))
}

// Quote writes a stranger's words, of any number of lines, behind a bar.
func (s Screen) Quote(text string) {
	for line := range strings.SplitSeq(visible.Text(text), "\n") {
		for _, piece := range wrap(line, s.Width-4) {
			fmt.Fprintln(s.Out, "  "+s.paint(Dim, "│")+" "+piece)
		}
	}
}
