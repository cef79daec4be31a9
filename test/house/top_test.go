package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readFile returns the text of a file. Its path is relative to the top of the repository.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// completionFaults lists the faults because of which kubectl could not use the completion script.
func completionFaults(text string, mode os.FileMode) []string {
	call := regexp.MustCompile(`(?m)^exec kubectl-nodeupgrade __complete "\$@"$`)
	return failedChecks(
		check{strings.HasPrefix(text, "#!/usr/bin/env sh\n"), "it does not start with #!/usr/bin/env sh"},
		check{call.MatchString(text), "it does not hand its arguments to kubectl-nodeupgrade __complete"},
		check{mode&0o111 == 0o111, "it is not executable"},
	)
}

func TestCompletionScriptIsExecutableAndCallsPlugin(t *testing.T) {
	const name = "kubectl_complete-nodeupgrade"
	info, err := os.Stat(filepath.Join(repoRoot(t), name))
	if err != nil {
		t.Fatal(err)
	}
	reportFaults(t, completionFaults(readFile(t, name), info.Mode()))
}

func TestFaultyCompletionScriptsAreFound(t *testing.T) {
	const shebang, call = "#!/usr/bin/env sh\n", "exec kubectl-nodeupgrade __complete \"$@\"\n"
	cases := map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"good":               {shebang + call, 0o755, ""},
		"no interpreter":     {call, 0o755, "#!/usr/bin/env sh"},
		"another command":    {shebang + "exec kubectl-nodeupgrade completion\n", 0o755, "__complete"},
		"words lost":         {shebang + "exec kubectl-nodeupgrade __complete $@\n", 0o755, "__complete"},
		"executable by none": {shebang + call, 0o644, "not executable"},
		"executable by one":  {shebang + call, 0o744, "not executable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, completionFaults(c.text, c.mode), c.want) })
	}
}

// targetsWithHelp returns a Makefile's targets with their texts in "make help".
func targetsWithHelp(makefile string) map[string]string {
	target := regexp.MustCompile(`(?m)^([a-z-]+):(?:[^=\n]*?## (\S.*))?`)
	found := map[string]string{}
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		found[m[1]] = m[2]
	}
	return found
}

// targetFaults lists the promised targets that the Makefile does not have, or that have no text in "make help".
func targetFaults(makefile string, promised []string) []string {
	found := targetsWithHelp(makefile)
	var faults []string
	for _, name := range promised {
		help, ok := found[name]
		faults = append(faults, failedChecks(
			check{ok, "make " + name + ": no such target"},
			check{!ok || help != "", "make " + name + ": make help does not explain it"},
		)...)
	}
	return faults
}

// makeTargetsIn lists the targets of the make commands in a text.
func makeTargetsIn(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile("(?m)(?:`|^ *|^exec |\")make ([a-z][a-z -]*)").FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Fields(m[1])...)
	}
	return names
}

func TestMakefileHasEachTargetThatDocsName(t *testing.T) {
	names := []string{
		"build", "test", "verify", "demo", "cluster", "bench", "tools", "controlplane",
		"fuzz", "update-golden", "install", "clean", "help",
	}
	for _, name := range []string{".ci/run", "CONTRIBUTING.md", "README.md"} {
		if _, err := os.Stat(filepath.Join(repoRoot(t), name)); err == nil {
			names = append(names, makeTargetsIn(readFile(t, name))...)
		}
	}
	slices.Sort(names)
	reportFaults(t, targetFaults(readFile(t, "Makefile"), slices.Compact(names)))
}

func TestFaultsInMakeTargetsAreFound(t *testing.T) {
	const makefile = "X := test\ntest: build ## Run every test\n\tgo test ./...\nbuild:\n\tgo build\n"
	cases := map[string]struct{ name, want string }{
		"explained":     {"test", ""},
		"not explained": {"build", "make help does not explain"},
		"missing":       {"demo", "make demo: no such target"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, targetFaults(makefile, []string{c.name}), c.want) })
	}
}

func TestMakeTargetsAreReadFromTexts(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"in a sentence":       {"Run `make verify` first.", []string{"verify"}},
		"in a code block":     {"x\n    make test\n", []string{"test"}},
		"two at once":         {"exec make verify test\n", []string{"verify", "test"}},
		"with a setting":      {"`make cluster NODES=9`", []string{"cluster"}},
		"the word in a text":  {"and make sure", nil},
		"nothing of the kind": {"x", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := makeTargetsIn(c.text); !slices.Equal(got, c.want) {
				t.Errorf("promised(%q) = %q, want %q", c.text, got, c.want)
			}
		})
	}
}

// moduleFaults returns a fault if go.mod has a line because of which "go install …@version" refuses the module.
func moduleFaults(gomod string) []string {
	replace := regexp.MustCompile(`(?m)^(replace|exclude)\b`)
	return failedChecks(check{!replace.MatchString(gomod), "go.mod replaces or excludes a module: go install refuses it"})
}

func TestModuleCanBeInstalled(t *testing.T) {
	reportFaults(t, moduleFaults(readFile(t, "go.mod")))
}

func TestGoModThatCannotBeInstalledIsFound(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"plain":          {"module a\n\ngo 1.26\n", ""},
		"a replace line": {"module a\n\nreplace b => c v1.0.0\n", "go install refuses"},
		"a block":        {"module a\n\nreplace (\n\tb => ../b\n)\n", "go install refuses"},
		"in a comment":   {"module a // replace nothing\n", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, moduleFaults(c.text), c.want) })
	}
}

// namedFiles lists the files and folders of the repository that a text names in backquotes. It omits names with capital letters, which
// are placeholders.
func namedFiles(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile("`((?:cmd|docs|pkg|test)/[a-z0-9_./-]+)`").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

func TestRecipesNameExistingFiles(t *testing.T) {
	names := namedFiles(readFile(t, "CONTRIBUTING.md"))
	if len(names) == 0 {
		t.Fatal("CONTRIBUTING.md names no file: nothing would be checked")
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(repoRoot(t), filepath.FromSlash(name))); err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which is not there", name)
		}
	}
}

func TestFileNamesAreReadFromTexts(t *testing.T) {
	const text = "Read `pkg/a/b.go`, then `go run ./test/x`, pkg/c and `test/d`; add `pkg/NAME` (`pkg/e/f_test.go`)."
	if got, want := namedFiles(text), []string{"pkg/a/b.go", "test/d", "pkg/e/f_test.go"}; !slices.Equal(got, want) {
		t.Errorf("named %q, want %q", got, want)
	}
}
