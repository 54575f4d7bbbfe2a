package terminal

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/internal/visible"
)

// Cell is one field of a table: Text, or JSON on one line.
type Cell struct {
	Text  string
	JSON  []byte
	Style Style
}

// Text makes a plain cell.
func Text(s string) Cell { return Cell{Text: s} }

func (c Cell) visible() string {
	if c.JSON != nil {
		return visible.JSONLine(c.JSON)
	}
	return visible.Line(c.Text)
}

// Table is a list for people: one line per row.
type Table struct {
	Header []string
	Rows   [][]Cell
}

const (
	gap = 2 // columns between columns
	// narrowest is what a column keeps when the window is too small.
	narrowest = 6
)

// Table writes t so that it fits the screen.
func (s Screen) Table(t Table) {
	for _, row := range t.Rows {
		for i := range row {
			row[i].Text = row[i].visible()
		}
	}
	widths := fit(natural(t), s.Width)
	header := make([]Cell, len(t.Header))
	for i, name := range t.Header {
		header[i] = Cell{Text: name, Style: Dim}
	}
	s.row(header, widths)
	for _, row := range t.Rows {
		s.row(row, widths)
	}
}

func (s Screen) row(row []Cell, widths []int) {
	var line strings.Builder
	for i, cell := range row {
		text := shorten(cell.Text, widths[i])
		line.WriteString(s.paint(cell.Style, text))
		if i < len(row)-1 {
			line.WriteString(strings.Repeat(" ", widths[i]-columns(text)+gap))
		}
	}
	fmt.Fprintln(s.Out, line.String())
}

// natural is the width that each column would like to have.
func natural(t Table) []int {
	widths := make([]int, len(t.Header))
	for i, name := range t.Header {
		widths[i] = columns(name)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], columns(row[i].Text))
		}
	}
	return widths
}

// fit takes columns from the widest until the whole fits. Where even the
// narrowest does not fit, the terminal wraps.
func fit(widths []int, limit int) []int {
	if limit <= 0 {
		return widths
	}
	excess := gap*(len(widths)-1) - limit
	for _, w := range widths {
		excess += w
	}
	for ; excess > 0; excess-- {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return widths
}
