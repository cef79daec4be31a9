package cast

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// frame returns a frame of plain rows.
func frame(length time.Duration, rows ...string) Frame {
	f := Frame{Time: length}
	for _, row := range rows {
		f.Rows = append(f.Rows, []emulator.Span{{Text: row, Cells: len([]rune(row))}})
	}
	return f
}

// tiny is a cast of three frames with a colour, a blank row, and rows that stay.
func tiny() []Frame {
	first := frame(time.Second, "$ true")
	second := frame(500*time.Millisecond, "$ true", "")
	second.Rows[1] = nil
	second.Rows = append(second.Rows, []emulator.Span{
		{Text: "a ", Cells: 2}, {Text: "b", Cells: 1, Style: emulator.Style{Color: 32}}, {Text: " c", Cells: 2, Style: emulator.Style{Color: 31, Bold: true}},
	})
	return []Frame{first, second, frame(1500*time.Millisecond, "$ true", "done")}
}

func TestSVGEqualsGoldenFile(t *testing.T) {
	const golden = "testdata/tiny.svg"
	got := SVG("A tiny cast", tiny())
	if *update {
		if err := os.WriteFile(golden, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: run go test ./test/cast -update\ngot:\n%s", golden, got)
	}
}

// parse returns the texts of all text elements by their id, and the names of all elements and attributes. It fails if the picture is
// not XML.
func parse(t *testing.T, picture []byte) (texts map[string]string, names map[string]int) {
	t.Helper()
	texts, names = map[string]string{}, map[string]int{}
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	id := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, names
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		switch of := token.(type) {
		case xml.StartElement:
			names[of.Name.Local]++
			if of.Name.Local == "text" {
				id = ""
			}
			for _, a := range of.Attr {
				names[a.Name.Local+"="]++
				if of.Name.Local == "text" && a.Name.Local == "id" {
					id = a.Value
				}
			}
		case xml.EndElement:
			if of.Name.Local == "text" {
				id = ""
			}
		case xml.CharData:
			if id != "" {
				texts[id] += string(of)
			}
		}
	}
}

// TestTextIsEscaped draws texts that would be markup, in a row, in a coloured part of a row and in the title.
func TestTextIsEscaped(t *testing.T) {
	const hostile = `</text><script>alert("&amp;")</script> & <image href='x' onload="y"/>]]>`
	coloured := Frame{Time: time.Second, Rows: [][]emulator.Span{{{Text: hostile, Cells: len(hostile), Style: emulator.Style{Color: 31}}}}}
	texts, names := parse(t, SVG(hostile, []Frame{frame(time.Second, hostile+"1"), coloured}))
	if texts["r0"] != hostile+"1" || texts["r1"] != hostile {
		t.Errorf("the rows are %q", texts)
	}
	for name, n := range names {
		if strings.HasPrefix(name, "on") || name == "script" || name == "image" {
			t.Errorf("the picture has %d of %s", n, name)
		}
	}
}

// TestCharactersForbiddenInXMLAreReplaced draws characters that no XML document may have.
func TestCharactersForbiddenInXMLAreReplaced(t *testing.T) {
	texts, _ := parse(t, SVG("\x00", []Frame{frame(time.Second, "a\x1b[?25l\x07\xff\ufffeb")}))
	if got, want := texts["r0"], "a\ufffd[?25l\ufffd\ufffd\ufffdb"; got != want {
		t.Errorf("the row is %q, want %q", got, want)
	}
}

// TestFramesShareEqualRows: frames refer to a row that they share.
func TestFramesShareEqualRows(t *testing.T) {
	picture := SVG("", []Frame{frame(time.Second, "same", "one"), frame(time.Second, "other", "same")})
	texts, names := parse(t, picture)
	if len(texts) != 3 || names["use"] != 4 {
		t.Errorf("the picture has %d rows and %d references:\n%s", len(texts), names["use"], picture)
	}
	for _, want := range []string{
		fmt.Sprintf(`<use href="#r0" y="%d"/>`, baseline),
		fmt.Sprintf(`<use href="#r0" y="%d"/>`, screenHigh+rowHeight+baseline),
	} {
		if !bytes.Contains(picture, []byte(want)) {
			t.Errorf("the picture has no %s:\n%s", want, picture)
		}
	}
}

// TestAnimationShowsEachFrameForItsTime: the strip jumps to each frame at its share of the time.
func TestAnimationShowsEachFrameForItsTime(t *testing.T) {
	got := animate([]Frame{frame(time.Second), frame(2 * time.Second), frame(5 * time.Second)})
	for _, want := range []string{
		"0.000%{transform:translateY(0px)}", "12.500%{transform:translateY(-432px)}", "37.500%{transform:translateY(-864px)}",
		"to{transform:translateY(-864px)}", "play 8.00s step-end infinite",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// TestSVGOfAnEmptyRecordingIsValid draws an empty recording.
func TestSVGOfAnEmptyRecordingIsValid(t *testing.T) {
	picture := SVG("nothing", nil)
	parse(t, picture)
	if bytes.Contains(picture, []byte("NaN")) || bytes.Contains(picture, []byte("keyframes")) {
		t.Errorf("the picture of nothing is\n%s", picture)
	}
}
