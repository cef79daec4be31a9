package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// service is one Service as its EndpointSlices show it.
type service struct {
	// ready counts the ready endpoints of each slice.
	ready map[string]int
	// hasServed is true after the Service has had a ready endpoint. The time before its first ready endpoint is not a gap.
	hasServed bool
	// since is when the Service lost its last ready endpoint; zero while it has one.
	since time.Time
	gaps  []time.Duration
}

// setReady records the number of ready endpoints of a slice, and begins or ends a gap.
func (s *service) setReady(slice string, ready int, now time.Time) {
	s.ready[slice] = ready
	serves := false
	for _, n := range s.ready {
		serves = serves || n > 0
	}
	switch {
	case serves && !s.since.IsZero():
		s.gaps = append(s.gaps, now.Sub(s.since))
		s.since = time.Time{}
	case serves:
		s.hasServed = true
	case s.hasServed && s.since.IsZero():
		s.since = now
	}
}

// services contains the Services of a namespace, by name.
type services map[string]*service

func (all services) noteSlice(event watch.EventType, slice *discoveryv1.EndpointSlice, now time.Time) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if all[name] == nil {
		all[name] = &service{ready: map[string]int{}}
	}
	ready := 0
	if event != watch.Deleted {
		ready = countReady(slice)
	}
	all[name].setReady(slice.Name, ready, now)
}

// countReady counts the ready endpoints. An endpoint whose readiness is unknown counts as ready (EndpointConditions.ready). A
// terminating pod does not: kube-proxy uses it when there is no other, but it may end at any time.
func countReady(slice *discoveryv1.EndpointSlice) int {
	n := 0
	for i := range slice.Endpoints {
		if ready := slice.Endpoints[i].Conditions.Ready; ready == nil || *ready {
			n++
		}
	}
	return n
}

// gaps returns the times without a ready endpoint up to now, for each Service that had any.
func (all services) gaps(now time.Time) map[string][]time.Duration {
	found := map[string][]time.Duration{}
	for name, s := range all {
		gaps := slices.Clone(s.gaps)
		if !s.since.IsZero() {
			gaps = append(gaps, now.Sub(s.since))
		}
		if len(gaps) > 0 {
			found[name] = gaps
		}
	}
	return found
}

// serving lists the Services that have a ready endpoint, in order.
func (all services) serving() []string {
	var names []string
	for name, s := range all {
		if s.hasServed && s.since.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// observer watches the EndpointSlices of a namespace. The watch delivers each version of a slice, so that even short gaps are seen.
type observer struct {
	cancel context.CancelFunc
	ended  chan error

	mu       sync.Mutex // guards services
	services services
}

// observe starts to watch the EndpointSlices. Call stop to end the watch.
func observe(ctx context.Context, s *fixture.Fixture) (*observer, error) {
	client := s.Cluster.Client().DiscoveryV1().EndpointSlices(s.Namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the endpoints: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching the endpoints: %w", err)
	}
	o := &observer{cancel: cancel, ended: make(chan error, 1), services: services{}}
	for i := range list.Items {
		o.noteSlice(watch.Added, &list.Items[i])
	}
	go func() { o.ended <- o.followWatch(ctx, watcher) }()
	return o, nil
}

func (o *observer) followWatch(ctx context.Context, watcher watch.Interface) error {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		slice, ok := event.Object.(*discoveryv1.EndpointSlice)
		if !ok && ctx.Err() != nil {
			return nil // stop was called
		}
		if !ok {
			return fmt.Errorf("watching the endpoints: %s: %v", event.Type, event.Object)
		}
		o.noteSlice(event.Type, slice)
	}
	if ctx.Err() == nil {
		return errors.New("watching the endpoints: the watch ended early: what came after it is not known")
	}
	return nil
}

func (o *observer) noteSlice(event watch.EventType, slice *discoveryv1.EndpointSlice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.services.noteSlice(event, slice, time.Now())
}

// serving lists the Services that have a ready endpoint now, in order.
func (o *observer) serving() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.services.serving()
}

// withoutEndpoint returns the sorted names of the layout's Services that have no ready endpoint now.
func (o *observer) withoutEndpoint(l *layout) []string {
	names := map[string]bool{}
	for i := range l.workloads {
		names[l.workloads[i].Name] = true
	}
	for _, name := range o.serving() {
		delete(names, name)
	}
	return slices.Sorted(maps.Keys(names))
}

// stop ends the watch and returns the gaps, by Service.
func (o *observer) stop() (map[string][]time.Duration, error) {
	now := time.Now()
	o.cancel()
	if err := <-o.ended; err != nil {
		return nil, err
	}
	return o.services.gaps(now), nil
}
