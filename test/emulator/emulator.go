// Package emulator is a terminal for tests: it shows what programs have written to it.
package emulator

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// Terminal keeps all rows, also those that have scrolled off its screen. It understands text, line breaks, and the codes that move
// the cursor up, erase, colour and set bold. Its methods may be called from several goroutines.
type Terminal struct {
	mu sync.Mutex
	// columns is the width in cells, height the number of rows on the screen.
	columns, height int
	rows            []line
	// row and column are the place of the cursor, top is the first row on the screen.
	row, column, top int
	// writes counts the writes.
	writes int
	// rest is the start of a code or of a character that is not complete.
	rest string
	// style is the style of the characters that are written next.
	style Style
}

// Style is how a character looks.
type Style struct {
	// Color is the number of the code that sets the colour, 30 to 37 or 90 to 97. It is 0 for the terminal's own colour.
	Color int
	Bold  bool
}

// Span is a part of a row whose characters look the same.
type Span struct {
	Text string
	// Cells is the width.
	Cells int
	Style Style
}

// Screen is what a terminal shows at one moment.
type Screen struct {
	// Rows are the rows from the top of the screen on, without blanks at the end of a row and without blank rows at the end.
	Rows [][]Span
	// Top is the number of rows that have scrolled off the screen.
	Top int
}

// line is a row of a terminal. A cell holds a character. The second cell of a wide one holds "".
type line struct {
	cells []string
	// styles has the style of each cell.
	styles []Style
	// wrapped is true if the row continues in the next one.
	wrapped bool
}

// New returns a terminal of that many columns and rows.
func New(columns, height int) *Terminal { return &Terminal{columns: columns, height: height} }

// Size returns the number of columns and of rows on the screen.
func (t *Terminal) Size() (columns, height int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.columns, t.height
}

// Writes returns how often Write was called.
func (t *Terminal) Writes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

var (
	code       = regexp.MustCompile(`^\x1b\[([0-9]*)([AJKm])`)
	incomplete = regexp.MustCompile(`^\x1b(\[[0-9]*)?$`)
)

// Write implements io.Writer. It returns no error.
func (t *Terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	t.show(string(text))
	return len(text), nil
}

func (t *Terminal) show(text string) {
	t.rest += text
	for utf8.FullRuneInString(t.rest) && !incomplete.MatchString(t.rest) {
		if found := code.FindStringSubmatch(t.rest); found != nil {
			t.rest = t.rest[len(found[0]):]
			t.obey(found[2], found[1])
			continue
		}
		r, length := utf8.DecodeRuneInString(t.rest)
		t.rest = t.rest[length:]
		t.put(r)
	}
}

// obey carries out a code.
func (t *Terminal) obey(letter, number string) {
	switch letter {
	case "A":
		n, _ := strconv.Atoi(number) // digits, or nothing
		t.row = max(t.row-n, t.top)
	case "J":
		t.eraseRow()
		t.rows = t.rows[:min(len(t.rows), t.row+1)]
	case "K":
		t.eraseRow()
	case "m":
		n, _ := strconv.Atoi(number)
		t.setStyle(n)
	}
}

// setStyle carries out a code that ends with m. Codes other than reset, bold and the 16 colours have no effect.
func (t *Terminal) setStyle(n int) {
	switch {
	case n == 0:
		t.style = Style{}
	case n == 1:
		t.style.Bold = true
	case n >= 30 && n <= 37, n >= 90 && n <= 97:
		t.style.Color = n
	}
}

// eraseRow erases the cursor's row from the cursor on.
func (t *Terminal) eraseRow() {
	if t.row < len(t.rows) {
		row := t.rows[t.row]
		kept := min(t.column, len(row.cells))
		t.rows[t.row] = line{cells: row.cells[:kept], styles: row.styles[:kept]}
	}
}

// put shows a character at the cursor.
func (t *Terminal) put(r rune) {
	switch r {
	case '\r':
		t.column = 0
		return
	case '\n':
		t.breakLine()
		return
	}
	width := twwidth.Width(string(r))
	if t.column+width > t.columns {
		t.current().wrapped = true
		t.breakLine()
	}
	row := t.current()
	if width == 0 {
		t.combine(row, r)
		return
	}
	for len(row.cells) < t.column+width {
		row.cells, row.styles = append(row.cells, " "), append(row.styles, Style{})
	}
	row.cells[t.column] = string(r)
	if width > 1 {
		row.cells[t.column+1] = ""
	}
	for i := t.column; i < t.column+width; i++ {
		row.styles[i] = t.style
	}
	t.column += width
}

// combine adds a character without width, such as an accent, to the character before the cursor. At the start of a row it drops it.
func (t *Terminal) combine(row *line, r rune) {
	before := min(t.column, len(row.cells)) - 1
	if before > 0 && row.cells[before] == "" {
		before-- // the first cell of a wide character
	}
	if before >= 0 {
		row.cells[before] += string(r)
	}
}

// current returns the cursor's row.
func (t *Terminal) current() *line {
	for len(t.rows) <= t.row {
		t.rows = append(t.rows, line{})
	}
	return &t.rows[t.row]
}

// breakLine moves the cursor to the start of the next row, as terminals do for programs.
func (t *Terminal) breakLine() {
	t.current()
	t.row, t.column = t.row+1, 0
	t.top = max(t.top, t.row-t.height+1)
}

// Resize breaks the lines again, as most terminals do, but without their colours. The cursor stays behind the last character.
func (t *Terminal) Resize(columns, height int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines, below, rest := t.joinRows(), t.row >= len(t.rows), t.rest
	t.columns, t.height, t.rows, t.row, t.column, t.top, t.rest = columns, height, nil, 0, 0, 0, ""
	if len(lines) > 0 {
		t.show(strings.Join(lines, "\n"))
		if below {
			t.show("\n")
		}
	}
	t.rest = rest
}

// joinRows returns all lines, each joined from the rows that it takes.
func (t *Terminal) joinRows() []string {
	var lines []string
	text := ""
	for _, row := range t.rows {
		text += strings.Join(row.cells, "")
		if !row.wrapped {
			lines = append(lines, strings.TrimRight(text, " "))
			text = ""
		}
	}
	return lines
}

// Lines returns all lines, each joined from the rows that it takes, without the empty ones at the end.
func (t *Terminal) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.joinRows()
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// Screen returns what the terminal shows now.
func (t *Terminal) Screen() Screen {
	t.mu.Lock()
	defer t.mu.Unlock()
	screen := Screen{Top: t.top}
	for _, row := range t.rows[min(t.top, len(t.rows)):] {
		screen.Rows = append(screen.Rows, row.spans())
	}
	for len(screen.Rows) > 0 && len(screen.Rows[len(screen.Rows)-1]) == 0 {
		screen.Rows = screen.Rows[:len(screen.Rows)-1]
	}
	return screen
}

// spans returns the row's spans, without the blanks at its end.
func (l line) spans() []Span {
	end := len(l.cells)
	for end > 0 && l.cells[end-1] == " " {
		end--
	}
	var spans []Span
	for start := 0; start < end; {
		next := start + 1
		for next < end && l.styles[next] == l.styles[start] {
			next++
		}
		spans = append(spans, Span{Text: strings.Join(l.cells[start:next], ""), Cells: next - start, Style: l.styles[start]})
		start = next
	}
	return spans
}

// String returns all rows.
func (t *Terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	for _, row := range t.rows {
		text.WriteString(strings.TrimRight(strings.Join(row.cells, ""), " ") + "\n")
	}
	return strings.TrimRight(text.String(), "\n")
}
