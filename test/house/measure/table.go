package measure

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limits of a type; OneWordMethods is from how many methods on one of a single word says too little.
const (
	MaxMethods     = 40
	MaxFields      = 25
	OneWordMethods = 20
	longFunction   = 60
)

// Figures are rows of a figure's name and its value, over all packages.
func Figures(packages []*Package) [][]string {
	rows := fileRows(packages)
	rows = append(rows, functionRows(packages)...)
	rows = append(rows, commentRows(packages)...)
	return append(rows, typeRows(packages)...)
}

func fileRows(packages []*Package) [][]string {
	var lines []int
	code := 0
	for _, text := range texts(packages...) {
		lines = append(lines, text.Lines)
		code += text.Code
	}
	return [][]string{
		{"files; lines median/p90/largest", fmt.Sprintf("%d; %s", len(lines), SpreadOf(lines))},
		{"lines of code; of all", fmt.Sprintf("%d; %d", code, sum(lines))},
	}
}

func functionRows(packages []*Package) [][]string {
	all := functions(packages...)
	lines := pick(all, func(f Function) int { return f.Lines })
	parameters := pick(all, func(f Function) int { return f.Parameters })
	nestings := pick(all, func(f Function) int { return f.Nesting })
	complexities := pick(all, func(f Function) int { return f.Complexity })
	return [][]string{
		{"functions; lines median/p90/max", fmt.Sprintf("%d; %s", len(all), SpreadOf(lines))},
		{fmt.Sprintf("functions > %d lines", longFunction), strconv.Itoa(above(lines, longFunction))},
		{"parameters median/p90/max (> 5)", fmt.Sprintf("%s (%d)", SpreadOf(parameters), above(parameters, 5))},
		{"nesting median/p90/max", SpreadOf(nestings).String()},
		{"cyclomatic median/p90/max (> 11)", fmt.Sprintf("%s (%d)", SpreadOf(complexities), above(complexities, 11))},
		{"function name, mean letters", meanLetters(all)},
		{"one-word names, of all / of unexported", oneWord(all) + " / " + oneWord(unexported(all))},
		{"unexported functions documented", documented(unexported(all))},
	}
}

func commentRows(packages []*Package) [][]string {
	var widths, exports []int
	comments, code, exported, commented, introduced := 0, 0, 0, 0, 0
	for _, text := range texts(packages...) {
		comments, code = comments+text.Comments, code+text.Code
		widths = append(widths, text.Widths...)
	}
	for _, p := range packages {
		all, documented := p.Exported()
		exports = append(exports, all)
		exported, commented = exported+all, commented+documented
		introduced += count(p.HasComment())
	}
	wide := above(widths, MaxColumns)
	return [][]string{
		{"comments / (code + comments)", share(comments, code+comments)},
		{fmt.Sprintf("comment lines > %d columns (median/p90/max)", MaxColumns), fmt.Sprintf("%d, %s (%s)", wide, share(wide, len(widths)), SpreadOf(widths))},
		{"exported per package median/p90/max", SpreadOf(exports).String()},
		{"exported documented", fmt.Sprintf("%d/%d", commented, exported)},
		{"packages with a comment", fmt.Sprintf("%d/%d", introduced, len(packages))},
	}
}

func typeRows(packages []*Package) [][]string {
	var all []Type
	for _, p := range packages {
		all = append(all, p.Types()...)
	}
	slices.SortStableFunc(all, func(a, b Type) int {
		return cmp.Or(cmp.Compare(b.Methods, a.Methods), cmp.Compare(b.Fields, a.Fields))
	})
	large := len(slices.DeleteFunc(slices.Clone(all), func(t Type) bool { return t.Methods <= MaxMethods && t.Fields <= MaxFields }))
	rows := [][]string{{fmt.Sprintf("types > %d methods or > %d fields", MaxMethods, MaxFields), strconv.Itoa(large)}}
	for i, t := range all[:min(len(all), 5)] {
		rows = append(rows, []string{fmt.Sprintf("largest type %d, methods/fields", i+1), fmt.Sprintf("%s %d/%d", t.Name, t.Methods, t.Fields)})
	}
	return rows
}

// RoomsHeader names the columns of Rooms.
func RoomsHeader() []string {
	return []string{"package", "lines", "functions", "letters", "one-word", "comments", "wide", "exported", "rooms", "floors", "arrows", "up", "most up"}
}

// Rooms has a row for each package: its figures and its files as a house.
func Rooms(packages []*Package) [][]string {
	var rows [][]string
	for _, p := range packages {
		lines, comments, code, wide := 0, 0, 0, 0
		for _, text := range texts(p) {
			lines, comments, code, wide = lines+text.Lines, comments+text.Comments, code+text.Code, wide+text.Wide()
		}
		all := functions(p)
		exported, _ := p.Exported()
		g := p.Graph()
		row := []string{
			p.Dir, strconv.Itoa(lines), SpreadOf(pick(all, func(f Function) int { return f.Lines })).String(),
			meanLetters(all), oneWord(all), share(comments, code+comments), strconv.Itoa(wide), strconv.Itoa(exported),
			strconv.Itoa(len(g.Rooms)), strconv.Itoa(slices.Max(append(slices.Clone(g.Floors), 0))), strconv.Itoa(sum(g.Arrows)),
			fmt.Sprintf("%d (%s)", sum(g.Up), share(sum(g.Up), sum(g.Arrows))), g.mostUp(),
		}
		rows = append(rows, row)
	}
	return rows
}

// mostUp names the room with the largest share of arrows that lead up.
func (g Graph) mostUp() string {
	worst := -1
	for i := range g.Rooms {
		if g.Up[i] > 0 && (worst < 0 || g.Up[i]*g.Arrows[worst] > g.Up[worst]*g.Arrows[i]) {
			worst = i
		}
	}
	if worst < 0 {
		return "-"
	}
	return fmt.Sprintf("%s %d/%d", strings.TrimSuffix(path.Base(g.Rooms[worst]), ".go"), g.Up[worst], g.Arrows[worst])
}

func texts(packages ...*Package) []Text {
	var all []Text
	for _, p := range packages {
		for _, file := range p.Files {
			all = append(all, file.Text())
		}
	}
	return all
}

func functions(packages ...*Package) []Function {
	var all []Function
	for _, p := range packages {
		all = append(all, p.Functions()...)
	}
	return all
}

func unexported(all []Function) []Function {
	return slices.DeleteFunc(slices.Clone(all), func(f Function) bool { return f.Exported })
}

func meanLetters(all []Function) string {
	if len(all) == 0 {
		return "-"
	}
	letters := sum(pick(all, func(f Function) int { return Letters(f.Name) }))
	return fmt.Sprintf("%.1f", float64(letters)/float64(len(all)))
}

func oneWord(all []Function) string {
	return share(sum(pick(all, func(f Function) int { return count(Words(f.Name) == 1) })), len(all))
}

func documented(all []Function) string {
	return share(sum(pick(all, func(f Function) int { return count(f.Documented) })), len(all))
}

func pick(all []Function, value func(Function) int) []int {
	var values []int
	for _, f := range all {
		values = append(values, value(f))
	}
	return values
}

func above(values []int, limit int) int {
	n := 0
	for _, value := range values {
		n += count(value > limit)
	}
	return n
}

func sum(values []int) int {
	total := 0
	for _, value := range values {
		total += value
	}
	return total
}
