// Command crash interrupts an upgrade at each of its writes. It first upgrades a group on a real control plane without a fault, and
// numbers the writes: the requests that change something in the cluster or in the cloud. Then it upgrades a new group for each write.
// The tool is killed after the server has handled the write and before the tool receives the answer. The same command then continues.
// -how selects another fault. Each upgrade must leave the same state behind as an undisturbed one. The command prints the upgrades
// that do not, and exits with 1 if there are any.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// options are the flags.
type options struct {
	how                  fault
	from, to, every, few int
	atOnce               int
	managed              bool
	strategy, gke        string
	keep, older          string
}

func main() {
	var o options
	flag.StringVar((*string)(&o.how), "how", string(killTool), fmt.Sprintf("What happens at the write, one of %q", faults()))
	flag.IntVar(&o.from, "from", 1, "The first write to try")
	flag.IntVar(&o.to, "to", 0, "The last write to try; 0 for the last there is")
	flag.IntVar(&o.every, "every", 1, "Try every so manieth write")
	flag.IntVar(&o.few, "few", 0, "Try so many writes, spread over all; 0 for each")
	flag.IntVar(&o.atOnce, "at-once", 3, "How many upgrades run at the same time")
	flag.BoolVar(&o.managed, "managed", false, "Upgrade groups that EKS manages and drains")
	flag.StringVar(&o.strategy, "strategy", "", "Upgrade with this --strategy; \"\" for the tool's own choice")
	flag.StringVar(&o.gke, "gke", "", fmt.Sprintf("Use GKE node pools instead, and interrupt the commands of this course, or of each if it is %q", allCourses))
	flag.StringVar(&o.keep, "keep", "", "A folder to keep what each upgrade wrote and said in")
	flag.StringVar(&o.older, "older", "", "A folder with the kubectl-nodeupgrade of an older release, which begins each upgrade; this one continues it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, out io.Writer) error {
	if o.from < 1 || o.every < 1 || o.atOnce < 1 {
		return errors.New("-from, -every and -at-once have to be 1 or more")
	}
	if !slices.Contains(faults(), o.how) {
		return fmt.Errorf("-how=%s is not one of %q", o.how, faults())
	}
	s, err := fixture.NewShared(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.gke != "" {
		return o.runCourses(ctx, s, out)
	}
	c := setup{counts: []int{3, 3}, managed: o.managed, strategy: o.strategy, keep: o.keep, older: o.older}
	if o.how.setsClock() {
		if err := buildSettablePlugin(ctx, s); err != nil {
			return err
		}
	}
	began := time.Now()
	writes, err := c.runUndisturbed(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "undisturbed: %d writes in %s\n", len(writes), roundedSince(began))
	began = time.Now()
	outcomes, err := c.runAll(ctx, s, o.points(len(writes)), o.atOnce, out)
	if err != nil {
		return err
	}
	return summarize(out, outcomes, roundedSince(began))
}

// runCourses interrupts the commands of the courses of GKE node pools.
func (o options) runCourses(ctx context.Context, s *fixture.Fixture, out io.Writer) error {
	chosen, err := findCourses(o.gke)
	if err != nil {
		return err
	}
	if o.how != killTool && o.how != loseAnswer {
		return fmt.Errorf("-how=%s is not for node pools of GKE: use %s or %s", o.how, killTool, loseAnswer)
	}
	began := time.Now()
	var all []outcome
	for i := range chosen {
		c := setup{counts: []int{2, 1}, course: &chosen[i], keep: o.keep}
		writes, err := c.runUndisturbed(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", c.course.name, err)
		}
		outcomes, err := c.runAll(ctx, s, o.points(len(writes)), o.atOnce, out)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d writes\n", c.course.name, len(writes))
		all = append(all, outcomes...)
	}
	return summarize(out, all, roundedSince(began))
}

// points returns the points to try. writes is the number of all writes.
func (o options) points(writes int) []point {
	last := writes
	if o.to > 0 {
		last = min(o.to, writes)
	}
	every := o.every
	if o.few > 0 {
		every = max(1, (last-o.from+1)/o.few)
	}
	var points []point
	for n := o.from; n <= last && (o.few == 0 || len(points) < o.few); n += every {
		points = append(points, point{n, o.how})
	}
	return points
}

// runAll runs the cases of the points on one fixture, atOnce of them in parallel. It prints problems as they are found, and returns
// the outcomes in the order of the points.
func (c setup) runAll(ctx context.Context, s *fixture.Fixture, points []point, atOnce int, out io.Writer) ([]outcome, error) {
	return fixture.RunAll(ctx, len(points), atOnce, func(ctx context.Context, i int) (outcome, error) {
		o, err := c.run(ctx, s, points[i])
		if err != nil {
			err = fmt.Errorf("running %s: %w", points[i], err)
		}
		return o, err
	}, func(o *outcome) {
		for _, line := range o.reportLines() {
			fmt.Fprintln(out, line)
		}
	})
}

// summarize prints how many upgrades ended as an undisturbed one, and returns an error if one did not or none counts. Upgrades that did
// not reach their point do not count.
func summarize(out io.Writer, outcomes []outcome, took time.Duration) error {
	well, tried, obeyed := 0, 0, 0
	for i := range outcomes {
		if outcomes[i].isReached() {
			tried++
			if len(outcomes[i].problems) == 0 {
				well++
			}
			if outcomes[i].carriedOut != "" {
				obeyed++
			}
		}
	}
	fmt.Fprintf(out, "%d of %d ended as an undisturbed upgrade does, in %s\n", well, tried, took)
	if obeyed > 0 {
		fmt.Fprintf(out, "the verb was carried out in %d of them, and refused in the others\n", obeyed)
	}
	switch faulty := tried - well; {
	case faulty > 0:
		return fmt.Errorf("%d upgrades did not end as an undisturbed one does", faulty)
	case tried == 0:
		return errors.New("nothing was tried: see -from and -to")
	default:
		return nil
	}
}

func roundedSince(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
