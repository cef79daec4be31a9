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

// neverExplained is the time of an explanation that was not given. It is longer than any target.
const neverExplained = time.Duration(math.MaxInt64)

// departures records when the last pod left each node.
type departures struct {
	mu   sync.Mutex
	last map[string]time.Time
	// firstNodes contains the nodes on which each workload had pods at the start.
	firstNodes map[string]map[string]bool
}

// watchDepartures watches the pods until the context or the fixture ends. In scenarios without a broken workload, it does nothing, so
// that it does not affect the measurement.
func (sc *scenario) watchDepartures(ctx context.Context, s *fixture.Fixture) (*departures, error) {
	if sc.broken == nil {
		return &departures{}, nil
	}
	client := s.Cluster.Client().CoreV1().Pods(s.Namespace)
	pods, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	d := &departures{last: map[string]time.Time{}, firstNodes: map[string]map[string]bool{}}
	for i := range pods.Items {
		app := pods.Items[i].Labels["app"]
		if d.firstNodes[app] == nil {
			d.firstNodes[app] = map[string]bool{}
		}
		d.firstNodes[app][pods.Items[i].Spec.NodeName] = true
	}
	watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
				d.noteDeparture(pod.Spec.NodeName)
			}
		}
	}()
	return d, nil
}

func (d *departures) noteDeparture(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[node] = time.Now()
}

func (d *departures) nodesOf(workload string) map[string]bool { return d.firstNodes[workload] }

// lastFromOtherNodes returns when the last pod left the nodes on which the workload had no pods.
func (d *departures) lastFromOtherNodes(workload string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for node, at := range d.last {
		if !d.firstNodes[workload][node] && at.After(last) {
			last = at
		}
	}
	return last
}

// timeToExplanation returns how soon the tool's events explain why the workload's pods stay on the given nodes. The time is counted from
// the first drain of these nodes. The explanation must name the budget and how many pods it needs. Without an explanation,
// timeToExplanation returns neverExplained.
func timeToExplanation(events string, nodes map[string]bool, workload string) time.Duration {
	var began time.Time
	for line := range strings.Lines(events) {
		var e struct {
			Time                    time.Time
			Type, Node, State, Text string
		}
		if json.Unmarshal([]byte(line), &e) != nil || !nodes[e.Node] {
			continue // a library's warning, or an event of another node
		}
		if e.Type == "node" && e.State == "draining" && began.IsZero() {
			began = e.Time
		}
		if e.Type == "blocked" && strings.Contains(e.Text, "PDB default/"+workload+" ") && strings.Contains(e.Text, "needs") {
			return e.Time.Sub(began)
		}
	}
	return neverExplained
}
