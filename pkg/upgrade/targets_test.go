package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// span is the time in which a target has one state, relative to the start.
type span struct {
	id       string
	draining bool
	from, to time.Duration
}

// balancer is a load balancer with one target group.
type balancer struct {
	group nodegroup.TargetGroup
	spans []span
}

// read returns the cloud's reading of it after the given time.
func (b *balancer) read(after time.Duration) nodegroup.Targets {
	read := nodegroup.Targets{Groups: []nodegroup.TargetGroup{b.group}, Observed: start.Add(after)}
	for _, s := range b.spans {
		if after >= s.from && after < s.to {
			read.List = append(read.List, nodegroup.Target{Group: b.group, ID: s.id, Draining: s.draining})
		}
	}
	return read
}

const never = 1000 * time.Hour

// bound returns a target group with the delay that a TargetGroupBinding manages.
func bound(delay time.Duration) nodegroup.TargetGroup {
	return nodegroup.TargetGroup{ID: "arn:web", Name: "web", Delay: delay, Bound: true}
}

// E45, L22: an empty, settled node is not terminated while a target of it, or of a pod that left it, is draining or must
// still be removed. The wait is limited by the target group's delay.
func TestTerminationWaitsForLoadBalancerTargetsToDrain(t *testing.T) {
	own := bound(5 * time.Minute)
	own.Bound = false
	cases := map[string]struct {
		group  nodegroup.TargetGroup
		spans  []span
		leaves time.Duration
		want   time.Duration
	}{
		"nothing is known of it":            {bound(5 * time.Minute), nil, 0, time.Minute},
		"of another node":                   {bound(5 * time.Minute), []span{{"i-other", true, 0, never}}, 0, time.Minute},
		"drained within the settling":       {bound(5 * time.Minute), []span{{"i-old-a-1", true, 0, 50 * time.Second}}, 0, time.Minute},
		"drains as long as it may":          {bound(5 * time.Minute), []span{{"i-old-a-1", true, 5 * time.Second, 305 * time.Second}}, 0, 305 * time.Second},
		"drains while its pods leave":       {bound(5 * time.Minute), []span{{"i-old-a-1", true, 5 * time.Second, 305 * time.Second}}, 10 * time.Minute, 11 * time.Minute},
		"drains for ever":                   {bound(5 * time.Minute), []span{{"i-old-a-1", true, 0, never}}, 0, never},
		"taken out late":                    {bound(2 * time.Minute), []span{{"i-old-a-1", false, 0, 30 * time.Second}, {"i-old-a-1", true, 30 * time.Second, 150 * time.Second}}, 0, 150 * time.Second},
		"never taken out":                   {bound(2 * time.Minute), []span{{"i-old-a-1", false, 0, never}}, 0, never},
		"taken out when it was too late":    {bound(2 * time.Minute), []span{{"i-old-a-1", false, 0, 10 * time.Minute}}, 0, 10 * time.Minute},
		"taken out by its provider":         {own, []span{{"i-old-a-1", false, 0, never}}, 0, time.Minute},
		"a pod that left last":              {bound(2 * time.Minute), []span{{"10.0.0.7", false, 0, 5 * time.Minute}, {"10.0.0.7", true, 5 * time.Minute, 7 * time.Minute}}, 5 * time.Minute, 7 * time.Minute},
		"a pod whose target is left behind": {bound(2 * time.Minute), []span{{"10.0.0.7", false, 0, never}}, 30 * time.Second, never},
		"a pod that took longer to end":     {bound(2 * time.Minute), []span{{"10.0.0.7", false, 0, 6 * time.Minute}}, 5 * time.Minute, 6 * time.Minute},
		"a pod that stays":                  {bound(2 * time.Minute), []span{{"10.0.0.8", false, 0, never}}, 0, time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			address := func(ip string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Status.PodIP = ip } }
			pods := []*corev1.Pod{build.Pod("agent", build.OwnedBy("DaemonSet", "agent"), address("10.0.0.8"))}
			if c.leaves > 0 {
				pods = append(pods, build.Pod("web-0", address("10.0.0.7")))
			}
			s, b := draining(t, pods...), balancer{c.group, c.spans}
			if got := s.terminatedAfter(&b, c.leaves); got != c.want {
				t.Errorf("terminated after %s, want %s", got, c.want)
			}
		})
	}
}

