// Command gaps measures whether users notice an upgrade: how long Services have no ready endpoint while all pods move to new nodes of
// a real control plane. It draws layouts of 24 nodes and 30 workloads, each with a Service, from a seed. It moves the pods of each
// layout in several ways: with the tool, once for each -flags, and with xargs -P 4 kubectl drain. The command exits with 1 if a
// Service with two or more pods had no ready endpoint while the tool moved them. With --move=surge this also applies to Deployments
// with one pod.
//
// With -crash, three workloads of one layout crash on the new nodes. The tool must stop while all Services have a ready endpoint, and
// must name the three workloads. After these are fixed, the same command must succeed.
//
//	gaps [-layouts N] [-seed N] [-spread] [-flags FLAGS]... [-against FLAGS] [-runs N] [-alone] [-keep FOLDER]
//	gaps -crash [-seed N] [-keep FOLDER]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The number of nodes and of workloads of each layout.
const (
	nodes     = 24
	workloads = 30
)

// options are the flags.
type options struct {
	layouts, runs int
	seed          uint64
	flags         []string
	against       string
	spread        bool
	alone, crash  bool
	keep          string
}

func main() {
	var o options
	flag.IntVar(&o.layouts, "layouts", 5, "How many layouts")
	flag.Uint64Var(&o.seed, "seed", 1, "The seed of the first; each of the others has the next")
	flag.BoolVar(&o.spread, "spread", false, "No workload has all of its pods on one node")
	flag.Func("flags", "Flags of the tool, a way of its own each time they are given (none)", func(text string) error {
		o.flags = append(o.flags, text)
		return nil
	})
	flag.StringVar(&o.against, "against", "", "Flags of the tool that leave out what costs time; the first way may take 1.05 times as long")
	flag.IntVar(&o.runs, "runs", 1, "How often each way is run on each layout, by turns; the medians of their times until all pods are ready count")
	flag.BoolVar(&o.alone, "alone", false, "Leave kubectl drain out")
	flag.BoolVar(&o.crash, "crash", false, "Have three workloads crash on the new nodes")
	flag.StringVar(&o.keep, "keep", "", "A folder to keep in what each way wrote")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gaps:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, out io.Writer) error {
	if o.layouts < 1 || o.runs < 1 {
		return errors.New("-layouts and -runs have to be 1 or more")
	}
	if o.crash {
		return o.runCrash(ctx, out)
	}
	var layouts []layout
	for i := range o.layouts {
		layouts = append(layouts, drawLayout(o.seed+uint64(i), nodes, workloads, o.spread))
	}
	ways, against := o.ways()
	all, err := runAll(ctx, layouts, ways, o, func(p *outcome) { fmt.Fprintln(os.Stderr, strings.Join(p.row(), "  ")) })
	if err != nil {
		return err
	}
	return writeTable(out, all, against)
}

// ways returns all ways to move the pods. against is the way with which the time of the first is compared; nil for none.
func (o options) ways() (ways []way, against *way) {
	flags := o.flags
	if len(flags) == 0 {
		flags = []string{""}
	}
	for _, f := range flags {
		ways = append(ways, toolWay(f))
	}
	if o.against != "" {
		less := toolWay(strings.TrimSpace(flags[0] + " " + o.against))
		less.promisesNoGap = false
		ways, against = append(ways, less), &less
	}
	if !o.alone {
		ways = append(ways, wayOfKubectlDrain())
	}
	return ways, against
}
