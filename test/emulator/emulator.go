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

// Terminal keeps all rows, also those that have scrolled off its screen. It understands text, line breaks, and the codes that move the
// cursor up, erase, and colour. Its methods are safe for concurrent use.
type Terminal struct {
	mu sync.Mutex
	// columns is the width in cells. height is the number of rows on the screen.
	columns, height int
	rows            []line
	// row and column are the cursor's position. top is the first row on the screen.
	row, column, top int
	// writes counts the calls of Write.
	writes int
	// rest is the beginning of an incomplete code.
	rest string
}

// line is a row of a terminal. A cell contains a character. The second cell of a wide character contains "".
type line struct {
	cells []string
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
	for t.rest != "" && !incomplete.MatchString(t.rest) {
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
	}
}

// eraseRow erases the cursor's row from the cursor on.
func (t *Terminal) eraseRow() {
	if t.row < len(t.rows) {
		cells := t.rows[t.row].cells
		t.rows[t.row] = line{cells: cells[:min(t.column, len(cells))]}
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
	for len(row.cells) < t.column+width {
		row.cells = append(row.cells, " ")
	}
	row.cells[t.column] = string(r)
	if width > 1 {
		row.cells[t.column+1] = ""
	}
	t.column += width
}

// current returns the cursor's row.
func (t *Terminal) current() *line {
	for len(t.rows) <= t.row {
		t.rows = append(t.rows, line{})
	}
	return &t.rows[t.row]
}

// breakLine moves the cursor to the start of the next row, as a terminal does for a newline in a program's output.
func (t *Terminal) breakLine() {
	t.current()
	t.row, t.column = t.row+1, 0
	t.top = max(t.top, t.row-t.height+1)
}

// Resize wraps the lines again, as most terminals do. It leaves the cursor behind the last character.
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

// joinRows returns all lines, each joined from its rows.
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

// Lines returns all lines, each joined from its rows, without the empty lines at the end.
func (t *Terminal) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.joinRows()
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
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