// terminatedAfter advances the time, reads the balancer as often as a step requests, and removes the node's last pod.
// It returns when the node is terminated.
func (s *scene) terminatedAfter(b *balancer, leaves time.Duration) time.Duration {
	s.t.Helper()
	s.Targets = b.read(0)
	for waited := time.Duration(0); waited < time.Hour; waited += 5 * time.Second {
		step := s.rest()
		if step.Record.Stopping != "" {
			if m := step.Record.Message; step.Record.Stopping != record.PodEvictionFailure || !strings.Contains(m, "target group web still has target") {
				s.t.Errorf("it stops as %q: %s", step.Record.Stopping, m)
			}
			return never
		}
		for _, action := range step.Actions {
			s.t.Fatalf("%s is left", action)
		}
		if s.at("old-a-1").Instance.State == nodegroup.InstanceLeaving {
			return waited
		}
		if every := step.Targets.Every; every > 0 && s.Now.Sub(s.Targets.Observed) >= every-5*time.Second {
			s.Targets = b.read(waited + 5*time.Second)
		}
		s.pass(5 * time.Second)
		if waited+5*time.Second == leaves {
			pods := s.at("old-a-1").Pods
			s.at("old-a-1").Pods = pods[:1]
		}
	}
	s.t.Fatal("never terminated")
	return 0
}

// An empty node is terminated only after a reading of load balancers that is newer than the moment at which it was
// empty. If no reading succeeds, the upgrade stops, and the status gives that reason.
func TestTerminationWaitsForReadingOfLoadBalancers(t *testing.T) {
	s := draining(t)
	s.Record.Request.Settle = duration(0)
	s.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{bound(5 * time.Minute)}, Observed: start.Add(-time.Second)}
	step := s.rest()
	if watch := step.Targets; len(watch.IDs) != 1 || watch.IDs[0] != "i-old-a-1" || watch.Every != 5*time.Second {
		t.Errorf("load balancers are asked for %v", watch)
	}
	s.pass(time.Second)
	s.Targets.Observed, s.Targets.List = s.Now, []nodegroup.Target{{Group: s.Targets.Groups[0], ID: "i-old-a-1", Draining: true}}
	waits := s.next()
	wantActions(t, waits)
	for _, part := range []string{"target group web", "node old-a-1", "i-old-a-1 is draining", "5m10s left"} {
		if !strings.Contains(waits.Status.Waiting, part) {
			t.Errorf("it does not say %q: %s", part, waits.Status.Waiting)
		}
	}
	s.Targets.List = nil
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")

	late := draining(t)
	late.Record.Request.Settle = duration(0)
	late.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{bound(5 * time.Minute)}}
	wantState(t, late.rest(), "old-a-1", record.NodeEmpty)
	late.pass(20*time.Minute - 1)
	wantActions(t, late.next())
	late.pass(1)
	if step := late.next(); step.Record.Stopping != record.Failed || !strings.Contains(step.Record.Message, "load balancers") {
		t.Errorf("it stops as %q: %s", step.Record.Stopping, step.Record.Message)
	}
}

// A node that cannot be labelled stays in its load balancers. The upgrade names the request that fails, not the reading
// of load balancers.
func TestUpgradeStopsIfLoadBalancerLabelIsRefused(t *testing.T) {
	s := draining(t)
	s.Record.Request.Settle = duration(0)
	s.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{bound(5 * time.Minute)}, Observed: start}
	for s.Now.Before(start.Add(time.Hour)) {
		step := s.next()
		if step.Record.Stopping != "" {
			if want := "to start draining node old-a-1: it has had no effect for 20m0s: denied by webhook guard"; step.Record.Stopping != record.Failed || step.Record.Message != want {
				t.Errorf("it stops as %q: %s", step.Record.Stopping, step.Record.Message)
			}
			return
		}
		if want := "node old-a-1 to be labelled"; !strings.Contains(step.Status.Waiting, want) {
			t.Errorf("it waits for %q, want %q", step.Status.Waiting, want)
		}
		for _, action := range step.Actions {
			s.answer(action, nodegroup.OutcomeLater, "denied by webhook guard")
		}
		s.pass(30 * time.Second)
		s.Targets.Observed = s.Now
	}
	t.Error("it does not stop")
}

