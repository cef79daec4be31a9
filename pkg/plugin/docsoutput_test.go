package plugin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDocsShowOutputOfThisProgram checks that the output on a page consists of texts in the source and of values. So it finds pages
// that still quote an earlier wording.
func TestDocsShowOutputOfThisProgram(t *testing.T) {
	texts := collectTexts(t, "../../pkg", "../../cmd")
	seen := 0
	for name, page := range pagesForUsers(t) {
		for _, block := range listOutputs(page) {
			seen++
			if rest := findForeignWords(block, texts); len(rest) > 0 {
				t.Errorf("%s shows %q, but no text of the program has %q", name, block, rest)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d blocks of output were found", seen)
	}
}

// TestWordsMissingFromProgramOutputAreFound checks the comparison with words that have changed, that stand for values, and that are
// a whole text.
func TestWordsMissingFromProgramOutputAreFound(t *testing.T) {
	texts := newOutputTexts()
	for _, part := range []string{"and are kept", "had been replaced", "aborted:", "of", "nodes", "workloads do not recover"} {
		texts.add(part)
	}
	for line, want := range map[string][]string{
		"nodegroup/np1 aborted: 4 of 12 nodes had been replaced, and are kept": nil,
		"nodegroup/np1 aborted: 4 of 12 nodes had been replaced, and stay so":  {"and", "stay", "so"},
		"… of 12 nodes … had been replaced … do not recover":                   nil,
	} {
		if got := findForeignWords(line, texts); !slices.Equal(got, want) {
			t.Errorf("findForeignWords(%q) = %q, want %q", line, got, want)
		}
	}
}

// outputTexts are the string literals of a program, cut at their formatting verbs such as %s.
type outputTexts struct {
	// parts are texts of two words or more, the longest first.
	parts []string
	// words are literals of one word, and single words between formatting verbs.
	words map[string]bool
	// beginnings and endings are those of the parts. They have two words or more.
	beginnings, endings map[string]bool
}

var verbOfFormat = regexp.MustCompile(`%[-+#0]*[0-9.]*[a-zA-Z%]|\n`)

// collectTexts reads the string literals of the Go files in folders, without those of tests.
func collectTexts(t *testing.T, folders ...string) outputTexts {
	t.Helper()
	texts := newOutputTexts()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					if err != nil {
						return false
					}
					for _, part := range verbOfFormat.Split(text, -1) {
						texts.add(strings.TrimLeft(strings.Join(strings.Fields(part), " "), ",;:.) "))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(texts.parts, func(a, b string) int { return len(b) - len(a) })
	return texts
}

func newOutputTexts() outputTexts {
	return outputTexts{words: map[string]bool{}, beginnings: map[string]bool{}, endings: map[string]bool{}}
}

func (o *outputTexts) add(part string) {
	words := strings.Fields(part)
	if len(words) < 2 {
		o.words[strings.Trim(part, ".,:;()")] = true
		return
	}
	o.parts = append(o.parts, part)
	for n := 2; n <= len(words); n++ {
		o.beginnings[strings.Join(words[:n], " ")] = true
		o.endings[strings.Join(words[len(words)-n:], " ")] = true
	}
}

// listOutputs returns the output in each block of a page: in those of console, and in those without a language that are no drawing.
// Commands are left out, and a block is one line, because pages wrap output.
func listOutputs(page string) []string {
	var outputs []string
	inBlock, shows, lines := false, false, []string(nil)
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if language, isFence := strings.CutPrefix(line, "```"); isFence {
			if shows && len(lines) > 0 {
				outputs = append(outputs, strings.Join(lines, " "))
			}
			inBlock, lines = !inBlock, nil
			shows = inBlock && (language == "" || language == "console")
			continue
		}
		isCommand := strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "kubectl ")
		if shows && line != "" && !isCommand && !strings.HasPrefix(line, "{") && !strings.ContainsAny(line, "▶▲└") {
			lines = append(lines, line)
		}
	}
	return outputs
}

var (
	// shownRemedy is a command inside a line of output.
	shownRemedy = regexp.MustCompile(`kubectl [a-z][^:;]*`)
	plainWord   = regexp.MustCompile(`^[a-z]{2,}$`)
	// valuesInDocs are names of objects and revisions in the pages.
	valuesInDocs = []string{"workers", "prod", "image", "web"}
)

// findForeignWords returns the plain words of an output that are part of no text. "…" stands for anything, also for a part of a text.
func findForeignWords(output string, texts outputTexts) []string {
	var foreign []string
	for piece := range strings.SplitSeq(output, "…") {
		words := strings.Fields(piece)
		words = words[countEnding(words, texts.endings):]
		piece = strings.Join(words[:len(words)-countBeginning(words, texts.beginnings)], " ")
		for _, part := range texts.parts {
			piece = cutWords(piece, part)
		}
		for word := range strings.FieldsSeq(shownRemedy.ReplaceAllString(piece, "…")) {
			word = strings.Trim(word, ".,:;()")
			isText := texts.words[word] || texts.words[strings.TrimSuffix(word, "s")]
			if plainWord.MatchString(word) && !isText && !slices.Contains(valuesInDocs, word) {
				foreign = append(foreign, word)
			}
		}
	}
	return foreign
}

// countEnding returns the number of words at the front that are the end of a text.
func countEnding(words []string, endings map[string]bool) int {
	for n := len(words); n >= 2; n-- {
		if endings[strings.Join(words[:n], " ")] {
			return n
		}
	}
	return 0
}

// countBeginning returns the number of words at the back that are the beginning of a text.
func countBeginning(words []string, beginnings map[string]bool) int {
	for n := len(words); n >= 2; n-- {
		if beginnings[strings.Join(words[len(words)-n:], " ")] {
			return n
		}
	}
	return 0
}

// cutWords replaces a text by "…" where it does not begin or end inside a word.
func cutWords(line, text string) string {
	isLetter := func(b byte) bool { return b >= 'a' && b <= 'z' }
	for from := 0; ; {
		i := strings.Index(line[from:], text)
		if i < 0 {
			return line
		}
		i += from
		end := i + len(text)
		if end < len(line) && line[end] == 's' && (end+1 == len(line) || !isLetter(line[end+1])) {
			end++ // a plural
		}
		if i > 0 && isLetter(line[i-1]) && isLetter(text[0]) || end < len(line) && isLetter(line[end]) && isLetter(text[len(text)-1]) {
			from = i + 1
			continue
		}
		line = line[:i] + "…" + line[end:]
		from = i
	}
}
