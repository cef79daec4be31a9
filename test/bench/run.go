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

// figure is the measurement of one way to drain the nodes.
type figure struct {
	way string
	ended
	requests
	// othersEmpty is the time until the last pod had left the nodes without pods of the broken workload; 0 without a broken workload.
	othersEmpty time.Duration
	// explained is the time from the first drain of a node with a pod of the broken workload until the tool explained why the pod stays.
	explained time.Duration
	// broken lists the moments at which a budget was broken, if the scenario watches budgets.
	broken []string
	// cpus contains the CPU time of the control plane's programs while the way ran, by name. It omits programs whose CPU time is
	// unknown.
	cpus map[string]time.Duration
	// busy is the share of the machine's CPU time that was used while the way ran, from 0 to 1; negative if it is unknown.
	busy float64
}

// measureWays measures every way to drain the scenario's nodes, the tool last. Each run has its own control plane. Of several runs of a
// way, measureWays returns the one with the median time.
func (b *bench) measureWays(ctx context.Context, sc *scenario) ([]figure, error) {
	var figures []figure
	for _, r := range sc.rivals {
		if b.alone || (r.heavy && !b.all) {
			continue
		}
		f, err := b.measureMedian(ctx, sc, r.way, r.command(sc))
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	f, err := b.measureMedian(ctx, sc, toolName, sc.command())
	return append(figures, f), err
}

func (b *bench) measureMedian(ctx context.Context, sc *scenario, way, line string) (figure, error) {
	times := b.runs
	if sc.heavy || sc.limit > 0 {
		times = 1 // a run takes long, and it mostly waits
	}
	var runs []figure
	for range times {
		f, err := b.measureOnce(ctx, sc, way, line)
		if err != nil {
			return figure{}, fmt.Errorf("measuring %q: %s: %w", sc.name, way, err)
		}
		runs = append(runs, f)
	}
	slices.SortFunc(runs, func(x, y figure) int { return cmp.Compare(x.took, y.took) })
	return runs[len(runs)/2], nil
}

func (b *bench) measureOnce(ctx context.Context, sc *scenario, way, line string) (figure, error) {
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
	if _, err := measureCommand(ctx, s, "kubectl nodeupgrade --help >&2"); err != nil { // this loads both programs into memory, so that the order of the ways does not matter
		return figure{}, err
	}
	if err := b.storeLayout(ctx, s, sc.name+"."+strings.ReplaceAll(way, " ", "-")); err != nil {
		return figure{}, err
	}
	before, began := readLoad(s.Cluster), time.Now()
	f.ended, f.broken, err = sc.measureWay(ctx, s, way, line)
	if err != nil {
		return figure{}, err
	}
	f.cpus, f.busy = readLoad(s.Cluster).since(before)
	if f.code != 0 && sc.limit == 0 {
		return figure{}, fmt.Errorf("it ended with %d: %s", f.code, f.stderr)
	}
	if f.requests, err = countRequests(ctx, s, began); err != nil {
		return figure{}, err
	}
	if sc.broken != nil {
		f.othersEmpty, f.explained = departures.lastFromOtherNodes(sc.broken.Name).Sub(began), timeToExplanation(f.stderr, departures.nodesOf(sc.broken.Name), sc.broken.Name)
	}
	return f, b.storeEvidence(s, sc.name+"."+strings.ReplaceAll(way, " ", "-"), f.stderr)
}

// storeLayout writes the pods and their first nodes to a file, one pod a line, if -keep is set.
func (b *bench) storeLayout(ctx context.Context, s *fixture.Fixture, name string) error {
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

// storeEvidence writes the audit log and the tool's output to files, if -keep is set.
func (b *bench) storeEvidence(s *fixture.Fixture, name, said string) error {
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

// setUp adds the outdated nodes, then the workloads, then the current nodes to which the pods will move.
func (sc *scenario) setUp(ctx context.Context, s *fixture.Fixture) error {
	if err := sc.addOldNodes(ctx, s); err != nil {
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
		if err := sc.addBrokenWorkload(ctx, s); err != nil {
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
		fmt.Fprintf(os.Stderr, "bench: the API server is still busy after %s; measuring anyway\n", fixture.StartupLimit)
	}
	return err
}

func (sc *scenario) addOldNodes(ctx context.Context, s *fixture.Fixture) error {
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

// addBrokenWorkload adds the broken workload and waits until each of its pods has crashed on a node.
func (sc *scenario) addBrokenWorkload(ctx context.Context, s *fixture.Fixture) error {
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
