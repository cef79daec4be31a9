package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// stateSpace is the default namespace for the records of upgrades.
const stateSpace = "kube-system"

// drawCrash draws a layout in which three workloads crash on new nodes: two Deployments, one of them with a budget, and a StatefulSet.
// All three have pods on the same nodes, so that the first drain of such a node affects all three.
func drawCrash(seed uint64) (l layout, broken []fixture.Workload) {
	l = drawLayout(seed, nodes, workloads, false)
	const replicas = 3
	shared := rand.New(rand.NewPCG(seed, 1)).Perm(nodes)[:replicas]
	wanted := []fixture.Workload{{Kind: "Deployment", MaxUnavailable: "1"}, {Kind: "Deployment"}, {Kind: "StatefulSet"}}
	for i := range l.workloads {
		w := &l.workloads[i]
		if len(broken) == len(wanted) || kindOf(w) != several || w.Kind != wanted[len(broken)].Kind {
			continue
		}
		w.Replicas, w.Ordered, w.MinAvailable, w.MaxUnavailable = replicas, false, "", wanted[len(broken)].MaxUnavailable
		w.Annotations = map[string]string{controlplane.AnnotationCrashOn: poolOf(newImage, 0).NodePrefix()}
		l.places[w.Name] = shared
		broken = append(broken, *w)
	}
	return l, broken
}

// runCrash upgrades to an image on which three of the layout's workloads crash. The upgrade must stop while all Services have a ready
// endpoint, and must name the three workloads. After these are fixed, the same command must succeed.
func (o options) runCrash(ctx context.Context, out io.Writer) error {
	l, broken := drawCrash(o.seed)
	s, err := newFixture(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := l.setUp(ctx, s); err != nil {
		return err
	}
	w := toolWay("")
	faults, err := l.runUntilStopped(ctx, s, w, broken, out)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return fmt.Errorf("upgrading to an image on which three workloads crash: %s", strings.Join(faults, "; "))
	}
	for i := range broken {
		if err := fixWorkload(ctx, s, &broken[i]); err != nil {
			return err
		}
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	seen, err := observe(ctx, s)
	if err != nil {
		return err
	}
	defer seen.cancel()
	p, err := l.runAndObserve(ctx, s, seen, w, o.keep)
	if err != nil {
		return fmt.Errorf("running the same command after the three workloads were fixed: %w", err)
	}
	return writeTable(out, []outcome{p}, nil)
}

// runUntilStopped runs the upgrade until it stops, and lists the faults of the stop.
func (l *layout) runUntilStopped(ctx context.Context, s *fixture.Fixture, w way, broken []fixture.Workload, out io.Writer) (faults []string, err error) {
	seen, err := observe(ctx, s)
	if err != nil {
		return nil, err
	}
	defer seen.cancel()
	began := time.Now()
	result, err := s.RunShell(ctx, w.line)
	if err != nil {
		return nil, err
	}
	p := outcome{layout: l, way: w, took: time.Since(began)}
	missing := seen.withoutEndpoint(l)
	if p.gaps, err = seen.stop(); err != nil {
		return nil, err
	}
	record, err := cluster.NewStore(s.Cluster.Client(), stateSpace, "pool="+pool).LoadRecord(ctx)
	if err != nil {
		return nil, err
	}
	left, err := l.countOccupied(ctx, s)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "stopped after %s with %d, pods are on %d of %d old nodes: %s\n", formatSeconds(p.took), result.Code, left, l.nodes, fixture.LastError(result.Stderr))
	faults = append(stopFaults(result, record.Result, broken), brokenPromises([]outcome{p})...)
	if len(missing) > 0 {
		faults = append(faults, "no ready endpoint of "+strings.Join(missing, ", "))
	}
	if left < l.nodes/2 {
		faults = append(faults, fmt.Sprintf("pods are left on %d of %d nodes: these are not the first", left, l.nodes))
	}
	return faults, nil
}

// stopFaults lists the faults of a stop's exit code, result and message.
func stopFaults(result fixture.Result, recorded record.Result, broken []fixture.Workload) []string {
	var faults []string
	if result.Code != 1 {
		faults = append(faults, fmt.Sprintf("it ended with %d, not with 1: %s", result.Code, result.Stderr))
	}
	if recorded != record.WorkloadUnhealthy {
		faults = append(faults, fmt.Sprintf("its result is %q, not %q", recorded, record.WorkloadUnhealthy))
	}
	said := fixture.LastError(result.Stderr)
	for _, w := range broken {
		if name := metav1.NamespaceDefault + "/" + w.Kind + "/" + w.Name; !strings.Contains(said, name) {
			faults = append(faults, fmt.Sprintf("it does not name %s: %s", name, said))
		}
	}
	return faults
}

// countOccupied counts the old nodes that have pods.
func (l *layout) countOccupied(ctx context.Context, s *fixture.Fixture) (int, error) {
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	var occupied []string
	for i := range pods.Items {
		if node := pods.Items[i].Spec.NodeName; strings.HasPrefix(node, poolOf(oldImage, 0).NodePrefix()) {
			occupied = append(occupied, node)
		}
	}
	slices.Sort(occupied)
	return len(slices.Compact(occupied)), nil
}

// fixWorkload changes a workload's template so that its pods no longer crash.
func fixWorkload(ctx context.Context, s *fixture.Fixture, w *fixture.Workload) error {
	annotations := map[string]any{controlplane.AnnotationCrashOn: nil}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}}})
	if err != nil {
		return err
	}
	apps := s.Cluster.Client().AppsV1()
	if w.Kind == "StatefulSet" {
		_, err = apps.StatefulSets(s.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = apps.Deployments(s.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("fixing workload %q: %w", w.Name, err)
	}
	return nil
}
