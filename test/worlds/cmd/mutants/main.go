// Command mutants tests the rules of the worlds. It builds the worlds with one bug at a time in a copy of the state machine, and runs
// them until one breaks a rule that it does not break without the bug. A mutant that no world finds shows a gap in the rules or in the
// worlds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/mutant"
)

func main() {
	var h hunt
	dir := flag.String("dir", "test/worlds/mutants", "the folder of the mutants")
	only := flag.String("only", "*", "only the mutants whose names match")
	flag.IntVar(&h.worlds, "n", 20_000, "how many worlds a mutant may live through")
	flag.IntVar(&h.parallel, "j", runtime.GOMAXPROCS(0), "how many mutants at once")
	flag.StringVar(&h.strategy, "strategy", "", "only in worlds whose upgrade has the strategy, of that many")
	flag.BoolVar(&h.forget, "forget", false, "do not begin with the worlds that found the mutants the last time")
	flag.Parse()
	if err := run(os.Stdout, h, *dir, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run searches for every mutant and prints a line for each. It stores the seeds of the worlds that found mutants. It returns an error
// if a mutant is not found. If a mutant cannot be planted, it returns an error before the search.
func run(out io.Writer, h hunt, dir, only string) error {
	mutants, err := mutant.ReadAll(dir, only)
	if err != nil {
		return err
	}
	seeds := filepath.Join(dir, "seeds.txt")
	known, err := readSeeds(seeds)
	if err != nil {
		return err
	}
	if h.known = maps.Clone(known); h.forget {
		h.known = nil
	}
	began := time.Now()
	var missed []error
	fmt.Fprintf(out, "%-32s %-12s %6s  %s\n", "MUTANT", "WORLD", "TOOK", "BROKEN RULE")
	for trace := range h.huntAll(mutants) {
		if trace.err != nil {
			missed = append(missed, fmt.Errorf("mutant %s: %w", trace.mutant.Name, trace.err))
			trace.broken = trace.err.Error()
		}
		fmt.Fprintf(out, "%-32s %-12s %6s  %.110s\n", trace.mutant.Name, trace.world, trace.took.Round(time.Second), trace.broken)
		delete(known, trace.mutant.Name)
		if number, drawn := strings.CutPrefix(trace.world, "seed "); drawn {
			known[trace.mutant.Name], _ = strconv.ParseUint(number, 10, 64) // the pattern matches only digits there
		}
		for _, world := range trace.innocent {
			fmt.Fprintf(out, "%-32s %s does not count: it breaks a rule without the mutant\n", "", world)
		}
	}
	fmt.Fprintf(out, "%d of %d mutants found in %s\n", len(mutants)-len(missed), len(mutants), time.Since(began).Round(time.Second))
	return errors.Join(append(missed, writeSeeds(seeds, known))...)
}

// readSeeds reads the seed of the world that last found each mutant, from lines "NAME SEED". A missing file means that there are none.
func readSeeds(path string) (map[string]uint64, error) {
	known := map[string]uint64{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading where mutants were found: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var seed uint64
		if _, err := fmt.Sscan(line, &name, &seed); err != nil {
			return nil, fmt.Errorf("reading where mutants were found: %s: %q: %w: delete the file", path, line, err)
		}
		known[name] = seed
	}
	return known, nil
}

func writeSeeds(path string, known map[string]uint64) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintln(&text, name, known[name])
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("noting where mutants were found: %w", err)
	}
	return nil
}
