package plugin

import (
	"io"
	"os"
	"runtime"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// defaultWidth is how many cells a terminal has that does not say.
const defaultWidth = 80

// terminalWidth is the width of the terminal that is written to, in cells.
func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return defaultWidth
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return defaultWidth
	}
	return width
}

// cutLine cuts a line to so many cells; an ellipsis tells that it was longer.
func cutLine(line string, width int) string {
	if twwidth.Width(line) <= width {
		return line
	}
	return twwidth.Truncate(line, width, "…")
}

// mayRedraw reports whether what was written to w can be written over: w is a terminal that knows how to move its cursor.
func mayRedraw(w io.Writer) bool {
	older := runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == ""
	return printers.IsTerminal(w) && os.Getenv("TERM") != "dumb" && !older
}

// mayColor reports whether what is written to w may have colours, by --color and, where that leaves it open, the environment.
func (c console) mayColor(w io.Writer) bool {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	default:
		return printers.AllowsColorOutput(w)
	}
}

// optionsFor says how a value is written to w for people.
func (c console) optionsFor(w io.Writer) report.Options {
	o := report.Options{Now: c.now(), Wide: c.format == "wide", Color: c.mayColor(w), NoHeaders: c.noHeaders}
	if printers.IsTerminal(w) {
		o.Width = terminalWidth(w)
	}
	return o
}
