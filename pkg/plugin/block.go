package plugin

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// block is a few lines at the end of a terminal's output that are drawn again in their place. Each change is one write, so that
// nothing else comes between. The cursor rests beneath the block.
type block struct {
	w io.Writer
	// size is how wide and high the terminal is now.
	size func() (width, height int)
	// shown are the lines as they were drawn last, when the terminal was so wide.
	shown []string
	width int
}

func newBlock(w, terminal io.Writer) *block {
	return &block{w: w, size: func() (int, int) { return terminalSize(terminal) }}
}

// draw draws the lines in the place of those before. Lines that are the same are not written again.
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

// clear takes the block away.
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

// rowsAt is how many rows the block takes on a terminal that is so wide now: it breaks the lines that were drawn when it was wider.
func (b *block) rowsAt(width int) int {
	rows := 0
	for _, line := range b.shown {
		rows += max(1, (twwidth.Width(line)+width-1)/width)
	}
	return rows
}

// moveUp moves the cursor to the first cell, so many rows up.
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
