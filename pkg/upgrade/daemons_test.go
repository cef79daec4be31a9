package upgrade_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// agent returns the pod of a DaemonSet on a node, bound at the time.
func agent(node string, bound time.Time, with ...func(*corev1.Pod)) *corev1.Pod {
	pod := build.Pod("agent-"+node, append([]func(*corev1.Pod){build.OwnedBy("DaemonSet", "agent"), build.On(node), build.Created(bound)}, with...)...)
	pod.Status.StartTime = &metav1.Time{Time: bound}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = metav1.Time{Time: bound.Add(10 * time.Second)}
	}
	return pod
}

// crashing makes the pod's container crash.
func crashing(pod *corev1.Pod) {
	build.Unready(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", RestartCount: 4, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
}

const agentName = build.Namespace + "/DaemonSet/agent"

// replaceFirst runs an upgrade until the first node is gone, and adds a new node whose DaemonSet pod is changed by
// fresh. old changes the pods of outdated nodes.
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
	first := inState(s.rest().Record, record.NodeDrained)
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

// If a DaemonSet's pods crash on new nodes, no further nodes are started, and the upgrade stops and names the
// DaemonSet.
func TestCrashingDaemonSetPodsStopTheUpgrade(t *testing.T) {
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
	if step = s.next(); step.Record.Stopping != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, want) {
		t.Errorf("after five minutes it stops with %q: %q", step.Record.Stopping, step.Record.Message)
	}
}

// The upgrade also waits for the pods on the last new node.
func TestUpgradeEndWaitsForDaemonSetPodsOnLastNode(t *testing.T) {
	s := replaceFirst(t, 1, nil, crashing)
	if step := s.rest(); step.Finished {
		t.Fatalf("it ends %q while the DaemonSet's pod crashes", step.Record.Result)
	}
	s.pass(5 * time.Minute)
	if step := s.rest(); step.Record.Result != record.WorkloadUnhealthy {
		t.Errorf("it ends %q", step.Record.Result)
	}
}

// A pod that is ready for a moment between two crashes starts no further node, and does not restart the time limit.
func TestDaemonSetThatIsReadyOnlyBetweenCrashesIsUnhealthy(t *testing.T) {
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
		if s.rest().Record.Result == record.WorkloadUnhealthy {
			return
		}
	}
	t.Error("it does not stop after 5 minutes of crashes")
}

// If a DaemonSet had no ready pod before the upgrade, its unready pods on new nodes do not delay the upgrade.
func TestDaemonSetWithoutReadyPodsDelaysNothing(t *testing.T) {
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

// A DaemonSet delays nothing if it is no worse than before the upgrade, usually slow, or ignored.
func TestDaemonSetNoWorseThanBeforeUpgradeDelaysNothing(t *testing.T) {
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

// pending makes the pod one that no node takes, although its controller created it for a node.
func pending(pod *corev1.Pod) {
	build.Unready(pod)
	node := pod.Spec.NodeName
	pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 1 Insufficient cpu",
	})
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
}

// A pod that its node would not take if it were empty is late at once.
func TestDaemonSetPodTooLargeForEmptyNodeIsUnhealthy(t *testing.T) {
	s := replaceBare(t, 3, nil)
	s.at("new-a-1").Node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	s.Pods = map[string][]*corev1.Pod{"": {agent("new-a-1", s.Now, pending, func(pod *corev1.Pod) {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	})}}
	const want = "Insufficient cpu; not even an empty current node would take it: Insufficient cpu"
	if step := s.rest(); len(step.Status.Unhealthy) != 1 || !strings.HasSuffix(step.Status.Unhealthy[0].Why, want) || strings.Contains(started(step.Record), "old-") {
		t.Errorf("unhealthy: %v, started: %s", step.Status.Unhealthy, started(step.Record))
	}
}

