package plugin

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// defaultWidth is how many cells a terminal has that does not say.
const defaultWidth = 80

// defaultHeight is how many lines such a terminal has.
const defaultHeight = 24

// terminalSize is the size of the terminal that is written to, in cells and lines.
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

func terminalWidth(w io.Writer) int {
	width, _ := terminalSize(w)
	return width
}

// mayRedraw reports whether what was written to w can be written over: w is a terminal that knows how to move its cursor.
func mayRedraw(w io.Writer) bool {
	older := runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == ""
	return isTerminal(w) && os.Getenv("TERM") != "dumb" && !older
}

// isTerminal reports whether what is written to w appears on a terminal.
func isTerminal(w io.Writer) bool { return printers.IsTerminal(fileOf(w)) }

// mayColor reports whether what is written to w may have colours, by --color and, where that leaves it open, the environment.
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

// optionsFor says how a value is written to w for people.
func (c console) optionsFor(w io.Writer) report.Options {
	o := report.Options{Now: c.now(), Wide: c.format == "wide", Color: c.mayColor(w), NoHeaders: c.noHeaders}
	if isTerminal(w) {
		o.Width = terminalWidth(w)
	}
	return o
}
