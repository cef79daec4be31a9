package house

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract/reference"
)

// TestJSONReferenceMatchesGoTypes checks docs/reference/json, which must not have files of removed kinds.
func TestJSONReferenceMatchesGoTypes(t *testing.T) {
	folder := filepath.Join(repoRoot(t), contract.Folder)
	want, err := reference.Generate(repoRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(names, wanted) {
		t.Errorf("%s has %s, want %s", contract.Folder, strings.Join(names, ", "), strings.Join(wanted, ", "))
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != text {
			t.Errorf("%s/%s does not match the Go types (%v): run go test ./test/house -update", contract.Folder, name, err)
		}
	}
}

// TestJSONReferenceIsComplete checks that each field of each document has a comment.
func TestJSONReferenceIsComplete(t *testing.T) {
	files, err := reference.Generate(repoRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for name, text := range files {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "| `") || !strings.HasSuffix(name, ".md") {
				continue
			}
			rows++
			if cells := strings.Split(line, "|"); strings.TrimSpace(cells[len(cells)-2]) == "" {
				t.Errorf("%s: field%sneeds a comment in its Go type", name, cells[1])
			}
		}
	}
	if rows < 300 {
		t.Errorf("only %d fields are documented", rows)
	}
}