// If a DaemonSet's pods fail on current nodes that exist already, the first node is not started.
func TestDaemonSetFailingOnCurrentNodesPreventsFirstDrain(t *testing.T) {
	s := newManualScene(t, "old-a-1", "old-a-2")
	for i := range s.Members {
		s.Members[i].Pods = []*corev1.Pod{agent(s.Members[i].Name(), start.Add(-time.Hour))}
	}
	for _, name := range []string{"new-a-1", "new-a-2"} {
		s.add(current(name, agent(name, start.Add(-time.Hour), crashing)))
	}
	step := s.rest()
	if started(step.Record) != "" || len(step.Status.Unhealthy) != 1 {
		t.Errorf("started: %s, unhealthy: %v", started(step.Record), step.Status.Unhealthy)
	}
	s.pass(5 * time.Minute)
	if step = s.rest(); step.Record.Result != record.WorkloadUnhealthy || started(step.Record) != "" {
		t.Errorf("it ends %q, started: %s", step.Record.Result, started(step.Record))
	}
}

// replaceBare is replaceFirst with a new node that has no pod of the DaemonSet.
func replaceBare(t *testing.T, nodes int, old func(*corev1.Pod)) *scene {
	s := replaceFirst(t, nodes, old, nil)
	s.at("new-a-1").Pods = nil
	return s
}

// A DaemonSet's pod that its node does not take is late after 30 s: until then the scheduler may preempt other pods for
// it.
func TestUnschedulableDaemonSetPodIsUnhealthyAfter30Seconds(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		old   func(*corev1.Pod)
		held  bool
	}{
		"ready before":       {3, nil, true},
		"on the last node":   {1, nil, true},
		"unready before too": {3, crashing, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := replaceBare(t, c.nodes, c.old)
			s.Pods = map[string][]*corev1.Pod{"": {agent("new-a-1", s.Now, pending)}}
			if step := s.rest(); len(step.Status.Unhealthy) > 0 || c.held && step.Finished {
				t.Fatalf("at once it ends %q with %v", step.Record.Result, step.Status.Unhealthy)
			}
			s.pass(30 * time.Second)
			step := s.rest()
			want := agentName + " (0 of 1 ready): pod agent-new-a-1: no node takes it: 0/3 nodes are available: 1 Insufficient cpu"
			if c.held != (len(step.Status.Unhealthy) == 1 && step.Status.Unhealthy[0].String() == want) {
				t.Errorf("after 30 s unhealthy are %v, and it waits for %q", step.Status.Unhealthy, step.Status.Waiting)
			}
			s.pass(5 * time.Minute)
			if step = s.rest(); c.held != (step.Record.Result == record.WorkloadUnhealthy) {
				t.Errorf("it ends %q: %s", step.Record.Result, step.Record.Message)
			}
		})
	}
}

// The control plane removes the not-ready taint from a new node a moment after the node is Ready. Pods that wait for
// that are not late.
func TestDaemonSetPodMayWaitForNotReadyTaintOfNewNode(t *testing.T) {
	s := replaceBare(t, 3, nil)
	node := s.at("new-a-1").Node
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	s.Pods = map[string][]*corev1.Pod{"": {agent("new-a-1", s.Now, pending)}}
	if step := s.rest(); len(step.Status.Unhealthy) > 0 {
		t.Errorf("unhealthy at once: %v", step.Status.Unhealthy)
	}
}

// The pod of a node that was silent for minutes has waited for minutes. It is late 30 s after the node is Ready again.
func TestDaemonSetPodTimeRestartsWhenNodeIsReadyAgain(t *testing.T) {
	for name, c := range map[string]struct {
		readyFor time.Duration
		late     bool
	}{
		"a moment ago": {time.Second, false},
		"for a minute": {time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := replaceBare(t, 3, nil)
			s.pass(20 * time.Minute)
			nodegroup.ReadyCondition(s.at("new-a-1").Node).LastTransitionTime.Time = s.Now.Add(-c.readyFor)
			s.Pods = map[string][]*corev1.Pod{"": {agent("new-a-1", s.Now.Add(-20*time.Minute), pending)}}
			if step := s.rest(); c.late != (len(step.Status.Unhealthy) > 0) {
				t.Errorf("unhealthy are %v", step.Status.Unhealthy)
			}
		})
	}
}

