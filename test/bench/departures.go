package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// never is longer than any target.
const never = time.Duration(math.MaxInt64)

// departures records when the last pod left each node.
type departures struct {
	mu   sync.Mutex
	last map[string]time.Time
	// hosts contains the nodes on which each workload had pods at first.
	hosts map[string]map[string]bool
}

// watchDepartures watches the pods until the context or the fixture ends. It does so only in scenarios with a broken workload, so that
// the watch costs the other scenarios nothing.
func (sc *scenario) watchDepartures(ctx context.Context, s *fixture.Fixture) (*departures, error) {
	if sc.broken == nil {
		return &departures{}, nil
	}
	client := s.Cluster.Client().CoreV1().Pods(s.Namespace)
	pods, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	d := &departures{last: map[string]time.Time{}, hosts: map[string]map[string]bool{}}
	for i := range pods.Items {
		app := pods.Items[i].Labels["app"]
		if d.hosts[app] == nil {
			d.hosts[app] = map[string]bool{}
		}
		d.hosts[app][pods.Items[i].Spec.NodeName] = true
	}
	watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
				d.note(pod.Spec.NodeName)
			}
		}
	}()
	return d, nil
}

func (d *departures) note(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[node] = time.Now()
}

func (d *departures) nodesOf(workload string) map[string]bool { return d.hosts[workload] }

// others returns when the last pod left those nodes on which the workload had none.
func (d *departures) others(workload string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for node, at := range d.last {
		if !d.hosts[workload][node] && at.After(last) {
			last = at
		}
	}
	return last
}

// toldAfter returns, from the tool's events, how soon the tool explained what keeps the workload's pods on the given nodes. The time
// counts from the first drain of these nodes. The explanation names the budget, and what it needs. If there is none, toldAfter returns
// never.
func toldAfter(events string, nodes map[string]bool, workload string) time.Duration {
	var began time.Time
	for line := range strings.Lines(events) {
		var e struct {
			Time                    time.Time
			Type, Node, State, Text string
		}
		if json.Unmarshal([]byte(line), &e) != nil || !nodes[e.Node] {
			continue // a library's warning, or another node
		}
		if e.Type == "node" && e.State == "draining" && began.IsZero() {
			began = e.Time
		}
		if e.Type == "blocked" && strings.Contains(e.Text, "PDB default/"+workload+" ") && strings.Contains(e.Text, "needs") {
			return e.Time.Sub(began)
		}
	}
	return never
}
