package house

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestContributingRecipesNameEachChangedFile builds the product with a made-up provider, strategy, rule and flag. Each of them consists of a new folder or
// file, and of lines in the files that its recipe in CONTRIBUTING.md names. No other file changes.
func TestContributingRecipesNameEachChangedFile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the product")
	}
	tree := overlay{files: map[string]string{}}
	contributing := readFile(t, "CONTRIBUTING.md")
	for _, recipe := range []string{"provider", "strategy", "preflight rule", "flag"} {
		_, text, found := strings.Cut(contributing, "### A "+recipe+"\n")
		if !found {
			t.Fatalf("CONTRIBUTING.md has no recipe for a %s", recipe)
		}
		text, _, _ = strings.Cut(text, "\n##")
		_, kind, both := strings.Cut(recipe, " ")
		if !both {
			kind = recipe
		}
		tree.applyRecipe(t, filepath.Join("testdata", "recipes", kind+".txtar"), namedFiles(text))
	}
	binary := tree.buildProduct(t)
	cases := map[string]struct {
		args []string
		want []string
	}{
		"the provider is known": {[]string{"--provider=none"}, []string{"use auto, example, aws, gke, karpenter or manual"}},
		"the provider upgrades": {[]string{"simulate", "-f", "testdata/recipes/unsized.yaml", "-l", "pool=workers", "--current", "version=v2", "--progress=plain"}, []string{"upgraded: 2 of 2 nodes replaced"}},
		"the strategy plans":    {[]string{"simulate", "--strategy=example"}, []string{"Strategy    example, with EKS's numbers: at most 2 nodes at a time", "the announcement 30m"}},
		"the strategy upgrades": {[]string{"simulate", "--strategy=example", "--progress=plain"}, []string{"phase announce", "phase replace", "upgraded: 12 of 12 nodes replaced"}},
		"the strategy is known": {[]string{"simulate", "--strategy=none"}, []string{"use surge, example, blue-green, autoscaled-blue-green, short-lived or delegated"}},
		"the rule finds":        {[]string{"check", "-l", "pool=workers", "-f", "testdata/recipes/cluster.yaml"}, []string{"EXA001", "is a workload: none is needed"}},
		"the flag is checked":   {[]string{"simulate", "--example-note=none"}, []string{"--example-note=none says nothing"}},
		"the flag is in help":   {[]string{"simulate", "--help"}, []string{"When it stops", "A note that the plan repeats"}},
		"the flag is planned":   {[]string{"simulate", "--example-note=ask Alice"}, []string{"Note        ask Alice"}},
		"the flag is recorded":  {[]string{"simulate", "--example-note=ask Alice", "-o", "json"}, []string{`"exampleNote": "ask Alice"`}},
		"the rule is explained": {[]string{"check", "--explain=exa001"}, []string{"EXA001 (warning)", "There is a workload."}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// A refusal and a plan have different exit codes. The text shows which it is.
			text, _ := exec.CommandContext(t.Context(), binary, c.args...).CombinedOutput()
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("%v prints no %q:\n%s", c.args, want, text)
				}
			}
		})
	}
}

// TestContributingRecipesNameDeclarationsThatExist checks that each function, type, field or constant that a recipe names is declared in Go.
func TestContributingRecipesNameDeclarationsThatExist(t *testing.T) {
	_, recipes, _ := strings.Cut(readFile(t, "CONTRIBUTING.md"), "\n## Recipes\n")
	recipes, _, found := strings.Cut(recipes, "\n## ")
	if !found {
		t.Fatal("CONTRIBUTING.md has no recipes")
	}
	declared := map[string]bool{}
	for _, src := range sources(t) {
		maps.Copy(declared, topLevelNames(src.file))
	}
	seen := 0
	for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(recipes, -1) {
		if seen++; !declared[name[1]] {
			t.Errorf("CONTRIBUTING.md names %s, which is not declared", name[1])
		}
	}
	if seen < 25 {
		t.Errorf("the recipes name only %d declarations", seen)
	}
}

// overlay is the repository with some changed and added files, by name.
type overlay struct{ files map[string]string }

// applyRecipe adds the files of a recipe. In an existing file, it adds lines after a unique line. The recipe must name that file.
func (o overlay) applyRecipe(t *testing.T, recipe string, mayChange []string) {
	t.Helper()
	archive, err := txtar.ParseFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archive.Files {
		name, changed := strings.CutSuffix(file.Name, " after")
		if !changed {
			o.files[name] = string(file.Data)
			continue
		}
		if !slices.Contains(mayChange, name) {
			t.Errorf("%s changes %s, which its recipe does not name", recipe, name)
		}
		text, begun := o.files[name]
		if !begun {
			text = readFile(t, name)
		}
		line, _, _ := strings.Cut(string(file.Data), "\n")
		if strings.Count(text, line+"\n") != 1 {
			t.Fatalf("%s: %s does not have the line %q once", recipe, name, line)
		}
		o.files[name] = strings.Replace(text, line+"\n", string(file.Data), 1)
	}
}

// buildProduct builds the product with the overlay's files and returns its path.
func (o overlay) buildProduct(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range o.files {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(repoRoot(t), filepath.FromSlash(name))] = path
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, list, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "kubectl-nodeupgrade")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlayFile, "-o", binary, "./cmd/kubectl-nodeupgrade")
	build.Dir = repoRoot(t)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the product does not build with them: %v\n%s", err, text)
	}
	return binary
}
