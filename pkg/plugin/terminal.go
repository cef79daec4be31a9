package plugin

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// defaultWidth is the width in cells of a terminal that does not report its size.
const defaultWidth = 80

// defaultHeight is the height in lines of a terminal that does not report its size.
const defaultHeight = 24

// terminalSize returns the size of the terminal that w writes to, in cells and lines. For other writers it returns the
// defaults.
func terminalSize(w io.Writer) (width, height int) {
	file, ok := fileOf(w).(*os.File)
	if !ok {
		return defaultWidth, defaultHeight
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return defaultWidth, defaultHeight
	}
	return width, height
}

// terminalWidth returns the width of [terminalSize].
func terminalWidth(w io.Writer) int {
	width, _ := terminalSize(w)
	return width
}

// mayRedraw reports whether w is a terminal whose cursor can be moved, so that its last lines can be redrawn.
func mayRedraw(w io.Writer) bool {
	older := runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == ""
	return isTerminal(w) && os.Getenv("TERM") != "dumb" && !older
}

// isTerminal reports whether w writes to a terminal.
func isTerminal(w io.Writer) bool { return printers.IsTerminal(fileOf(w)) }

// mayColor reports whether output to w may have colours. With --color=auto it may if w is a terminal and neither NO_COLOR nor TERM=dumb
// is set.
func (c console) mayColor(w io.Writer) bool {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	default:
		return printers.AllowsColorOutput(fileOf(w))
	}
}

// optionsFor returns the options for printing objects to w.
func (c console) optionsFor(w io.Writer) report.Options {
	o := report.Options{Now: c.now(), Wide: c.format == "wide", Color: c.mayColor(w), NoHeaders: c.noHeaders}
	if isTerminal(w) {
		o.Width = terminalWidth(w)
	}
	return o
}
