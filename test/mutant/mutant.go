// Package mutant plants bugs in builds of the product. It does not change the product's source: a build uses a changed copy of one
// file instead.
package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// Mutant is one bug: a description, and a text of a source file with its replacement. The source must contain the old text exactly
// once, so that a change of the source that affects the mutant is noticed.
type Mutant struct {
	Name, What, File string
	old, with        string
	// source is the whole file with the bug in it.
	source string
}

// List reads the mutants of a folder, sorted by name. It does not read their sources. The folder has a txtar archive for each source
// file: pkg/x/y.txtar for pkg/x/y.go. Each mutant is three files in its archive. The first has the mutant's name and describes the
// bug. The second, old, is a text of the source. The third, new, replaces that text.
//
// Errors: the folder cannot be read; an archive has other files; two mutants have the same name.
func List(folder fs.FS) ([]Mutant, error) {
	var mutants []Mutant
	err := fs.WalkDir(folder, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".txtar" {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		some, err := parseArchive(strings.TrimSuffix(name, ".txtar")+".go", text)
		mutants = append(mutants, some...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading mutants: %w", err)
	}
	slices.SortFunc(mutants, func(a, b Mutant) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(mutants); i++ {
		if mutants[i].Name == mutants[i-1].Name {
			return nil, fmt.Errorf("reading mutants: two mutants have the name %s: rename one", mutants[i].Name)
		}
	}
	return mutants, nil
}

// parseArchive reads the mutants of a source file.
func parseArchive(source string, archive []byte) ([]Mutant, error) {
	files := txtar.Parse(archive).Files
	var mutants []Mutant
	for len(files) > 0 {
		if len(files) < 3 || files[1].Name != "old" || files[2].Name != "new" {
			return nil, fmt.Errorf("mutant %s of %s needs three parts: what is wrong, -- old --, -- new --", files[0].Name, source)
		}
		text := func(i int) string { return strings.TrimSuffix(string(files[i].Data), "\n") }
		mutants = append(mutants, Mutant{Name: files[0].Name, What: text(0), File: source, old: text(1), with: text(2)})
		files = files[3:]
	}
	return mutants, nil
}

// ReadAll reads the mutants of a folder whose names match the pattern, and applies each to its source. If mutants cannot be applied,
// or plant the same bug as another, it returns one error that names them all.
func ReadAll(dir, only string) ([]Mutant, error) {
	mutants, err := List(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	mutants = slices.DeleteFunc(mutants, func(m Mutant) bool {
		matches, err := path.Match(only, m.Name)
		return err != nil || !matches
	})
	if len(mutants) == 0 {
		return nil, fmt.Errorf("reading the mutants of %s: none is named %s: run it from the module's root", dir, only)
	}
	var broken []error
	bySource := make(map[string]string, len(mutants))
	for i := range mutants {
		m := &mutants[i]
		err := m.applyToSource()
		if same := bySource[m.source]; err == nil && same != "" {
			err = fmt.Errorf("it plants the same bug as %s: delete one of the two", same)
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("mutant %s: %w", m.Name, err))
		}
		bySource[m.source] = m.Name
	}
	return mutants, errors.Join(broken...)
}

// applyToSource reads the source file and sets m.source, the text with the bug.
func (m *Mutant) applyToSource() error {
	text, err := os.ReadFile(m.File)
	if err != nil {
		return fmt.Errorf("reading its source: %w", err)
	}
	source := string(text)
	if n := strings.Count(source, m.old); n != 1 {
		return fmt.Errorf("its old text stands %d times in %s, not once: bring the mutant up to date", n, m.File)
	}
	m.source = strings.Replace(source, m.old, m.with, 1)
	if m.source == source {
		return errors.New("it changes nothing")
	}
	return nil
}

// Plant writes the source with the bug into the folder. It returns the path of an overlay with which a build uses that source instead
// of the product's.
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
