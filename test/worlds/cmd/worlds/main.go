// Command worlds upgrades node groups in many random worlds in parallel. It stops at the first world that breaks a rule. It prints the
// seed, the smallest world that still breaks a rule, and what happened in it.
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

// shrinks is the number of smaller worlds that are run at most.
const shrinks = 400

type options struct {
	first, n uint64
	workers  int
	verbose  bool
	shrink   bool
	all      bool
	found    bool
	store    bool
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
	flag.BoolVar(&o.store, "store", false, "only print the plans, as lines of test/worlds/found.jsonl")
	flag.StringVar(&o.strategy, "strategy", "", "of these worlds only those whose upgrade has the strategy")
	flag.Parse()
	if err := run(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the worlds and prints the histogram. It returns an error if a rule was broken, or if a declared word was reached too
// seldom.
func run(out io.Writer, o options) error {
	if o.store {
		return printPlans(out, o)
	}
	plans, err := o.storedPlans()
	if err != nil {
		return err
	}
	began := time.Now()
	total := worlds.Tally{}
	var broken []result
	var turns int
	for v := range runWorlds(o, plans) {
		total.Add(v.Tally)
		turns += v.Turns
		if v.Broken == "" {
			continue
		}
		broken = append(broken, v)
		if o.all {
			fmt.Fprintf(out, "%s: %s\n", v.name(plans), v.Broken)
		}
	}
	if len(broken) > 0 && !o.all {
		explainBroken(out, o, broken[0], plans)
	}
	if err := total.Write(out); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(out, "%d worlds and %d decisions in %s, %s of %d workers each\n", o.n, turns, took.Round(time.Millisecond),
		(took * time.Duration(o.workers) / time.Duration(max(1, o.n))).Round(time.Microsecond), o.workers)
	if len(broken) > 0 {
		return fmt.Errorf("a rule was broken in %d worlds, the first is %s", len(broken), broken[0].name(plans))
	}
	if rare := total.Rare(int(o.n)); len(rare) > 0 && o.strategy == "" {
		return fmt.Errorf("met in less than one of a thousand worlds: %s", strings.Join(rare, ", "))
	}
	return nil
}

// storedPlans returns the stored plans that run before the generated ones.
func (o *options) storedPlans() ([]worlds.Plan, error) {
	if !o.found {
		return nil, nil
	}
	return worlds.StoredPlans()
}

// printPlans prints the plans of the worlds.
func printPlans(out io.Writer, o options) error {
	for seed := o.first; seed < o.first+o.n; seed++ {
		plan := worlds.Generate(seed)
		line, err := plan.Line()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
	}
	return nil
}

// result is the verdict on a world. place is its position in the run, in which all stored worlds come before the generated ones.
type result struct {
	worlds.Verdict
	place uint64
}

// runWorlds runs the worlds, the stored ones first, and yields their results. Unless o.all is set, it stops at the first broken world.
func runWorlds(o options, stored []worlds.Plan) func(func(result) bool) {
	return func(yield func(result) bool) {
		var next atomic.Uint64
		var stop atomic.Bool
		results := make(chan result)
		var workers sync.WaitGroup
		for range o.workers {
			workers.Go(func() {
				for i := next.Add(1) - 1; i < o.n+uint64(len(stored)) && !stop.Load(); i = next.Add(1) - 1 {
					var say func(string)
					if o.verbose && o.n == 1 && !o.shrink {
						say = func(line string) { fmt.Println(line) }
					}
					plan := o.planOfPosition(i, stored)
					if o.strategy != "" && o.strategy != string(plan.Request.Strategy) {
						continue
					}
					v := worlds.Run(plan, say)
					if v.Broken != "" && !o.all {
						stop.Store(true)
					}
					results <- result{v, i}
				}
			})
		}
		go func() {
			workers.Wait()
			close(results)
		}()
		going := true
		for r := range results {
			going = going && yield(r)
		}
	}
}

// planOfPosition returns the plan at the given position of the run.
func (o *options) planOfPosition(place uint64, stored []worlds.Plan) worlds.Plan {
	if place < uint64(len(stored)) {
		return stored[place]
	}
	return worlds.Generate(o.first + place - uint64(len(stored)))
}

// name returns the name of a world, which shows whether it is a stored or a generated one.
func (r *result) name(stored []worlds.Plan) string {
	if r.place < uint64(len(stored)) {
		return fmt.Sprintf("found %d", r.place+1)
	}
	return fmt.Sprintf("seed %d", r.Seed)
}

// explainBroken shrinks a broken world and prints what happens in it.
func explainBroken(out io.Writer, o options, r result, stored []worlds.Plan) {
	plan := o.planOfPosition(r.place, stored)
	fmt.Fprintf(out, "%s: %s\n", r.name(stored), r.Broken)
	if r.place >= uint64(len(stored)) {
		fmt.Fprintf(out, "again: go run ./test/worlds/cmd/worlds -first %d -n 1 -v\n", r.Seed)
	}
	if o.shrink {
		plan = worlds.Shrink(plan, shrinks)
	}
	fmt.Fprintf(out, "world: %+v\n", plan)
	if o.verbose || o.shrink {
		worlds.Run(plan, func(line string) { fmt.Fprintln(out, line) })
	}
}