// The addresses of pods that have left outlive the process that evicted the pods: the next process waits for their
// targets.
func TestNextProcessWaitsForTargetsOfEvictedPods(t *testing.T) {
	s := draining(t, build.Pod("web-0", func(pod *corev1.Pod) { pod.Status.PodIP = "10.0.0.7" }))
	s.Record.Request.Settle = duration(0)
	group := bound(5 * time.Minute)
	s.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{group}}
	s.rest()
	s.at("old-a-1").Pods = nil
	s.crash()
	s.pass(time.Second)
	s.rest()
	s.pass(time.Second)
	s.Targets.Observed, s.Targets.List = s.Now, []nodegroup.Target{{Group: group, ID: "10.0.0.7", Draining: true}}
	if step := s.next(); !strings.Contains(step.Status.Waiting, "10.0.0.7") {
		t.Errorf("waits for %q with actions %v", step.Status.Waiting, step.Actions)
	}
	s.Targets.List = nil
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// A step that finds the node without its fence evicts no pod, and keeps the addresses of pods that left before.
func TestTargetsOfEvictedPodsAreKeptWhileFenceIsMissing(t *testing.T) {
	s := draining(t, build.Pod("web-0", func(pod *corev1.Pod) { pod.Status.PodIP = "10.0.0.7" }))
	group := bound(5 * time.Minute)
	s.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{group}}
	s.rest()
	m := s.at("old-a-1")
	fenced := m.Node
	m.Node, m.Pods = fenced.DeepCopy(), nil
	delete(m.Node.Annotations, nodemark.AnnotationRun)
	s.next()
	s.at("old-a-1").Node = fenced
	s.pass(time.Second)
	wantState(t, s.rest(), "old-a-1", record.NodeEmpty)
	s.pass(2 * time.Minute)
	s.Targets.Observed, s.Targets.List = s.Now, []nodegroup.Target{{Group: group, ID: "10.0.0.7", Draining: true}}
	wantActions(t, s.next())
	s.Targets.List = nil
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// A process that takes over an empty node reads its targets before it terminates it. If the node is in its load
// balancer again, for example because a user made it schedulable for a while, the process has it taken out and waits.
func TestNextProcessReadsTargetsBeforeItTerminatesEmptyNode(t *testing.T) {
	s := draining(t)
	group := bound(5 * time.Minute)
	s.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{group}}
	wantState(t, s.rest(), "old-a-1", record.NodeEmpty)
	s.pass(10 * time.Minute)
	s.Notes = upgrade.Notes{}
	if step := s.next(); step.Status.Waiting != "load balancers to be read" {
		t.Errorf("waits for %q with actions %v", step.Status.Waiting, step.Actions)
	}
	s.Targets.Observed, s.Targets.List = s.Now, []nodegroup.Target{{Group: group, ID: "i-old-a-1"}}
	s.pass(310*time.Second - 1)
	s.Targets.Observed = s.Now
	wantActions(t, s.next())
	s.pass(1)
	s.Targets.Observed, s.Targets.List = s.Now, nil
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// A node that a user made schedulable, and that was fenced again, is in its load balancer until its drain is started
// again. The upgrade waits for its target from then on, although the node's drain timeout is over.
func TestUpgradeWaitsForTargetsOfNodeThatAUserUncordoned(t *testing.T) {
	s := draining(t)
	group := bound(5 * time.Minute)
	s.Targets = nodegroup.Targets{Groups: []nodegroup.TargetGroup{group}}
	wantState(t, s.rest(), "old-a-1", record.NodeEmpty)
	s.pass(20 * time.Minute)
	m := s.at("old-a-1")
	m.Node = m.Node.DeepCopy()
	delete(m.Node.Labels, corev1.LabelNodeExcludeBalancers)
	delete(m.Node.Annotations, nodemark.AnnotationDeadline)
	s.Targets.Observed, s.Targets.List = s.Now, []nodegroup.Target{{Group: group, ID: "i-old-a-1"}}
	step := s.next()
	if step.Record.Stopping != "" {
		t.Fatalf("it stops: %s", step.Record.Message)
	}
	wantActions(t, step, "start draining node old-a-1")
	s.do(step.Actions...)
	s.next()
	s.pass(time.Second)
	s.Targets.Observed = s.Now
	if step = s.next(); !strings.Contains(step.Status.Waiting, "i-old-a-1 is still registered, at most 5m9s left") {
		t.Errorf("waits for %q with actions %v", step.Status.Waiting, step.Actions)
	}
}

// Without target groups load balancers are not read, and no address is kept.
func TestLoadBalancersAreNotReadWithoutTargetGroups(t *testing.T) {
	s := draining(t)
	step := s.rest()
	if step.Targets.Every != 0 || len(step.Targets.IDs) > 0 || len(step.Notes.Addresses) > 0 {
		t.Errorf("load balancers are asked for %v, and %v is noted", step.Targets, step.Notes.Addresses)
	}
}
