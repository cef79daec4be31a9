package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// noticeDelay is how late the plugin may notice that a target is gone. It reads load balancers every 5 s while a node waits.
const noticeDelay = 7 * time.Second

// TestUpgradeWaitsForLoadBalancers upgrades groups whose nodes and pods are targets of load balancers (L22).
func TestUpgradeWaitsForLoadBalancers(t *testing.T) {
	t.Parallel()
	shared := fixture.ForTest(t, quickOptions())
	s := newBalancedGroup(t, shared, 12*time.Second)
	s.deploy(fixture.Workload{Name: "web", Replicas: 4, MaxUnavailable: "1"})
	s.startObserving()
	s.recordTargetOwners()

	s.Cloud.InjectFault(awscloud.Fault{Service: "elasticloadbalancing", Code: "AccessDenied", Times: -1})
	plan := startKubectl(t, s.Fixture, "nodeupgrade", "check", s.group, "--fail-on=never")
	plan.awaitExit(0)
	plan.checkOutput("may not elasticloadbalancing:DescribeTargetGroupAttributes", "the node label and --settle")
	s.Cloud.ClearFaults()

	c := s.runUpgrade(0)
	s.checkUpgraded()
	for _, part := range []string{"after these target groups have removed it: nodes, own, pods", "does not watch target groups of other accounts (theirs of account 999999999999)"} {
		if !strings.Contains(c.transcript(), part) {
			t.Errorf("it does not say %q", part)
		}
	}
	last := s.checkTargetsDrainedFirst()
	for instance, at := range s.terminationTimes() {
		if waited := at.Sub(last[instance]); waited > 12*time.Second+noticeDelay {
			t.Errorf("instance %s was terminated %s after its last target began to drain, and a drain takes 12s", instance, waited)
		}
	}
}

// TestWaitForLoadBalancersOverlapsWithSlowPods has pods that terminate more slowly than load balancers drain. So waiting for load
// balancers must take no extra time.
func TestWaitForLoadBalancersOverlapsWithSlowPods(t *testing.T) {
	skipUnlessSampled(t)
	t.Parallel()
	shared := fixture.ForTest(t, quickOptions())
	s := newBalancedGroup(t, shared, 3*time.Second)
	err := s.Add(t.Context(), fixture.Workload{
		Name: "web", Replicas: 4, MaxUnavailable: "2", Ready: 200 * time.Millisecond, Gone: 8 * time.Second, NodeSelector: map[string]string{"pool": s.group},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.startObserving()
	s.recordTargetOwners()
	empty := map[string]time.Time{}
	c := s.start("--settle=6s")
	for range s.before.group.Instances {
		e := c.awaitEvent("a node that is empty", nodeReached("Empty"))
		empty[e.Node] = e.Time
	}
	c.awaitExit(0)
	s.checkUpgraded()
	s.checkTargetsDrainedFirst()
	for instance, at := range s.terminationTimes() {
		if waited := at.Sub(empty[s.nodeOf(instance)]); waited > 9*time.Second {
			t.Errorf("node %s was terminated %s after it was empty, and --settle is 6s", s.nodeOf(instance), waited)
		}
	}
}

// balancedGroup is a case whose nodes and pods are behind load balancers.
type balancedGroup struct {
	*testCase
	// owners contains the instance of each target: for a node its instance, for a pod the instance of the pod's first node.
	owners map[string]string
}

// newBalancedGroup begins a case with four target groups that have the same deregistration delay. Their targets are the Auto Scaling
// group, nodes, the pods of web, and nodes in another account.
func newBalancedGroup(t *testing.T, shared *fixture.Fixture, delay time.Duration) *balancedGroup {
	t.Helper()
	add := func(name, account string, ip bool) string {
		return shared.Cloud.AddTargetGroup(awscloud.TargetGroupSpec{Name: name, Account: account, IP: ip, DeregistrationDelay: delay})
	}
	own, nodes, pods, theirs := add("own", "", false), add("nodes", "", false), add("pods", "", true), add("theirs", "999999999999", false)
	s := openEmptyCase(t, shared, fixture.Group{
		Name: "balanced", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance},
		More: func(spec *awscloud.GroupSpec) { spec.TargetGroupARNs = []string{own} },
	})
	for i, node := range s.nodes() { // each node gets its own range, because other nodes could otherwise reuse the addresses of deleted pods
		s.changeNode(node.Name, func(n *corev1.Node) {
			n.Spec.PodCIDR = fmt.Sprintf("10.20.%d.0/24", i)
			n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	wait, err := s.AddBindings(ctx,
		fixture.Binding{Name: "nodes", TargetGroup: nodes, Nodes: "pool=balanced"}, fixture.Binding{Name: "web", TargetGroup: pods, Pods: "app=web"},
		fixture.Binding{Name: "theirs", TargetGroup: theirs, Nodes: "pool=balanced"},
	)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
	return &balancedGroup{testCase: s}
}

// recordTargetOwners records the instance of each target.
func (s *balancedGroup) recordTargetOwners() {
	s.t.Helper()
	s.owners = map[string]string{}
	byNode := map[string]string{}
	for _, i := range s.before.group.Instances {
		s.owners[i.ID], byNode[i.Node] = i.ID, i.ID
	}
	for _, pod := range s.pods() {
		if s.owners[pod.Status.PodIP] != "" {
			s.t.Fatalf("two pods have the address %s", pod.Status.PodIP)
		}
		s.owners[pod.Status.PodIP] = byNode[pod.Spec.NodeName]
	}
}

func (s *balancedGroup) nodeOf(instance string) string {
	for _, i := range s.before.group.Instances {
		if i.ID == instance {
			return i.Node
		}
	}
	return ""
}

// terminationTimes returns when the termination of each instance was requested.
func (s *balancedGroup) terminationTimes() map[string]time.Time {
	at := map[string]time.Time{}
	for _, r := range s.Cloud.Requests() {
		if r.Operation == "TerminateInstanceInAutoScalingGroup" {
			at[r.Params["InstanceId"]] = r.Time
		}
	}
	return at
}

// checkTargetsDrainedFirst checks that no instance was terminated before its own targets and the targets of its pods had drained. It
// returns when the last target of each instance began to drain.
func (s *balancedGroup) checkTargetsDrainedFirst() (last map[string]time.Time) {
	s.t.Helper()
	last = map[string]time.Time{}
	terminated, registered, pods := s.terminationTimes(), map[string]bool{}, 0
	for _, e := range s.Cloud.TargetEvents() {
		owner := s.owners[e.ID]
		if owner == "" || e.Group == "own" || e.Group == "theirs" {
			continue // a target of a new node, or one for which Auto Scaling itself waits
		}
		switch e.State {
		case "healthy":
			registered[e.Group+" "+e.ID] = true
		case "draining":
			last[owner] = e.At // events are in order
			if e.Group == "pods" {
				pods++
			}
		case "gone":
			delete(registered, e.Group+" "+e.ID)
			if at := terminated[owner]; at.Before(e.At) {
				s.t.Errorf("instance %s was terminated %s before its target %s of group %s was drained", owner, e.At.Sub(at), e.ID, e.Group)
			}
		}
	}
	if len(terminated) != len(s.before.group.Instances) || pods != len(s.before.movingPods) {
		s.t.Errorf("%d instances were terminated, %d pods of %d drained", len(terminated), pods, len(s.before.movingPods))
	}
	for key := range registered {
		s.t.Errorf("target %s was never deregistered", key)
	}
	return last
}
