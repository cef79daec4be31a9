// Command bench measures how the cost of simulated upgrades grows with the size of their group. On real control planes it compares the
// tool's drains with the drains of rivals and with the shortest possible time. It prints which targets are met, and does not fail if a
// target is missed.
//
//	bench [-only sizes|read|drain] [-run REGEXP] [-all] [-runs N] [-alone] [-keep FOLDER]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// bench contains the flags.
type bench struct {
	only string
	run  *regexp.Regexp
	// all adds the scenarios that take long. alone omits the rivals. runs is the number of runs whose median counts.
	all, alone bool
	runs       int
	// keep is a folder for audit logs and for the tool's output; "" for none.
	keep string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var b bench
	flag.StringVar(&b.only, "only", "", "sizes for the simulated upgrades, read for large clusters, drain for upgrades of real control planes (all)")
	run := flag.String("run", "", "Run only the scenarios whose name matches the regular expression")
	flag.BoolVar(&b.all, "all", false, "Also run the scenarios and rivals that take long")
	flag.BoolVar(&b.alone, "alone", false, "Omit the rivals")
	flag.IntVar(&b.runs, "runs", 1, "How often each way is measured; its median counts")
	flag.StringVar(&b.keep, "keep", "", "A folder for audit logs and the tool's events")
	nodes := flag.Int("simulate", 0, "Simulate a group of this many nodes and print the measurement as JSON")
	flag.Parse()
	var err error
	if b.run, err = regexp.Compile(*run); err == nil {
		err = b.runBenchmarks(ctx, *nodes)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) runBenchmarks(ctx context.Context, nodes int) error {
	if nodes > 0 {
		return measureInThisProcess(ctx, nodes)
	}
	if b.only == "" || b.only == "sizes" {
		if err := runSizes(ctx); err != nil {
			return err
		}
	}
	if b.only == "" || b.only == "read" {
		if err := b.runReadings(ctx); err != nil {
			return err
		}
	}
	if b.only == "" || b.only == "drain" {
		return b.runDrains(ctx)
	}
	return nil
}

func (b *bench) runDrains(ctx context.Context) error {
	for _, sc := range scenarios() {
		if !b.run.MatchString(sc.name) || (sc.heavy && !b.all) {
			continue
		}
		figures, err := b.measureWays(ctx, &sc)
		if err != nil {
			return err
		}
		if err := (&result{scenario: &sc, figures: figures}).write(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}
