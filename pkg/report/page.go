package report

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// page writes a text line by line. After the first error of the writer, which is err, it writes nothing more.
type page struct {
	w io.Writer
	Options
	err error
}

func newPage(w io.Writer, o Options) *page { return &page{w: w, Options: o} }

// mustFit reports whether lines and tables must fit the width of the terminal.
func (p *page) mustFit() bool { return p.Style == Plain && !p.Wide && p.Width > 0 }

// labelWidth is the width in cells of a label with the spaces that follow it, as in "Takes       12m".
const labelWidth = 12

// label matches the label at the start of a line.
var label = regexp.MustCompile(`^[A-Z][a-z]+( [a-z]+)* +`)

// labelOf returns the label at the start of a line with the spaces that follow it: "Takes       ". It returns
// "" if the line has no label.
func labelOf(line string) string {
	if found := label.FindString(line); len(found) == labelWidth {
		return found
	}
	return ""
}

// addLines adds lines. It escapes them as it escapes cells, because parts may come from the cluster. On a
// terminal, long lines break at words, and continuation lines are indented. In Markdown, each line except the
// last ends with a line break, because Markdown joins lines.
func (p *page) addLines(lines ...string) {
	for i, line := range lines {
		text := sanitizeCell(p.Style, line)
		switch {
		case p.Style == Markdown && line != "" && i+1 < len(lines) && lines[i+1] != "":
			text += `\`
		case p.mustFit():
			text = wrapLine(text, p.Width)
		}
		if found := labelOf(text); found != "" && p.Style == Plain {
			text = p.paint(toneOfLabel(strings.TrimSpace(found)), found) + text[len(found):]
		}
		p.addRawLine(text)
	}
}

// addVerdict adds the summary line, in the colour of its tone.
func (p *page) addVerdict(t tone, text string) {
	text = sanitizeCell(p.Style, text)
	if p.mustFit() {
		text = wrapLine(text, p.Width)
	}
	if p.Style == Markdown {
		text = "**" + text + "**"
	}
	p.addRawLine(p.paint(t, text))
}

// addRawLine adds a line without escaping it.
func (p *page) addRawLine(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

// column is a column of a table: its title, and how it is made narrower if the table is too wide.
type column struct {
	title string
	// wraps is true if cells may break at words.
	wraps bool
	// cut returns the part of a name that can be removed if all names have it. It is nil if nothing can be
	// removed.
	cut func(name string) (string, cutting)
	// alwaysShown is true if the column is shown even if all rows have the same cell.
	alwaysShown bool
	// toneOf returns the tone of a cell. It is nil if all cells are calm.
	toneOf func(cell string) tone
}

// addTable adds a table. On a terminal the table fits the width: long cells break at words, and a value that
// all rows share is written once above the table.
func (p *page) addTable(columns []column, rows [][]string) {
	rows = sanitizeRows(p.Style, rows)
	if p.mustFit() {
		f := fittedTable{columns: columns, rows: rows}
		f.removeConstantColumns()
		f.cutCommonNameParts()
		f.narrowColumns(p.Width)
		if f.notes != nil {
			p.addLines("In each row "+strings.Join(f.notes, ", "), "")
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
	if p.mustFit() {
		between = fittedGap
	}
	if p.err == nil {
		p.err = drawTable(p.w, p.Style, between, header, rows)
	}
}
