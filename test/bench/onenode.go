package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

const (
	onePods  = 8
	oneReady = time.Second
	oneGone  = 500 * time.Millisecond
)

// oneNode drains a node of eight pods under one budget that lets one be missing.
func oneNode(ctx context.Context, s *stage.Stage) error {
	rival, err := drainOne(ctx, s, "kubectl drain", []string{"drain", "rival-old", "--ignore-daemonsets", "--delete-emptydir-data"}, "rival")
	if err != nil {
		return err
	}
	ours, err := drainOne(ctx, s, "kubectl nodeupgrade", []string{
		"nodeupgrade", "-l", "pool=ours", "--current", "image=new", "--yes", "--settle", "0s", "--progress", "quiet",
	}, "ours")
	if err != nil {
		return err
	}
	return write(
		fmt.Sprintf("One node, %d pods, PDB maxUnavailable 1, ready after %s, gone after %s", onePods, oneReady, oneGone),
		"pods × time to ready", onePods*oneReady, []figure{rival, ours},
	)
}

// drainOne fills a node called NAME-old, adds two empty nodes beside it and measures the command that drains it.
func drainOne(ctx context.Context, s *stage.Stage, way string, args []string, name string) (figure, error) {
	old := controlplane.NodeSpec{Name: name + "-old", Labels: map[string]string{"pool": name, "image": "old"}}
	if err := addNode(ctx, s, old); err != nil {
		return figure{}, err
	}
	workload := stage.Workload{
		Name: name, Replicas: onePods, Ready: oneReady, Gone: oneGone, MaxUnavailable: "1", NodeSelector: map[string]string{"pool": name},
	}
	if err := s.Add(ctx, workload); err != nil {
		return figure{}, err
	}
	if err := s.Settle(ctx); err != nil {
		return figure{}, err
	}
	for i := range 2 {
		next := controlplane.NodeSpec{Name: fmt.Sprintf("%s-new-%d", name, i), Labels: map[string]string{"pool": name, "image": "new"}}
		if err := addNode(ctx, s, next); err != nil {
			return figure{}, err
		}
	}
	before, err := evictionCalls(ctx, s)
	if err != nil {
		return figure{}, err
	}
	began := time.Now()
	result, err := s.Kubectl(ctx, args...)
	took := time.Since(began)
	if err != nil || result.Code != 0 {
		return figure{}, fmt.Errorf("%s ended with %d: %s %w", way, result.Code, result.Stderr, err)
	}
	after, err := evictionCalls(ctx, s)
	if err != nil {
		return figure{}, err
	}
	return figure{way: way, took: took, calls: after - before, pods: onePods}, nil
}

func addNode(ctx context.Context, s *stage.Stage, spec controlplane.NodeSpec) error {
	if err := s.Cluster.AddNode(ctx, spec); err != nil {
		return err
	}
	_, err := s.Cluster.WaitForNode(ctx, spec.Name, corev1.ConditionTrue)
	return err
}

// evictionCalls counts the evictions that anybody asked for so far.
func evictionCalls(ctx context.Context, s *stage.Stage) (int, error) {
	events, err := s.Cluster.AuditEvents(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, event := range events {
		if event.Eviction() && !event.DryRun() {
			n++
		}
	}
	return n, nil
}
