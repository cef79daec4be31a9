// Command fidelity compares plans with upgrades. In each scenario, kubectl nodeupgrade --dry-run predicts the duration, the number of
// evictions, and the order of nodes. Then the same command upgrades the nodes on a real control plane. The command prints both, and
// exits with 1 if they differ by more than the tolerance.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// seed is the default seed of the random terminations.
const seed = 1

func main() {
	only := flag.String("run", "", "Only the scenarios whose name the regular expression matches")
	seed := flag.Uint64("seed", seed, "What settles the random terminations")
	atOnce := flag.Int("at-once", 4, "How many scenarios run at the same time")
	keep := flag.String("keep", "", "A folder to keep each plan and each upgrade's events in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	fmt.Printf("random terminations from seed %d\n", *seed)
	err := run(ctx, scenarios(*seed), *only, *keep, *atOnce)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fidelity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, all []scenario, only, keep string, atOnce int) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("reading -run: %w", err)
	}
	all = slices.DeleteFunc(all, func(s scenario) bool { return !wanted.MatchString(s.name) })
	for i := range all {
		all[i].keepIn = keep
	}
	fmt.Printf("%d scenarios\n", len(all))
	outcomes, err := runAll(ctx, all, atOnce)
	if err != nil {
		return err
	}
	if err := writeTable(os.Stdout, outcomes); err != nil {
		return err
	}
	faults := 0
	for i := range outcomes {
		faults += len(outcomes[i].faults())
	}
	if faults > 0 {
		return errors.New("the plan is not what happens: see the last column")
	}
	return nil
}

// runAll runs the scenarios on one fixture, atOnce of them in parallel, and returns their outcomes in the same order.
func runAll(ctx context.Context, all []scenario, atOnce int) ([]outcome, error) {
	s, err := newFixture(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	outcomes := make([]outcome, len(all))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i := range all {
		work.Go(func() (err error) {
			if outcomes[i], err = runScenario(ctx, s, &all[i]); err != nil {
				err = fmt.Errorf("running %q: %w", all[i].name, err)
			}
			return err
		})
	}
	return outcomes, work.Wait()
}
