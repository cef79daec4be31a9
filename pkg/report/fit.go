package report

import (
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// fittedGap is the number of cells between two columns of a table that fits a terminal.
const fittedGap = 2

// fittedTable is a table that is changed until it fits a width.
type fittedTable struct {
	columns []column
	rows    [][]string
	// notes are the texts above the table about values that were removed from it.
	notes []string
}

// removeConstantColumns removes each column whose cells are all equal, and adds its value to notes. A table
// with one row keeps its columns.
func (f *fittedTable) removeConstantColumns() {
	if len(f.rows) < 2 {
		return
	}
	for i := len(f.columns) - 1; i > 0; i-- {
		value := f.rows[0][i]
		if f.columns[i].alwaysShown || slices.ContainsFunc(f.rows, func(row []string) bool { return row[i] != value }) {
			continue
		}
		if value != "" && value != "-" {
			f.notes = append([]string{f.columns[i].title + " " + value}, f.notes...)
		}
		f.columns = slices.Delete(slices.Clone(f.columns), i, i+1)
		for r, row := range f.rows {
			f.rows[r] = slices.Delete(row, i, i+1)
		}
	}
}

// minCutLength is the minimum length of a name's part that is removed.
const minCutLength = 4

// cutCommonNameParts removes the domain that all node names share, and the region that all zones share.
func (f *fittedTable) cutCommonNameParts() {
	for i := range f.columns {
		if len(f.rows) < 2 || f.columns[i].cut == nil {
			continue
		}
		if common, how := f.columns[i].cut(f.rows[0][i]); len(common) >= minCutLength && f.canCut(i, common, how) {
			for _, row := range f.rows {
				row[i] = how.cut(row[i], common)
			}
			f.notes = append(f.notes, f.columns[i].title+" "+how.describe+" "+common)
		}
	}
}

// canCut reports whether all cells of the column contain the part and more.
func (f *fittedTable) canCut(i int, common string, how cutting) bool {
	return !slices.ContainsFunc(f.rows, func(row []string) bool { return !how.has(row[i], common) || row[i] == common })
}

// cutting describes how a part that all names share is recognised, removed and named.
type cutting struct {
	describe string
	has      func(name, part string) bool
	cut      func(name, part string) string
}

// cutDomain returns the domain of a node's name, and how to remove it.
func cutDomain(name string) (string, cutting) {
	_, domain, found := strings.Cut(name, ".")
	if !found {
		return "", cutting{}
	}
	return "." + domain, cutting{"ends with", strings.HasSuffix, strings.TrimSuffix}
}

// cutRegion returns the region of a zone's name, and how to remove it.
func cutRegion(zone string) (string, cutting) {
	return zone[:strings.LastIndex(zone, "-")+1], cutting{"begins with", strings.HasPrefix, strings.TrimPrefix}
}

// narrowColumns makes columns narrower until the table fits, and breaks the cells that have become too long.
func (f *fittedTable) narrowColumns(width int) {
	widths, total := make([]int, len(f.columns)), fittedGap*(len(f.columns)-1)
	for i := range f.columns {
		widths[i] = f.minWidth(i)
		for _, row := range f.rows {
			widths[i] = max(widths[i], twwidth.Width(row[i]))
		}
		total += widths[i]
	}
	for ; total > width; total-- {
		i := f.columnToNarrow(widths)
		if i < 0 {
			break
		}
		widths[i]--
	}
	f.columns = slices.Clone(f.columns)
	for i := range f.columns {
		f.columns[i].title = strings.Join(wrapWords(f.columns[i].title, widths[i]), "\n")
		for _, row := range f.rows {
			row[i] = strings.Join(wrapWords(row[i], widths[i]), "\n")
		}
	}
}

// minWidth returns the width of the longest word in the column's title, in cells.
func (f *fittedTable) minWidth(i int) int {
	least := 0
	for part := range strings.SplitAfterSeq(f.columns[i].title, "-") {
		least = max(least, twwidth.Width(part))
	}
	return least
}

// columnToNarrow returns the index of the column to make narrower, -1 for none. It prefers the widest column
// whose cells may break at words, down to 16 cells and next down to 8. After that, it takes the widest of all
// columns.
func (f *fittedTable) columnToNarrow(widths []int) int {
	for _, step := range []struct {
		wraps bool
		least int
	}{{true, 16}, {true, 8}, {false, 1}} {
		best := -1
		for i, w := range widths {
			if (!step.wraps || f.columns[i].wraps) && w > max(step.least, f.minWidth(i)) && (best < 0 || w > widths[best]) {
				best = i
			}
		}
		if best >= 0 {
			return best
		}
	}
	return -1
}

// displayWidth returns the number of cells that a text occupies on a terminal.
func displayWidth(text string) int { return twwidth.Width(text) }

// TruncateLine cuts a line to a width in cells. A line that was longer ends with an ellipsis.
func TruncateLine(line string, width int) string {
	if twwidth.Width(line) <= width {
		return line
	}
	return twwidth.Truncate(line, max(1, width), "…")
}

// WrapIndented breaks a line at words to a width in cells. All lines but the first are indented by indent
// cells.
func WrapIndented(line string, width, indent int) []string {
	if twwidth.Width(line) <= width || len(line) < indent {
		return []string{line}
	}
	lines := wrapWords(line[indent:], width-indent)
	for i := range lines {
		if i == 0 {
			lines[i] = line[:indent] + lines[i]
			continue
		}
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

// WrapLine breaks a line at words to a width in cells. All lines but the first are indented.
func WrapLine(line string, width int) []string { return strings.Split(wrapLine(line, width), "\n") }

// wrapLine breaks a line at words to a width in cells. Continuation lines start below the text after the
// label, or two cells in if there is no label.
func wrapLine(line string, width int) string {
	first, indent := labelOf(line), "  "
	if first != "" {
		indent = strings.Repeat(" ", labelWidth)
	}
	parts := wrapWords(line[len(first):], width-len(indent))
	if first == "" { // the first line of a text without a label has the whole width
		if parts = wrapWords(line, width); len(parts) > 1 {
			parts = append(parts[:1], wrapWords(strings.TrimSpace(strings.TrimPrefix(line, parts[0])), width-len(indent))...)
		}
	}
	return first + strings.Join(parts, "\n"+indent)
}

// wrapWords breaks a text at spaces into lines of at most width cells. It breaks a longer word at punctuation
// if possible. It returns at least one line.
func wrapWords(text string, width int) []string {
	width = max(width, 1)
	if twwidth.Width(text) <= width {
		return []string{text}
	}
	var lines []string
	line, cells := "", 0
	for _, word := range strings.Split(text, " ") {
		if n := twwidth.Width(word); line != "" && cells+1+n <= width {
			line, cells = line+" "+word, cells+1+n
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		pieces := splitWord(word, width)
		lines = append(lines, pieces[:len(pieces)-1]...)
		line = pieces[len(pieces)-1]
		cells = twwidth.Width(line)
	}
	return append(lines, line)
}

// splitWord breaks a word into pieces of at most width cells, at punctuation if possible.
func splitWord(word string, width int) []string {
	var pieces []string
	piece, cells, joint := "", 0, 0
	for _, r := range word {
		n := twwidth.Width(string(r))
		if cells+n > width && piece != "" {
			cut := len(piece)
			if joint > 0 {
				cut = joint
			}
			pieces = append(pieces, piece[:cut])
			piece = piece[cut:]
			cells, joint = twwidth.Width(piece), 0
		}
		piece, cells = piece+string(r), cells+n
		if strings.ContainsRune("/,=.:;-", r) {
			joint = len(piece)
		}
	}
	return append(pieces, piece)
}