// A DaemonSet that skips the current nodes on purpose delays the upgrade once, not for each node.
func TestDaemonSetThatSkipsCurrentNodesDelaysUpgradeOnce(t *testing.T) {
	s := newManualScene(t, "old-a-1", "old-a-2", "old-a-3")
	s.Request.WaitReplacement = false
	for i := range s.Members {
		s.Members[i].Pods = []*corev1.Pod{agent(s.Members[i].Name(), start.Add(-time.Hour))}
	}
	s.add(current("new-a-1"))
	if step := s.rest(); started(step.Record) != "old-a-1" || !strings.Contains(step.Status.Waiting, agentName) {
		t.Errorf("started: %s, while it waits for %q", started(step.Record), step.Status.Waiting)
	}
	s.Controllers = map[drain.Workload]drain.Controller{s.rest().Unscaled[0]: {}}
	s.pass(5 * time.Second)
	s.add(current("new-a-2"))
	if step := s.rest(); step.Record.Result != record.Succeeded {
		t.Errorf("it ends %q and waits for %q", step.Record.Result, step.Status.Waiting)
	}
}

// A DaemonSet's pod that is not created for a new node counts as missing, unless its controller skips the node.
func TestUncreatedDaemonSetPodCountsAsMissing(t *testing.T) {
	const quota = `pods "agent-" is forbidden: exceeded quota`
	for name, c := range map[string]struct {
		read *drain.Controller
		want string
	}{
		"they are refused":           {&drain.Controller{Uncreated: 4, Refused: quota}, agentName + " (0 of 1 ready): 1 pod is not created: " + quota},
		"nothing is said":            {&drain.Controller{Uncreated: 1}, agentName + " (0 of 1 ready): 1 pod is not created, and its controller reports no reason"},
		"the node is left out":       {&drain.Controller{Replicas: 2, Refused: quota}, ""},
		"its controller is not read": {nil, ""},
		"its controller may not be":  {&drain.Controller{Unread: "forbidden"}, agentName + " (0 of 1 ready): 1 pod is not created, and the wanted number is unknown: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s := replaceBare(t, 1, nil)
			step := s.rest()
			if step.Finished || len(step.Unscaled) != 1 || step.Unscaled[0].String() != agentName {
				t.Fatalf("it ends %q, controllers to read: %v", step.Record.Result, step.Unscaled)
			}
			s.pass(5 * time.Second)
			if c.read != nil {
				c.read.Read = s.Now
				s.Controllers = map[drain.Workload]drain.Controller{step.Unscaled[0]: *c.read}
			}
			step = s.rest()
			if c.read == nil {
				if step.Finished || len(step.Status.Unhealthy) > 0 || !strings.Contains(step.Status.Waiting, agentName) {
					t.Errorf("it ends %q, unhealthy: %v, and waits for %q", step.Record.Result, step.Status.Unhealthy, step.Status.Waiting)
				}
				return
			}
			if c.want == "" && step.Record.Result != record.Succeeded || c.want != "" && (len(step.Status.Unhealthy) != 1 || step.Status.Unhealthy[0].String() != c.want) {
				t.Errorf("it ends %q, unhealthy: %v; want %q", step.Record.Result, step.Status.Unhealthy, c.want)
			}
			if c.want == "" {
				return
			}
			s.pass(5 * time.Minute)
			if step = s.rest(); step.Record.Result != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, c.want) {
				t.Errorf("it ends %q: %s", step.Record.Result, step.Record.Message)
			}
		})
	}
}
