package report

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// page is written part by part. err is the first error of the writer. After it, nothing more is written.
type page struct {
	w io.Writer
	Options
	err error
}

func newPage(w io.Writer, o Options) *page { return &page{w: w, Options: o} }

// isFitted reports whether lines and tables must fit the width of a terminal.
func (p *page) isFitted() bool { return p.Style == Plain && !p.Wide && p.Width > 0 }

// labelWidth is the width in cells of a label with the spaces after it, as in "Takes       12m".
const labelWidth = 12

// label matches the label of a line.
var label = regexp.MustCompile(`^[A-Z][a-z]+( [a-z]+)* +`)

// labelOf returns the label that a line begins with, and the spaces after it: "Takes       ". It returns "" if there is no label.
func labelOf(line string) string {
	if found := label.FindString(line); len(found) == labelWidth {
		return found
	}
	return ""
}

// addLines adds lines, parts of which may come from the cluster, and escapes them as it does cells. On a terminal they break at words
// and continue below their text. Markdown joins lines that follow each other: each but the last ends with a break.
func (p *page) addLines(lines ...string) {
	for i, line := range lines {
		text := sanitizeCell(p.Style, line)
		switch {
		case p.Style == Markdown && line != "" && i+1 < len(lines) && lines[i+1] != "":
			text += `\`
		case p.isFitted():
			text = wrapLine(text, p.Width)
		}
		if found := labelOf(text); found != "" && p.Style == Plain {
			text = p.paint(toneOfLabel(strings.TrimSpace(found)), found) + text[len(found):]
		}
		p.addText(text)
	}
}

// addVerdict adds the line that sums an answer up, in the colour of its tone.
func (p *page) addVerdict(t tone, text string) {
	text = sanitizeCell(p.Style, text)
	if p.isFitted() {
		text = wrapLine(text, p.Width)
	}
	if p.Style == Markdown {
		text = "**" + text + "**"
	}
	p.addText(p.paint(t, text))
}

// addText adds a line as it is.
func (p *page) addText(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

// column is a column of a table: its title, and how it is made narrower if the table is too wide.
type column struct {
	title string
	// long says that its cells may break at words.
	long bool
	// cut returns the part of a name that is cut off if all names have it; nil if nothing is cut.
	cut func(name string) (string, cutting)
	// key says that the column stays, even if all rows have the same cell.
	key bool
	// toneOf returns the tone of a cell; nil if all are calm.
	toneOf func(cell string) tone
}

// addTable adds a table. On a terminal it fits the width: values that all rows have stand once above it, and long cells break at
// words.
func (p *page) addTable(columns []column, rows [][]string) {
	rows = sanitizeRows(p.Style, rows)
	if p.isFitted() {
		f := fitted{columns: columns, rows: rows}
		f.leaveOutSame()
		f.cutNames()
		f.breakCells(p.Width)
		if f.said != nil {
			p.addLines("In each row "+strings.Join(f.said, ", "), "")
		}
		columns, rows = f.columns, f.rows
	}
	if p.Color && p.Style == Plain {
		for _, row := range rows {
			for i, cell := range row {
				if toneOf := columns[i].toneOf; toneOf != nil {
					row[i] = p.paint(toneOf(cell), cell)
				}
			}
		}
	}
	var header []string
	if !p.NoHeaders {
		for i := range columns {
			header = append(header, columns[i].title)
		}
	}
	between := plainGap
	if p.isFitted() {
		between = fittedGap
	}
	if p.err == nil {
		p.err = drawTable(p.w, p.Style, between, header, rows)
	}
}
