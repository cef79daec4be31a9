package measure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/house/measure"
)

func TestGraph(t *testing.T) {
	cases := map[string]struct {
		files      map[string]string
		floors     []int
		arrows, up []int
	}{
		"no arrow": {
			map[string]string{"a.go": "var A = 1", "b.go": "var B = 2"},
			[]int{1, 1},
			[]int{0, 0},
			[]int{0, 0},
		},
		"three floors": {
			map[string]string{"a.go": "func a() { b(); b(); c() }", "b.go": "func b() { c() }", "c.go": "func c() {}"},
			[]int{3, 2, 1},
			[]int{2, 1, 0},
			[]int{0, 0, 0},
		},
		"a method of another file": {
			map[string]string{"a.go": "func a(x T) { x.m() }", "b.go": "type T int", "c.go": "func (t T) m() {}"},
			[]int{3, 1, 2},
			[]int{2, 0, 1},
			[]int{0, 0, 0},
		},
		"a method found through a library's generic function": {
			map[string]string{
				"a.go": "import \"slices\"\n\nfunc a() { slices.Clone(all())[0].m() }",
				"b.go": "type T int\n\nfunc all() []T { return nil }",
				"c.go": "func (t T) m() {}",
			},
			[]int{3, 1, 2},
			[]int{2, 0, 1},
			[]int{0, 0, 0},
		},
		"beside a library that is not read": {
			map[string]string{"a.go": "import \"other.org/library\"\n\nfunc a() { b(library.New()) }", "b.go": "func b(int) {}"},
			[]int{2, 1},
			[]int{1, 0},
			[]int{0, 0},
		},
		"a local name that another file has too": {
			map[string]string{"a.go": "func a() { b := 1; _ = b }", "b.go": "func b() {}"},
			[]int{1, 1},
			[]int{0, 0},
			[]int{0, 0},
		},
		"the fewest of a circle": { // a and b use c, d; c uses d; d uses a: only that runs up
			map[string]string{
				"a.go": "func a() { c(); d() }", "b.go": "func b() { c(); d() }",
				"c.go": "func c() { d() }", "d.go": "func d() { a() }",
			},
			[]int{3, 3, 2, 1},
			[]int{2, 2, 1, 1},
			[]int{0, 0, 0, 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for file, text := range c.files {
				files["pkg/a/"+file] = "package a\n\n" + text
			}
			got := load(t, files)[0].Graph()
			if !slices.Equal(got.Floors, c.floors) || !slices.Equal(got.Arrows, c.arrows) || !slices.Equal(got.Up, c.up) {
				t.Errorf("got %+v, want floors %v, arrows %v, up %v", got, c.floors, c.arrows, c.up)
			}
		})
	}
}

// A tall house, each of its files using all below it, has one arrow up where the lowest uses the highest.
func TestGraphOfATallHouse(t *testing.T) {
	const height = 12
	files := map[string]string{}
	for i := range height {
		text := fmt.Sprintf("package a\n\nfunc f%d() {\n", i)
		for below := i + 1; below < height; below++ {
			text += fmt.Sprintf("\tf%d()\n", below)
		}
		if i == height-1 {
			text += "\tf0()\n"
		}
		files[fmt.Sprintf("pkg/a/f%c.go", 'a'+i)] = text + "}\n"
	}
	g := load(t, files)[0].Graph()
	if want := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; !slices.Equal(g.Up, want) {
		t.Errorf("arrows up %v, want %v", g.Up, want)
	}
	if want := []int{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}; !slices.Equal(g.Floors, want) {
		t.Errorf("floors %v, want %v", g.Floors, want)
	}
}

func TestSpread(t *testing.T) {
	cases := map[string][]int{
		"0/0/0":  nil,
		"7/7/7":  {7},
		"1/2/2":  {2, 1},
		"5/9/10": {10, 9, 8, 7, 6, 5, 4, 3, 2, 1},
	}
	for want, values := range cases {
		if got := measure.SpreadOf(values).String(); got != want {
			t.Errorf("spread of %v is %s, want %s", values, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	packages := load(t, map[string]string{
		"pkg/a/a.go": "// Package a is.\npackage a\n\nfunc first() { secondStep() }\n",
		"pkg/a/b.go": "package a\n\n// secondStep is.\nfunc secondStep() { first(); T{}.Do() }\n",
		"pkg/a/c.go": "package a\n\ntype T struct{}\n\nfunc (T) Do() {}\n",
	})
	figures := map[string]string{}
	for _, row := range measure.Figures(packages) {
		figures[row[0]] = row[1]
	}
	for name, want := range map[string]string{
		"files; lines median/p90/largest":        "3; 4/5/5",
		"function name, mean letters":            "5.7",
		"one-word names, of all / of unexported": "67 % / 50 %",
		"unexported functions documented":        "50 %",
		"comments / (code + comments)":           "22 %",
		"exported documented":                    "0/2",
		"packages with a comment":                "1/1",
		"largest type 1, methods/fields":         "pkg/a.T 1/0",
	} {
		if figures[name] != want {
			t.Errorf("%s is %q, want %q", name, figures[name], want)
		}
	}
	row := strings.Join(measure.Rooms(packages)[0], " | ")
	if want := "pkg/a | 13 | 1/1/1 | 5.7 | 67 % | 22 % | 0 | 2 | 3 | 2 | 3 | 1 (33 %) | a 1/1"; row != want {
		t.Errorf("row\n%s, want\n%s", row, want)
	}
	if len(measure.Rooms(packages)[0]) != len(measure.RoomsHeader()) {
		t.Error("the header has another number of columns than the rows")
	}
}
