// Command mutants plants bugs in the state machine, one at a time and never in the
// product, and counts how many random worlds it takes until one of them breaks a
// rule. A mutant that is not found is a hole in the rules or in the worlds.
//
// A mutant is a file of ../../mutants: a line that says what is wrong, a line with
// the source file, and the old and the new text, each after a line of its own.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	dir := flag.String("dir", "test/worlds/mutants", "the folder of the mutants")
	n := flag.Int("n", 20000, "how many worlds a mutant may live through")
	only := flag.String("only", "", "only the mutant of this name")
	flag.Parse()
	if err := run(os.Stdout, *dir, *only, *n); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries every mutant and prints a line for each. It errs when one is not found, or cannot be planted.
func run(out io.Writer, dir, only string, n int) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("reading the mutants of %s: none found: run it from the module's root", dir)
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("making a folder for the mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var missed []error
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if only != "" && name != only {
			continue
		}
		began := time.Now()
		found, err := try(scratch, path, n)
		if err != nil {
			missed = append(missed, fmt.Errorf("mutant %s: %w", name, err))
			found = err.Error()
		}
		fmt.Fprintf(out, "%-34s %-6s %s\n", name, time.Since(began).Round(time.Second), found)
	}
	return errors.Join(missed...)
}

// mutant is one planted bug.
type mutant struct{ what, file, old, with string }

func parse(text string) (mutant, error) {
	head, rest, ok := strings.Cut(text, "\n-- old --\n")
	old, with, ok2 := strings.Cut(rest, "\n-- new --\n")
	what, file, ok3 := strings.Cut(head, "\n")
	if !ok || !ok2 || !ok3 {
		return mutant{}, errors.New("it is not: what, file, -- old --, -- new --")
	}
	return mutant{what: what, file: strings.TrimSpace(file), old: old, with: strings.TrimSuffix(with, "\n")}, nil
}

// try builds the worlds with one mutant and runs them until one breaks a rule.
func try(scratch, path string, n int) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading it: %w", err)
	}
	m, err := parse(string(text))
	if err != nil {
		return "", err
	}
	overlay, err := plant(scratch, m)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(scratch, "worlds")
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./test/worlds/cmd/worlds").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building it: %w: %s", err, out)
	}
	var out bytes.Buffer
	worlds := exec.Command(binary, "-n", fmt.Sprint(n), "-shrink=false")
	worlds.Stdout = &out
	if err := worlds.Run(); err == nil {
		return "", fmt.Errorf("not found in %d worlds: %s", n, m.what)
	}
	if found := firstBroken.FindString(out.String()); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("running the worlds: %.300s", out.String())
}

var firstBroken = regexp.MustCompile(`seed \d+: [^\n]{1,90}`)

// plant writes the file with the bug, and the overlay that puts it in the product's place for one build.
func plant(scratch string, m mutant) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", fmt.Errorf("reading its file: %w", err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("its old text is %d times in %s: bring the mutant up to date", n, m.file)
	}
	changed := filepath.Join(scratch, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.with, 1)), 0o600); err != nil {
		return "", fmt.Errorf("writing the mutant: %w", err)
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", m.file, err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	overlay := filepath.Join(scratch, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
