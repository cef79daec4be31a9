package plugin

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// block is a group of lines at the end of a terminal's output that is redrawn in place. Each redraw is one write. The
// cursor stays below the block.
type block struct {
	w io.Writer
	// size returns the terminal's present size, in cells and lines.
	size func() (width, height int)
	// shown are the lines of the last drawing. The terminal was width cells wide at that time.
	shown []string
	width int
}

func newBlock(terminal io.Writer) *block {
	return &block{w: terminal, size: func() (int, int) { return terminalSize(terminal) }}
}

// draw replaces the block's lines. It does not redraw the first lines if they are unchanged.
func (b *block) draw(lines []string) {
	width, _ := b.size()
	var out strings.Builder
	same := 0
	if width == b.width {
		for same < min(len(lines), len(b.shown)) && lines[same] == b.shown[same] {
			same++
		}
		if same == len(lines) && same == len(b.shown) {
			return
		}
	}
	moveUp(&out, countRows(b.shown[same:], width))
	out.WriteString("\x1b[J")
	appendLines(&out, lines[same:])
	b.shown, b.width = lines, width
	_, _ = io.WriteString(b.w, out.String()) // the upgrade continues without its display
}

// writeAbove writes text of one or more lines above the block.
func (b *block) writeAbove(text string) {
	width, _ := b.size()
	var out strings.Builder
	moveUp(&out, countRows(b.shown, width))
	out.WriteString("\x1b[J" + text + "\n")
	appendLines(&out, b.shown)
	b.width = width
	_, _ = io.WriteString(b.w, out.String())
}

// clear removes the block.
func (b *block) clear() {
	if len(b.shown) == 0 {
		return
	}
	width, _ := b.size()
	var out strings.Builder
	moveUp(&out, countRows(b.shown, width))
	b.shown = nil
	_, _ = io.WriteString(b.w, out.String()+"\x1b[J")
}

// countRows returns the number of rows that the lines take on a terminal of that width. A terminal that became narrower
// wraps lines that were drawn before.
func countRows(lines []string, width int) int {
	rows := 0
	for _, line := range lines {
		rows += max(1, (twwidth.Width(line)+width-1)/width)
	}
	return rows
}

// moveUp adds the codes that move the cursor up by that many rows, to the first cell.
func moveUp(out *strings.Builder, rows int) {
	out.WriteString("\r")
	if rows > 0 {
		fmt.Fprintf(out, "\x1b[%dA", rows)
	}
}

// appendLines adds the lines.
func appendLines(out *strings.Builder, lines []string) {
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
}
