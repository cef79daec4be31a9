package worlds

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestDeclaredWordsListEachActionAndConstant checks that declaredWords returns all actions, and all constants of the types in words. Tally.Rare can list
// only declared words.
func TestDeclaredWordsListEachActionAndConstant(t *testing.T) {
	apart := map[string]bool{
		"ObstacleKind ":           true, // the zero value: no obstacle
		"InstanceState Standby":   true, // only AWS has it among the clouds here, and no world leads to it
		"ObstacleKind keeps-node": true, // it is only for a status of Karpenter, and no world has its NodePools
	}
	words := map[string]string{
		"ActorKind": "actor", "FaultKind": "fault", "Kind": "workload", "Shape": "budget",
		"Strategy": "strategy", "OnTimeout": "on-timeout", "Phase": "phase", "NodeState": "state", "InstanceState": "instance",
		"Outcome": "outcome", "Result": "result", "ObstacleKind": "blocked", "Reason": "pod", "action": "action", "Verb": "verb", "Rollout": "rollout",
	}
	all, found := declaredWords(), map[string]bool{}
	for _, folder := range []string{".", "../../pkg/nodegroup", "../../pkg/nodemark", "../../pkg/upgrade", "../../pkg/upgrade/record", "../../pkg/drain", "../../pkg/drain/schedule"} {
		for _, word := range constants(t, folder) {
			found[word.of] = true
			if apart[word.of+" "+word.name] || words[word.of] == "" {
				continue
			}
			if key := [2]string{words[word.of], word.name}; !slices.Contains(all, key) {
				t.Errorf("%s %q of %s is not declared", word.of, word.name, folder)
			}
		}
	}
	for of := range words {
		if !found[of] {
			t.Errorf("no constant of type %s was found: this test no longer reads the source as it is written", of)
		}
	}
}

// TestRareListsWordsCountedTooSeldom checks that Rare lists the words with too small counts after many worlds, and no words after few
// worlds.
func TestRareListsWordsCountedTooSeldom(t *testing.T) {
	met := Tally{}
	for _, key := range declaredWords() {
		met[key] = 100
	}
	if rare := met.Rare(100_000); len(rare) != 0 {
		t.Errorf("met often enough, and listed as rare: %v", rare)
	}
	met[[2]string{"fault", string(BootNever)}] = 99
	delete(met, [2]string{"result", string(record.Paused)})
	want := []string{`fault "nodes never boot": 99`, `result "paused": 0`}
	if rare := met.Rare(100_000); !slices.Equal(rare, want) {
		t.Errorf("got %q, want %q", rare, want)
	}
	if rare := met.Rare(999); len(rare) != 0 {
		t.Errorf("999 worlds are too few to call a word rare, and Rare lists %q", rare)
	}
}

type word struct{ of, name string }

// constants returns the string constants of a folder's source with the names of their types, and its actions by the prefix of their
// keys.
func constants(t *testing.T, folder string) []word {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	var words []word
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && n.Name.Name == "Key" && folder != "." {
					words = append(words, actionOf(n)...)
				}
				return false
			case *ast.ValueSpec:
				words = append(words, constantsOf(n)...)
			}
			return true
		})
	}
	return words
}

func constantsOf(spec *ast.ValueSpec) []word {
	of, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != len(spec.Names) {
		return nil
	}
	var words []word
	for _, value := range spec.Values {
		if text, ok := literal(value); ok {
			words = append(words, word{of.Name, text})
		}
	}
	return words
}

// actionOf returns the kind of the action with the given Key method: the first string literal of the method, up to its first slash. It
// returns nothing for Key methods of other types, which have no such literal.
func actionOf(key *ast.FuncDecl) []word {
	var words []word
	ast.Inspect(key.Body, func(node ast.Node) bool {
		if text, ok := literal(node); ok && len(words) == 0 {
			if kind, _, _ := strings.Cut(text, "/"); strings.TrimSpace(kind) != "" { // other Key methods begin with a separator, for example strings.Join(list, "/")
				words = append(words, word{"action", kind})
			}
		}
		return true
	})
	return words
}

func literal(node ast.Node) (string, bool) {
	lit, ok := node.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
