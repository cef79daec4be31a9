package rulebook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/mutant"
)

// Prove plants each mutant that cites one of the rules, runs the tests that cite the same rules, and records the tests that fail in
// Rule.Broken. The working directory must be the top of the checkout.
func Prove(ctx context.Context, rules []Rule, parallel int) error {
	var mutants []mutant.Mutant
	for _, folder := range folders() {
		some, err := mutant.ReadAll(folder, "*")
		if err != nil {
			return err
		}
		mutants = append(mutants, some...)
	}
	built, err := listTestDependencies(ctx)
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(parallel)
	failed := make([][]testEvent, len(mutants))
	for i := range mutants {
		tests := testsFor(rules, &mutants[i], built)
		if len(tests) == 0 {
			continue
		}
		work.Go(func() (err error) {
			if failed[i], err = runWithMutant(ctx, &mutants[i], tests); err != nil {
				err = fmt.Errorf("mutant %s: %w", mutants[i].Name, err)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for i := range mutants {
		noteBroken(rules, mutants[i].Name, failed[i])
	}
	return nil
}

// testsFor returns the tests of all rules that the mutant cites, without tests that are not built from the mutant's file.
func testsFor(rules []Rule, m *mutant.Mutant, built map[string][]string) []Test {
	var tests []Test
	for i := range rules {
		if slices.Contains(rules[i].Mutants, m.Name) {
			tests = append(tests, rules[i].Tests...)
		}
	}
	return slices.DeleteFunc(tests, func(t Test) bool { return !slices.Contains(built[t.Dir], path.Dir(m.File)) })
}

// listTestDependencies lists, by folder, the folders of pkg from which the tests of each folder are built.
func listTestDependencies(ctx context.Context) (map[string][]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./pkg/...").Output()
	if err != nil {
		return nil, fmt.Errorf("listing what tests are built from: %w", err)
	}
	built := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		test, isTest := strings.CutSuffix(packages[0], ".test")
		for _, p := range packages[1:] {
			if isTest {
				built[dirOf(test)] = append(built[dirOf(test)], dirOf(p))
			}
		}
	}
	return built, nil
}

// dirOf returns the folder of a package of pkg, relative to the top.
func dirOf(importPath string) string {
	_, dir, _ := strings.Cut(importPath, "/pkg/")
	return "pkg/" + dir
}

func noteBroken(rules []Rule, mutant string, failed []testEvent) {
	for i := range rules {
		rule := &rules[i]
		rule.Tried = true
		for _, t := range rule.Tests {
			broken := slices.ContainsFunc(failed, func(e testEvent) bool { return t.matches(dirOf(e.Package), e.Test) })
			if broken && slices.Contains(rule.Mutants, mutant) && !slices.Contains(rule.Broken, t) {
				rule.Broken = append(rule.Broken, t)
			}
		}
	}
}

// testEvent is a line of go test -json.
type testEvent struct{ Action, Package, Test string }

// runWithMutant runs tests with the mutant in place of the original file and returns the tests that fail.
func runWithMutant(ctx context.Context, m *mutant.Mutant, tests []Test) ([]testEvent, error) {
	scratch, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, fmt.Errorf("making a folder for it: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	overlay, err := m.Plant(scratch)
	if err != nil {
		return nil, err
	}
	var names, dirs []string
	for _, t := range tests {
		names, dirs = append(names, t.Name), append(dirs, "./"+t.Dir)
	}
	slices.Sort(dirs)
	args := []string{"test", "-json", "-timeout", "10m", "-overlay", overlay, "-run", "^(" + strings.Join(names, "|") + ")$"}
	out, err := exec.CommandContext(ctx, "go", append(args, slices.Compact(dirs)...)...).Output()
	failed, unread := readFailed(out)
	switch {
	case unread != nil:
		return nil, unread
	case err != nil && len(failed) == 0:
		return nil, fmt.Errorf("running the tests: %w: %.2000s", err, out)
	}
	return failed, nil
}

// readFailed returns the failed tests in the output of go test -json. If the mutant does not build, it returns an error.
func readFailed(said []byte) ([]testEvent, error) {
	var failed []testEvent
	for line := range bytes.Lines(said) {
		var e testEvent
		switch err := json.Unmarshal(line, &e); {
		case err != nil:
			return nil, fmt.Errorf("reading what go test says: %w: %.500s", err, line)
		case e.Action == "build-fail":
			return nil, fmt.Errorf("it does not build: %.2000s", said)
		case e.Action == "fail" && e.Test != "":
			failed = append(failed, e)
		}
	}
	return failed, nil
}
