package plugin

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// block is a group of lines at the end of a terminal's output that is redrawn in place. Each change is one write, so that no
// other output comes between. The cursor stays below the block.
type block struct {
	w io.Writer
	// size returns the terminal's size now, in cells and lines.
	size func() (width, height int)
	// shown is what was drawn last, on a terminal that was width cells wide.
	shown []string
	width int
}

func newBlock(terminal io.Writer) *block {
	return &block{w: terminal, size: func() (int, int) { return terminalSize(terminal) }}
}

// draw replaces the block's lines. It does not write again the first lines if they are the same as before.
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
		moveUp(&out, len(b.shown)-same)
	} else {
		moveUp(&out, b.rowsAt(width))
	}
	out.WriteString("\x1b[J")
	writeAll(&out, lines[same:])
	b.shown, b.width = lines, width
	_, _ = io.WriteString(b.w, out.String()) // an upgrade continues unseen
}

// writeAbove writes a line above the block.
func (b *block) writeAbove(line string) {
	width, _ := b.size()
	var out strings.Builder
	moveUp(&out, b.rowsAt(width))
	out.WriteString("\x1b[J" + line + "\n")
	writeAll(&out, b.shown)
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
	moveUp(&out, b.rowsAt(width))
	b.shown = nil
	_, _ = io.WriteString(b.w, out.String()+"\x1b[J")
}

// rowsAt returns how many rows the block takes on a terminal of that width, which wraps lines that were drawn when it was wider.
func (b *block) rowsAt(width int) int {
	rows := 0
	for _, line := range b.shown {
		rows += max(1, (twwidth.Width(line)+width-1)/width)
	}
	return rows
}

// moveUp moves the cursor up by that many rows, to the first cell.
func moveUp(out *strings.Builder, rows int) {
	out.WriteString("\r")
	if rows > 0 {
		fmt.Fprintf(out, "\x1b[%dA", rows)
	}
}

func writeAll(out *strings.Builder, lines []string) {
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
}
