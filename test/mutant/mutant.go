// Package mutant plants bugs in the product, one at a time and never in its source: a build takes a changed copy of
// one file for it.
package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one bug to plant: what is wrong, and which text of which source file becomes which.
//
// It is a file: a line that says what is wrong, a line with the source file, and the old and the new text, each
// after a line of its own. The old text stands exactly once in the source, so that a change of the source
// that a mutant rests on is noticed.
type Mutant struct {
	Name, What, File string
	old, with        string
	// source is the whole file with the bug in it.
	source string
}

// ReadAll reads the mutants of a folder whose names match the pattern, and applies each to its source. It returns an error for all
// that cannot be applied, or that plant the same bug as another, at once and each by its name.
func ReadAll(dir, only string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, only+".txt"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("reading the mutants of %s: none is named %s: run it from the module's root", dir, only)
	}
	mutants := make([]Mutant, 0, len(paths))
	var broken []error
	bySource := make(map[string]string, len(paths))
	for _, path := range paths {
		m, err := read(path)
		if same := bySource[m.source]; err == nil && same != "" {
			err = fmt.Errorf("it plants the same bug as %s: delete one of the two", same)
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("mutant %s: %w", m.Name, err))
		}
		bySource[m.source] = m.Name
		mutants = append(mutants, m)
	}
	return mutants, errors.Join(broken...)
}

func read(path string) (Mutant, error) {
	m := Mutant{Name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	text, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("reading it: %w", err)
	}
	if err := m.parse(string(text)); err != nil {
		return m, err
	}
	source, err := os.ReadFile(m.File)
	if err != nil {
		return m, fmt.Errorf("reading its source: %w", err)
	}
	return m, m.apply(string(source))
}

func (m *Mutant) parse(text string) error {
	head, rest, ok := strings.Cut(text, "\n-- old --\n")
	old, with, ok2 := strings.Cut(rest, "\n-- new --\n")
	what, file, ok3 := strings.Cut(head, "\n")
	if !ok || !ok2 || !ok3 {
		return errors.New("it is not: what, file, -- old --, -- new --")
	}
	m.What, m.File, m.old, m.with = what, strings.TrimSpace(file), old, strings.TrimSuffix(with, "\n")
	return nil
}

func (m *Mutant) apply(source string) error {
	if n := strings.Count(source, m.old); n != 1 {
		return fmt.Errorf("its old text stands %d times in %s, not once: bring the mutant up to date", n, m.File)
	}
	m.source = strings.Replace(source, m.old, m.with, 1)
	if m.source == source {
		return errors.New("it changes nothing")
	}
	return nil
}

// Plant writes the source with the bug into the folder, and returns the overlay that has one build take it for the product's.
func (m *Mutant) Plant(scratch string) (overlay string, err error) {
	changed := filepath.Join(scratch, m.Name+".go")
	if err := os.WriteFile(changed, []byte(m.source), 0o600); err != nil {
		return "", fmt.Errorf("writing the mutant: %w", err)
	}
	original, err := filepath.Abs(m.File)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", m.File, err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	overlay = filepath.Join(scratch, m.Name+".json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
