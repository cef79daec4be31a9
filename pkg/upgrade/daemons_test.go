package upgrade_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// agent is the pod of a DaemonSet on a node, which was bound at the time.
func agent(node string, bound time.Time, with ...func(*corev1.Pod)) *corev1.Pod {
	pod := build.Pod("agent-"+node, append([]func(*corev1.Pod){build.OwnedBy("DaemonSet", "agent"), build.On(node), build.Created(bound)}, with...)...)
	pod.Status.StartTime = &metav1.Time{Time: bound}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = metav1.Time{Time: bound.Add(10 * time.Second)}
	}
	return pod
}

// crashing has the pod's container crash.
func crashing(pod *corev1.Pod) {
	build.Unready(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", RestartCount: 4, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
}

const agentName = build.Namespace + "/DaemonSet/agent"

// replaceFirst upgrades up to the end of the first node and brings up one whose DaemonSet's pod is
// so; old says how the pods of outdated nodes are.
func replaceFirst(t *testing.T, nodes int, old, fresh func(*corev1.Pod)) *scene {
	names := make([]string, 0, nodes)
	for i := range nodes {
		names = append(names, fmt.Sprintf("old-a-%d", i+1))
	}
	s := newManualScene(t, names...)
	for i := range s.Members {
		s.Members[i].Pods = []*corev1.Pod{agent(s.Members[i].Name(), start.Add(-time.Hour))}
		if old != nil {
			old(s.Members[i].Pods[0])
		}
	}
	first := inState(s.rest().Record, upgrade.NodeDrained)
	if len(first) != 1 {
		t.Fatalf("drained are %v, want one node", first)
	}
	s.replaceNode(first[0], "manual", nil)
	pod := agent("new-a-1", s.Now)
	if fresh != nil {
		fresh(pod)
	}
	s.at("new-a-1").Pods = []*corev1.Pod{pod}
	return s
}

// A DaemonSet whose pods crash on new nodes keeps further nodes from being started, and stops the
// upgrade by name.
func TestDaemonSetsAreCanaries(t *testing.T) {
	s := replaceFirst(t, 3, nil, crashing)
	step := s.rest()
	if strings.Contains(started(step.Record), "old-") {
		t.Errorf("a further node is started: %s", started(step.Record))
	}
	want := agentName + " (0 of 1 ready): pod agent-new-a-1 on node new-a-1: container main is in CrashLoopBackOff after 4 restarts"
	if step.Status.Waiting != want {
		t.Errorf("it waits for %q, want %q", step.Status.Waiting, want)
	}
	s.pass(5 * time.Minute)
	if step = s.next(); step.Record.Stopping != upgrade.WorkloadUnhealthy || !strings.Contains(step.Record.Message, want) {
		t.Errorf("after five minutes it stops with %q: %q", step.Record.Stopping, step.Record.Message)
	}
}

// The pods on the last new node are waited for, too.
func TestEndWaitsForDaemonSets(t *testing.T) {
	s := replaceFirst(t, 1, nil, crashing)
	if step := s.rest(); step.Finished {
		t.Fatalf("it ends %q while the DaemonSet's pod crashes", step.Record.Result)
	}
	s.pass(5 * time.Minute)
	if step := s.rest(); step.Record.Result != upgrade.WorkloadUnhealthy {
		t.Errorf("it ends %q", step.Record.Result)
	}
}

// A pod that is ready for a moment between two crashes does not open the gate, and does not begin
// the limit again.
func TestFlappingDaemonSetsAreUnhealthy(t *testing.T) {
	s := replaceFirst(t, 3, nil, crashing)
	s.rest()
	for range 11 {
		s.pass(15 * time.Second)
		flap := agent("new-a-1", s.Now.Add(-10*time.Second))
		s.at("new-a-1").Pods = []*corev1.Pod{flap}
		if step := s.rest(); strings.Contains(started(step.Record), "old-") {
			t.Fatalf("a further node is started: %s", started(step.Record))
		}
		s.pass(15 * time.Second)
		crash := agent("new-a-1", s.Now)
		crashing(crash)
		s.at("new-a-1").Pods = []*corev1.Pod{crash}
		if s.rest().Record.Result == upgrade.WorkloadUnhealthy {
			return
		}
	}
	t.Error("it does not stop after 5 minutes of crashes")
}

// Of a DaemonSet that had no ready pod the pods on any number of new nodes tell nothing.
func TestDaemonSetWithoutReadyPodsKeepsNothing(t *testing.T) {
	s := replaceFirst(t, 3, crashing, crashing)
	for i := range 6 {
		more := current(fmt.Sprintf("new-b-%d", i))
		more.Pods = []*corev1.Pod{agent(more.Name(), s.Now, crashing)}
		s.add(more)
	}
	if step := s.rest(); !strings.Contains(started(step.Record), "old-") {
		t.Errorf("no further node is started: it waits for %q", step.Status.Waiting)
	}
}

// What is no worse than before the upgrade, slow by nature or need not be ready keeps nothing.
func TestDaemonSetsThatAreAsBeforeKeepNothing(t *testing.T) {
	slow := func(pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.Time{Time: pod.Status.StartTime.Add(10 * time.Minute)}
		}
	}
	cases := map[string]struct {
		old, fresh func(*corev1.Pod)
		ignored    string
	}{
		"ready":                 {nil, nil, ""},
		"crashing before, too":  {crashing, crashing, ""},
		"slow, and not yet up":  {slow, build.Unready, ""},
		"need not become ready": {nil, crashing, strings.ToLower(agentName)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := replaceFirst(t, 3, c.old, c.fresh)
			if c.ignored != "" {
				s.Record.Request.IgnoreUnready = []string{c.ignored}
			}
			s.pass(time.Minute)
			if step := s.rest(); !strings.Contains(started(step.Record), "old-") {
				t.Errorf("no further node is started: it waits for %q", step.Status.Waiting)
			}
		})
	}
}
