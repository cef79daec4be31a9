package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// way is one way to move all pods to the new nodes.
type way struct {
	name, line string
	// promisesNoGap is true if the way must leave no gap. promisesForSinglePods is true if this includes Deployments of one replica.
	promisesNoGap, promisesForSinglePods bool
}

// wayOfKubectlDrain returns the way that uses kubectl drain.
func wayOfKubectlDrain() way {
	return way{name: "xargs -P 4 kubectl drain", line: fixture.DrainLine(pool, fixture.FourAtOnce)}
}

// toolWay returns the way that uses the tool with the flags.
func toolWay(flags string) way {
	return way{
		name: strings.TrimSpace("kubectl nodeupgrade " + flags), line: strings.TrimSpace(fixture.UpgradeLine(pool, window) + " " + flags),
		promisesNoGap: true, promisesForSinglePods: strings.Contains(flags, "--move=surge"),
	}
}

// outcome is the result of one way on one layout.
type outcome struct {
	layout *layout
	way    way
	// took is the time until the command exited. allReady is the time until all pods were ready again, which may be later.
	took, allReady time.Duration
	// gaps contains the times without a ready endpoint, by workload. Workloads without a gap are left out.
	gaps map[string][]time.Duration
}

// countWithGap counts the workloads of a kind that had a gap.
func (p *outcome) countWithGap(k kind) int {
	n := 0
	for i := range p.layout.workloads {
		if w := &p.layout.workloads[i]; kindOf(w) == k && len(p.gaps[w.Name]) > 0 {
			n++
		}
	}
	return n
}

// sumGaps returns the number of gaps, their total time, the longest one, and its workload.
func (p *outcome) sumGaps() (count int, all, longest time.Duration, workload string) {
	for i := range p.layout.workloads {
		name := p.layout.workloads[i].Name
		for _, gap := range p.gaps[name] {
			count++
			all += gap
			if gap > longest {
				longest, workload = gap, name
			}
		}
	}
	return count, all, longest, workload
}

// runOnNewControlPlane starts a control plane with the layout, and moves its pods in one way.
func (l *layout) runOnNewControlPlane(ctx context.Context, w way, keep string) (outcome, error) {
	s, err := newFixture(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer s.Close()
	if err := l.setUp(ctx, s); err != nil {
		return outcome{}, err
	}
	// This loads both programs into memory, so that the order of the ways does not matter.
	if result, err := s.RunShell(ctx, "kubectl nodeupgrade --help"); err != nil || result.Code != 0 {
		return outcome{}, fmt.Errorf("running the tool with --help: %w: it ended with %d: %s", err, result.Code, result.Stderr)
	}
	o, err := observe(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	defer o.cancel()
	if missing := o.withoutEndpoint(l); len(missing) > 0 {
		return outcome{}, fmt.Errorf("watching the endpoints: at the start these Services have none: %s", strings.Join(missing, ", "))
	}
	return l.runAndObserve(ctx, s, o, w, keep)
}

// runAndObserve runs the way's command, and observes the Services until all pods are ready. kubectl drain exits before that.
func (l *layout) runAndObserve(ctx context.Context, s *fixture.Fixture, o *observer, w way, keep string) (outcome, error) {
	began := time.Now()
	result, err := s.RunShell(ctx, w.line)
	if err != nil {
		return outcome{}, err
	}
	p := outcome{layout: l, way: w, took: time.Since(began)}
	if err := storeOutput(keep, l, w, result.Stderr); err != nil {
		return outcome{}, err
	}
	if result.Code != 0 {
		return outcome{}, fmt.Errorf("it ended with %d: %s", result.Code, result.Stderr)
	}
	if err := s.Settle(ctx); err != nil {
		return outcome{}, err
	}
	p.allReady = time.Since(began)
	if err := checkAllMoved(ctx, s); err != nil {
		return outcome{}, err
	}
	p.gaps, err = o.stop()
	return p, err
}

// checkAllMoved returns an error if a pod is on an old node. A way that moves no pod would have no gap.
func checkAllMoved(ctx context.Context, s *fixture.Fixture) error {
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if node := pods.Items[i].Spec.NodeName; !strings.HasPrefix(node, poolOf(newImage, 0).NodePrefix()) {
			return fmt.Errorf("checking the pods' nodes: %s is still on node %q", pods.Items[i].Name, node)
		}
	}
	return nil
}

// storeOutput writes the way's output to a file, if a folder is set.
func storeOutput(folder string, l *layout, w way, said string) error {
	if folder == "" {
		return nil
	}
	name := fmt.Sprintf("layout-%d.%s.stderr", l.seed, strings.ReplaceAll(w.name, " ", "-"))
	return os.WriteFile(filepath.Join(folder, name), []byte(said), 0o644)
}

// runAll runs all ways on each layout, one after the other, o.runs times. It calls tell for each outcome.
func runAll(ctx context.Context, layouts []layout, ways []way, o options, tell func(*outcome)) ([]outcome, error) {
	var all []outcome
	for i := range layouts {
		for range o.runs {
			for _, w := range ways {
				p, err := layouts[i].runOnNewControlPlane(ctx, w, o.keep)
				if err != nil {
					return all, fmt.Errorf("running layout %d: %s: %w", layouts[i].seed, w.name, err)
				}
				tell(&p)
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// medianTime returns the median time until all pods were ready again, of all runs of a way on a layout. For an even number of runs, it
// returns the longer of the two middle times.
func medianTime(all []outcome, seed uint64, w way) time.Duration {
	var times []time.Duration
	for i := range all {
		if all[i].layout.seed == seed && all[i].way == w {
			times = append(times, all[i].allReady)
		}
	}
	slices.Sort(times)
	return times[len(times)/2]
}
