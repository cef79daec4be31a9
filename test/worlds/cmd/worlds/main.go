// Command worlds upgrades node groups in many random worlds at once, and stops at
// the first that breaks a rule: it prints the seed, the smallest world that breaks
// a rule still, and what happened in it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/worlds"
)

// shrinks is how many smaller worlds are tried.
const shrinks = 400

type options struct {
	first, n uint64
	workers  int
	verbose  bool
	shrink   bool
	all      bool
	found    bool
	strategy string
}

func main() {
	var o options
	flag.Uint64Var(&o.n, "n", 1000, "how many worlds")
	flag.Uint64Var(&o.first, "first", 1, "the first seed; the others follow it")
	flag.Uint64Var(&o.first, "seed", 1, "the same")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "how many worlds at once")
	flag.BoolVar(&o.verbose, "v", false, "tell what happens")
	flag.BoolVar(&o.shrink, "shrink", true, "make a broken world smaller")
	flag.BoolVar(&o.all, "all", false, "go on after a broken world, and list them")
	flag.BoolVar(&o.found, "found", false, "before them those that broke a rule once")
	flag.StringVar(&o.strategy, "strategy", "", "of these worlds only those whose upgrade has the strategy")
	flag.Parse()
	if err := run(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the worlds and prints the histogram. It returns an error when a rule was broken, or something was met too seldom.
func run(out io.Writer, o options) error {
	began := time.Now()
	total := worlds.Tally{}
	var broken []worlds.Verdict
	var turns int
	for v := range verdicts(o) {
		total.Add(v.Tally)
		turns += v.Turns
		if v.Broken == "" {
			continue
		}
		broken = append(broken, v)
		if o.all {
			fmt.Fprintf(out, "seed %d: %s\n", v.Seed, v.Broken)
		}
	}
	if len(broken) > 0 && !o.all {
		explain(out, o, broken[0])
	}
	if err := total.Write(out); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(out, "%d worlds and %d decisions in %s, %s of %d workers each\n", o.n, turns, took.Round(time.Millisecond),
		(took * time.Duration(o.workers) / time.Duration(max(1, o.n))).Round(time.Microsecond), o.workers)
	if len(broken) > 0 {
		return fmt.Errorf("%d worlds broke a rule, seed %d first", len(broken), broken[0].Seed)
	}
	if rare := total.Rare(int(o.n)); len(rare) > 0 && o.strategy == "" {
		return fmt.Errorf("met in less than one of a thousand worlds: %s", strings.Join(rare, ", "))
	}
	return nil
}

// verdicts runs the worlds, and yields how each ended, until one is broken.
func verdicts(o options) func(func(worlds.Verdict) bool) {
	return func(yield func(worlds.Verdict) bool) {
		var before []uint64
		if o.found {
			before = worlds.FoundSeeds()
		}
		var next atomic.Uint64
		var stop atomic.Bool
		results := make(chan worlds.Verdict)
		var workers sync.WaitGroup
		for range o.workers {
			workers.Go(func() {
				for i := next.Add(1); i <= o.n+uint64(len(before)) && !stop.Load(); i = next.Add(1) {
					var say func(string)
					if o.verbose && o.n == 1 && !o.shrink {
						say = func(line string) { fmt.Println(line) }
					}
					seed := o.first + i - 1 - uint64(len(before))
					if i <= uint64(len(before)) {
						seed = before[i-1]
					}
					plan := worlds.Generate(seed)
					if o.strategy != "" && o.strategy != string(plan.Request.Strategy) {
						continue
					}
					v := worlds.Run(plan, say)
					if v.Broken != "" && !o.all {
						stop.Store(true)
					}
					results <- v
				}
			})
		}
		go func() {
			workers.Wait()
			close(results)
		}()
		going := true
		for v := range results {
			going = going && yield(v)
		}
	}
}

// explain shrinks a broken world and tells what happens in it.
func explain(out io.Writer, o options, v worlds.Verdict) {
	plan := worlds.Generate(v.Seed)
	fmt.Fprintf(out, "seed %d: %s\nagain: go run ./test/worlds/cmd/worlds -first %d -n 1 -v\n", v.Seed, v.Broken, v.Seed)
	if o.shrink {
		plan = worlds.Shrink(plan, shrinks)
	}
	fmt.Fprintf(out, "world: %+v\n", plan)
	if o.verbose || o.shrink {
		worlds.Run(plan, func(line string) { fmt.Fprintln(out, line) })
	}
}
