// Command rivals upgrades groups on a real control plane while a simulated autoscaler, the rival, changes their size. Like
// cluster-autoscaler, the rival raises the desired capacity and terminates nodes without pods through the cloud's API. The times are
// drawn from a seed, which is printed. Each upgrade must succeed. The group must keep its size, except for the rival's changes and for
// nodes that the upgrade reports as kept. With -lost there is no rival. Instead the upgrade is killed, its record is deleted, and the
// same command runs again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// options are the flags.
type options struct {
	n, atOnce int
	seed      uint64
	lost      bool
	keep      string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 20, "How many upgrades")
	flag.Uint64Var(&o.seed, "seed", 1, "The seed of the first; each of the others has the next")
	flag.BoolVar(&o.lost, "lost", false, "Kill the upgrade, delete its record and run the command again, in place of changing the group's size")
	flag.IntVar(&o.atOnce, "at-once", 4, "How many upgrades run at the same time")
	flag.StringVar(&o.keep, "keep", "", "A folder to keep what each upgrade said in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, out io.Writer) error {
	if o.n < 1 || o.atOnce < 1 {
		return errors.New("-n and -at-once have to be 1 or more")
	}
	s, err := fixture.NewShared(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	outcomes, err := o.runAll(ctx, s, out)
	if err != nil {
		return err
	}
	return summarize(out, outcomes, time.Since(began).Round(time.Second))
}

// runAll runs all upgrades on one fixture, atOnce of them in parallel, and prints each as it ends.
func (o options) runAll(ctx context.Context, s *fixture.Fixture, out io.Writer) ([]outcome, error) {
	return fixture.RunAll(ctx, o.n, o.atOnce, func(ctx context.Context, i int) (outcome, error) {
		seed := o.seed + uint64(i)
		found, err := o.runSeed(ctx, s, seed)
		if err != nil {
			err = fmt.Errorf("running seed %d: %w", seed, err)
		}
		return found, err
	}, func(found *outcome) { fmt.Fprint(out, found.report()) })
}

// summarize prints how many upgrades had no faults. It returns an error if one had faults, or if no rival changed a group and no upgrade
// was killed.
func summarize(out io.Writer, outcomes []outcome, took time.Duration) error {
	well, resizes := 0, 0
	for i := range outcomes {
		if len(outcomes[i].faults) == 0 {
			well++
		}
		if outcomes[i].killed {
			resizes++
		}
		for _, d := range outcomes[i].resizes {
			if d.applied != 0 {
				resizes++
			}
		}
	}
	fmt.Fprintf(out, "%d of %d upgrades had no faults, with %d changes by rivals, in %s\n", well, len(outcomes), resizes, took)
	switch {
	case well < len(outcomes):
		return fmt.Errorf("%d upgrades had faults", len(outcomes)-well)
	case resizes == 0:
		return errors.New("no rival changed a group: nothing was tested")
	default:
		return nil
	}
}
