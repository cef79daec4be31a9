// Command mutants plants bugs in the state machine, one at a time and never in the
// product, and counts how many random worlds it takes until one of them breaks a
// rule that it does not break without the bug. A mutant that is not found is a hole
// in the rules or in the worlds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
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
	flag.Parse()
	if err := run(os.Stdout, h, *dir, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run hunts every mutant and prints a line for each. It returns an error when one is not found or cannot be planted, and then before any is hunted.
func run(out io.Writer, h hunt, dir, only string) error {
	mutants, err := mutant.ReadAll(dir, only)
	if err != nil {
		return err
	}
	began := time.Now()
	var missed []error
	fmt.Fprintf(out, "%-32s %-12s %6s  %s\n", "MUTANT", "WORLD", "TOOK", "BROKEN RULE")
	for trace := range h.all(mutants) {
		if trace.err != nil {
			missed = append(missed, fmt.Errorf("mutant %s: %w", trace.mutant.Name, trace.err))
			trace.broken = trace.err.Error()
		}
		fmt.Fprintf(out, "%-32s %-12s %6s  %.110s\n", trace.mutant.Name, trace.world, trace.took.Round(time.Second), trace.broken)
		for _, world := range trace.innocent {
			fmt.Fprintf(out, "%-32s %s does not count: it breaks a rule without the mutant\n", "", world)
		}
	}
	fmt.Fprintf(out, "%d of %d mutants found in %s\n", len(mutants)-len(missed), len(mutants), time.Since(began).Round(time.Second))
	return errors.Join(missed...)
}
