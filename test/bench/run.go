package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// figure is the measurement of one way to drain.
type figure struct {
	way string
	ended
	requests
	// others is when the last pod had left the nodes without a pod of the broken workload; 0 if there is no such workload.
	others time.Duration
	// told is how long after the first drain of a node with such a pod the tool explained what keeps the pod there.
	told time.Duration
	// broken lists the moments at which a budget was broken, if the scenario watches budgets.
	broken []string
	// cpus is the CPU time of the control plane's programs while the way ran, by name. Programs whose CPU time is unknown are left
	// out.
	cpus map[string]time.Duration
	// busy is the share of the machine's CPU time that was used while the way ran, from 0 to 1; negative if it is unknown.
	busy float64
}

// runWays measures every way to drain the scenario's nodes, each on its own control plane, and the tool last. Of several runs of a
// way, the median by time counts.
func (b *bench) runWays(ctx context.Context, sc *scenario) ([]figure, error) {
	var figures []figure
	for _, r := range sc.rivals {
		if b.alone || (r.heavy && !b.all) {
			continue
		}
		f, err := b.median(ctx, sc, r.way, r.line(sc))
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	f, err := b.median(ctx, sc, ours, sc.line())
	return append(figures, f), err
}

func (b *bench) median(ctx context.Context, sc *scenario, way, line string) (figure, error) {
	times := b.runs
	if sc.heavy || sc.limit > 0 {
		times = 1 // it mostly waits
	}
	var runs []figure
	for range times {
		f, err := b.once(ctx, sc, way, line)
		if err != nil {
			return figure{}, fmt.Errorf("measuring %q: %s: %w", sc.name, way, err)
		}
		runs = append(runs, f)
	}
	slices.SortFunc(runs, func(x, y figure) int { return cmp.Compare(x.took, y.took) })
	return runs[len(runs)/2], nil
}

func (b *bench) once(ctx context.Context, sc *scenario, way, line string) (figure, error) {
	s, err := fixture.New(ctx, fixture.Options{
		Log:   os.Stderr,
		Cloud: awscloud.Options{Boot: max(0, sc.boot-second), NodeReady: second},
		// The machine is busy, and a late heartbeat must not make a node NotReady.
		Cluster: controlplane.Options{NodeMonitorGrace: time.Minute},
	})
	if err != nil {
		return figure{}, err
	}
	defer s.Close()
	if err := sc.setUp(ctx, s); err != nil {
		return figure{}, err
	}
	departures, err := sc.watchDepartures(ctx, s)
	if err != nil {
		return figure{}, err
	}
	f := figure{way: way}
	if _, err := measure(ctx, s, "kubectl nodeupgrade --help >&2"); err != nil { // both programs are then in memory, in whatever order the ways run
		return figure{}, err
	}
	if err := b.keepLayout(ctx, s, sc.name+"."+strings.ReplaceAll(way, " ", "-")); err != nil {
		return figure{}, err
	}
	before, began := takeLoad(s.Cluster), time.Now()
	f.ended, f.broken, err = sc.measure(ctx, s, way, line)
	if err != nil {
		return figure{}, err
	}
	f.cpus, f.busy = takeLoad(s.Cluster).since(before)
	if f.code != 0 && sc.limit == 0 {
		return figure{}, fmt.Errorf("it ended with %d: %s", f.code, f.stderr)
	}
	if f.requests, err = countRequests(ctx, s, began); err != nil {
		return figure{}, err
	}
	if sc.broken != nil {
		f.others, f.told = departures.others(sc.broken.Name).Sub(began), toldAfter(f.stderr, departures.nodesOf(sc.broken.Name), sc.broken.Name)
	}
	return f, b.keepEvidence(s, sc.name+"."+strings.ReplaceAll(way, " ", "-"), f.stderr)
}

// keepLayout writes the pods and their first nodes to a file, one pod a line, if a folder is set.
func (b *bench) keepLayout(ctx context.Context, s *fixture.Fixture, name string) error {
	if b.keep == "" {
		return nil
	}
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var text strings.Builder
	for i := range pods.Items {
		fmt.Fprintf(&text, "%s %s\n", pods.Items[i].Spec.NodeName, pods.Items[i].Name)
	}
	return os.WriteFile(filepath.Join(b.keep, name+".layout"), []byte(text.String()), 0o644)
}

// keepEvidence writes the audit log and the tool's output to files, if a folder is set.
func (b *bench) keepEvidence(s *fixture.Fixture, name, said string) error {
	if b.keep == "" {
		return nil
	}
	log, err := os.ReadFile(s.Cluster.AuditLog())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.keep, name+".audit.log"), log, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.keep, name+".stderr"), []byte(said), 0o644)
}

// setUp adds the nodes, then the workloads, then the nodes that take the pods when they leave.
func (sc *scenario) setUp(ctx context.Context, s *fixture.Fixture) error {
	if err := sc.addOld(ctx, s); err != nil {
		return err
	}
	for _, w := range sc.workloads {
		if err := s.Add(ctx, w); err != nil {
			return err
		}
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	if sc.broken != nil {
		if err := sc.addBroken(ctx, s); err != nil {
			return err
		}
	}
	if err := s.AddPool(ctx, fixture.Pool{Name: pool, Image: "new", Nodes: sc.spare}); err != nil {
		return err
	}
	if err := s.AwaitNodes(ctx, "pool="+pool, sc.nodes+sc.spare); err != nil {
		return err
	}
	rested, err := s.WaitUntilIdle(ctx, sc.nodes+sc.spare)
	if err == nil && !rested {
		fmt.Fprintf(os.Stderr, "bench: the API server does not come to rest within %s; measuring all the same\n", fixture.StartupLimit)
	}
	return err
}

func (sc *scenario) addOld(ctx context.Context, s *fixture.Fixture) error {
	if len(sc.zones) == 0 {
		if err := s.AddPool(ctx, fixture.Pool{Name: pool, Image: "old", Nodes: sc.nodes}); err != nil {
			return err
		}
		return s.AwaitNodes(ctx, "pool="+pool, sc.nodes)
	}
	counts := make([]int, len(sc.zones))
	for i := range sc.nodes {
		counts[i%len(counts)]++
	}
	if err := s.AddGroup(fixture.Group{Name: pool, Zones: sc.zones, Counts: counts}); err != nil {
		return err
	}
	return s.AwaitNodes(ctx, "pool="+pool, sc.nodes)
}

// addBroken adds the broken workload and waits until each of its pods has crashed on a node.
func (sc *scenario) addBroken(ctx context.Context, s *fixture.Fixture) error {
	if err := s.Add(ctx, *sc.broken); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, fixture.StartupLimit, true, func(ctx context.Context) (bool, error) {
		pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + sc.broken.Name})
		if err != nil {
			return false, err
		}
		down := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				down++
			}
		}
		return down == int(sc.broken.Replicas), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of workload %q to crash: %w", sc.broken.Name, err)
	}
	return nil
}
