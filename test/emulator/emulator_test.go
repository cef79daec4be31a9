package emulator

import (
	"reflect"
	"testing"
)

// TestEmulatorShowsWrittenTextAndStyles checks the rows on the screen with their styles.
func TestEmulatorShowsWrittenTextAndStyles(t *testing.T) {
	plain := func(text string) []Span { return []Span{{Text: text, Cells: len(text)}} }
	green, bold := Style{Color: 32}, Style{Bold: true}
	for name, c := range map[string]struct {
		written string
		want    Screen
	}{
		"nothing":             {"", Screen{}},
		"blanks at the end":   {"a  \n\n", Screen{Rows: [][]Span{plain("a")}}},
		"scrolled":            {"a\nb\nc\nd", Screen{Rows: [][]Span{plain("b"), plain("c"), plain("d")}, Top: 1}},
		"scrolled to a blank": {"a\nb\nc\n", Screen{Rows: [][]Span{plain("b"), plain("c")}, Top: 1}},
		"a colour":            {"a \x1b[32mb\x1b[0m c", Screen{Rows: [][]Span{{{"a ", 2, Style{}}, {"b", 1, green}, {" c", 2, Style{}}}}}},
		"bold, reset by m":    {"\x1b[1ma\x1b[mb", Screen{Rows: [][]Span{{{"a", 1, bold}, {"b", 1, Style{}}}}}},
		"both":                {"\x1b[1m\x1b[95ma", Screen{Rows: [][]Span{{{"a", 1, Style{Color: 95, Bold: true}}}}}},
		"an unknown number":   {"\x1b[7ma", Screen{Rows: [][]Span{plain("a")}}},
		"over two rows":       {"\x1b[32ma\nb", Screen{Rows: [][]Span{{{"a", 1, green}}, {{"b", 1, green}}}}},
		"written over":        {"\x1b[32mab\r\x1b[0mc", Screen{Rows: [][]Span{{{"c", 1, Style{}}, {"b", 1, green}}}}},
		"erased":              {"\x1b[32mab\r\x1b[K\x1b[0mc", Screen{Rows: [][]Span{plain("c")}}},
		"a wide character":    {"\x1b[32m世\x1b[0ma", Screen{Rows: [][]Span{{{"世", 2, green}, {"a", 1, Style{}}}}}},
		"half a code":         {"\x1b[3", Screen{}},
		"an accent":           {"e\u0301a", Screen{Rows: [][]Span{{{"e\u0301a", 2, Style{}}}}}},
		"a wide, then a mark": {"世\ufe0fa", Screen{Rows: [][]Span{{{"世\ufe0fa", 3, Style{}}}}}},
		"an accent alone":     {"\u0301a", Screen{Rows: [][]Span{plain("a")}}},
		"a bell":              {"a\ab", Screen{Rows: [][]Span{{{"a\ab", 2, Style{}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			terminal := New(8, 3)
			for _, b := range []byte(c.written) { // codes and characters may arrive in parts
				_, _ = terminal.Write([]byte{b})
			}
			if got := terminal.Screen(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}
