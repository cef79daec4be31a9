package upgrade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// webName is the workload of the scenes in this file.
const webName = "shop/ReplicaSet/web"

// gateScene is a group without a cloud, whose nodes have a pod of one workload each, and whose owner adds no nodes.
type gateScene struct {
	*scene
	index *drain.WorkloadIndex
}

func newGateScene(t *testing.T, outdated int) *gateScene {
	t.Helper()
	g := &gateScene{index: drain.NewWorkloadIndex(drain.Facts{})}
	members := []nodegroup.Member{current("cur-a-1")}
	for i := range outdated {
		name := string(rune('0' + i))
		pod := build.Pod("web-"+name, build.Created(start.Add(-time.Hour)))
		members = append(members, old("old-a-"+name, pod))
		g.index.Store(pod)
	}
	for i := range members {
		members[i].Instance = nodegroup.Instance{}
	}
	g.scene = newScene(t, members...)
	g.Group.Provider, g.Group.Can, g.Request.Settle = "manual", nodegroup.Capabilities{}, duration(0)
	return g
}

// step takes steps and makes their actions succeed until a step has no action. Evicted pods are gone at once.
func (g *gateScene) step() upgrade.Step {
	g.t.Helper()
	for range 30 {
		g.Workloads = g.index.Snapshot()
		step := g.next()
		if step.Finished || (len(step.Actions) == 0 && step.Wake.After(g.Now)) {
			return step
		}
		g.do(step.Actions...)
		for _, action := range step.Actions {
			if evict, ok := action.(schedule.Eviction); ok {
				m := g.at(evict.Node)
				for _, pod := range m.Pods {
					if pod.UID == evict.UID {
						g.index.Remove(pod)
					}
				}
				m.Pods = slices.DeleteFunc(slices.Clone(m.Pods), func(pod *corev1.Pod) bool { return pod.UID == evict.UID })
			}
		}
	}
	g.t.Fatal("no rest within 30 steps")
	return upgrade.Step{}
}

// add creates a pod of the workload on the current node.
func (g *gateScene) add(name string, with ...func(*corev1.Pod)) *corev1.Pod {
	pod := build.Pod(name, append([]func(*corev1.Pod){build.Created(g.Now), build.On("cur-a-1")}, with...)...)
	if pod.Spec.NodeName != "" {
		m := g.at(pod.Spec.NodeName)
		m.Pods = append(m.Pods, pod)
	}
	g.index.Store(pod)
	return pod
}

// wantHeld checks that the step has started only the first node, because of the workload.
func (g *gateScene) wantHeld(step upgrade.Step, why string) {
	g.t.Helper()
	wantState(g.t, step, "old-a-1", record.NodeFenced)
	if len(step.Status.Unhealthy) != 1 || !strings.Contains(step.Status.Unhealthy[0].String(), why) {
		g.t.Errorf("unhealthy: %v, want one that says %q", step.Status.Unhealthy, why)
	}
}

// wantStopped waits for the time that a workload has to recover, and checks that the upgrade stops and says why.
func (g *gateScene) wantStopped(why string) {
	g.t.Helper()
	g.pass(5 * time.Minute)
	step := g.step()
	if step.Record.Result != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, why) || !strings.Contains(step.Record.Message, webName) {
		g.t.Errorf("it ends with %q: %s; want %q with %q", step.Record.Result, step.Record.Message, record.WorkloadUnhealthy, why)
	}
}

// stepUndead is step for a cluster in which evicted pods of a StatefulSet do not end.
func (g *gateScene) stepUndead() upgrade.Step {
	g.t.Helper()
	for range 30 {
		g.Workloads = g.index.Snapshot()
		step := g.next()
		if step.Finished || (len(step.Actions) == 0 && step.Wake.After(g.Now)) {
			return step
		}
		for _, action := range step.Actions {
			if evict, ok := action.(schedule.Eviction); ok {
				m := g.at(evict.Node)
				m.Pods = slices.Clone(m.Pods)
				for i, pod := range m.Pods {
					m.Pods[i] = pod.DeepCopy()
					m.Pods[i].DeletionTimestamp = &metav1.Time{Time: g.Now}
					g.index.Store(m.Pods[i])
				}
				g.answer(evict, nodegroup.OutcomeDone, "")
				continue
			}
			g.do(action)
		}
	}
	g.t.Fatal("no rest within 30 steps")
	return upgrade.Step{}
}

func (g *gateScene) tellController(read drain.Controller) {
	read.Read = g.Now
	g.Controllers = map[drain.Workload]drain.Controller{{Namespace: build.Namespace, Kind: "ReplicaSet", Name: "web"}: read}
}

// TestUpgradeStopsWhenReplacementPodsAreNotCreated: if a workload's pods are not created, no further node is started, and the upgrade stops
// with the reason.
func TestUpgradeStopsWhenReplacementPodsAreNotCreated(t *testing.T) {
	const quota = `pods "web-" is forbidden: exceeded quota`
	for name, c := range map[string]struct {
		read drain.Controller
		why  string
	}{
		"the server refuses them":       {drain.Controller{Replicas: 3, Refused: quota}, "(2 of 3 ready): 1 pod is not created: " + quota},
		"nothing is said":               {drain.Controller{Replicas: 3}, "1 pod is not created, and its controller reports no reason"},
		"the controller cannot be read": {drain.Controller{Unread: "forbidden"}, "the wanted number is unknown: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 3)
			step := g.step()
			wantState(t, step, "old-a-1", record.NodeFenced)
			if len(step.Unscaled) != 1 {
				t.Fatalf("controllers to read: %v, want that of the workload", step.Unscaled)
			}
			g.pass(4 * time.Second)
			g.tellController(drain.Controller{Replicas: 3}) // too early to decide: the API server may not have refused the replacement pod yet
			g.pass(2 * time.Second)
			if step := g.step(); len(step.Status.Unhealthy) > 0 {
				t.Fatalf("a reading of an earlier time decides: %v", step.Status.Unhealthy)
			}
			g.tellController(c.read)
			g.wantHeld(g.step(), c.why)
			g.wantStopped(c.why)
			const retry = `repair them and run kubectl annotate --namespace shop replicaset/web nodeupgrade-retry="$(date)" --overwrite`
			if told := strings.Contains(g.Record.Message, retry); told != (c.read.Refused != "") {
				t.Errorf("message names the command to retry: %t: %q", told, g.Record.Message)
			}
		})
	}
}

// TestPodUnreadyBeforeUpgradeIsNoReplacement: a workload had an unready pod before the upgrade. After another pod was evicted and not recreated, the
// unready pod does not count as its replacement (A1).
func TestPodUnreadyBeforeUpgradeIsNoReplacement(t *testing.T) {
	const quota = `pods "web-" is forbidden: exceeded quota`
	for name, c := range map[string]struct {
		read drain.Controller
		why  string
	}{
		"the server refuses new ones":     {drain.Controller{Replicas: 4, Refused: quota}, "(2 of 3 ready): 1 pod is not created: " + quota},
		"it creates them in order":        {drain.Controller{Replicas: 4, Ordered: true}, "1 pod is not created: the StatefulSet creates its pods in order and waits until pod web-0 is ready"},
		"none before it is unready":       {drain.Controller{Replicas: 4, Ordered: true, First: 1}, "1 pod is not created, and its controller reports no reason"},
		"its owner has scaled it down":    {drain.Controller{Replicas: 3}, "none of its new pods is on a node that stays"},
		"how many there are is not known": {drain.Controller{Unread: "forbidden"}, "none of its new pods is on a node that stays"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 3)
			g.index = drain.NewWorkloadIndex(drain.Facts{})
			for i, name := range []string{"web-1", "web-2", "web-3"} {
				m := g.at(fmt.Sprintf("old-a-%d", i))
				m.Pods = []*corev1.Pod{build.Pod(name, build.Created(start.Add(-time.Hour)), build.On(m.Node.Name))}
				g.index.Store(m.Pods[0])
			}
			g.add("web-0", build.Unready, build.Created(start.Add(-time.Hour)))
			g.step()
			g.pass(6 * time.Second)
			g.tellController(c.read)
			g.wantHeld(g.step(), c.why)
			g.wantStopped(c.why)
		})
	}
}

// TestOrderedStatefulSetPodsAreExpectedOneByOne: two pods of a StatefulSet are missing, and it creates the second after the first became ready. The
// workload is not reported as unhealthy before the second is late.
func TestOrderedStatefulSetPodsAreExpectedOneByOne(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	first := g.add("web-8", build.Unready)
	second := g.at("old-a-1").Pods[0]
	g.index.Remove(second) // so two pods are away, and one was created
	g.at("old-a-1").Pods = nil
	for range 20 {
		g.tellController(drain.Controller{Replicas: 3})
		if step := g.step(); len(step.Status.Unhealthy) > 0 {
			t.Fatalf("unhealthy while the first pod starts: %v", step.Status.Unhealthy)
		}
		g.pass(time.Second)
	}
	ready := build.Pod(first.Name, build.Created(first.CreationTimestamp.Time), build.On("cur-a-1"))
	g.at("cur-a-1").Pods = []*corev1.Pod{ready}
	g.index.Store(ready)
	g.tellController(drain.Controller{Replicas: 3})
	if step := g.step(); len(step.Status.Unhealthy) > 0 {
		t.Errorf("unhealthy when the first pod has become ready: %v", step.Status.Unhealthy)
	}
	g.pass(6 * time.Second)
	g.tellController(drain.Controller{Replicas: 3})
	if step := g.step(); len(step.Status.Unhealthy) == 0 {
		t.Error("not unhealthy, and the second pod has not been created for 6 s")
	}
}

// TestStatefulSetMayWaitForItsTerminatingPod: a StatefulSet creates no pod while one with a lower ordinal is ending. During the drain of
// that pod's node the workload is not reported, unless finalizers keep the pod.
func TestStatefulSetMayWaitForItsTerminatingPod(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	ending := g.at("old-a-1").Pods[0].DeepCopy()
	ending.Name = "web-0"
	ending.DeletionTimestamp = &metav1.Time{Time: g.Now.Add(30 * time.Second)}
	g.at("old-a-1").Pods = []*corev1.Pod{ending}
	g.index.Store(ending)
	for range 10 {
		g.tellController(drain.Controller{Replicas: 3, Ordered: true})
		if step := g.step(); len(step.Status.Unhealthy) > 0 {
			t.Fatalf("unhealthy while a pod ends in its time: %v", step.Status.Unhealthy)
		}
		g.pass(6 * time.Second)
	}
	g.tellController(drain.Controller{Replicas: 3, Ordered: true})
	ending.Finalizers = []string{"example.com/backup"}
	const why = "2 pods are not created: pod web-0 on node old-a-1 should be gone, but its finalizers keep it (example.com/backup)"
	if all := g.step().Status.Unhealthy; len(all) != 1 || !strings.Contains(all[0].String(), why) {
		t.Errorf("unhealthy: %v, want one that says %q", all, why)
	}
}

// TestUnhealthyWorkloadsAreOnRecord: the record contains since when a workload has not recovered. A status on another
// machine continues counting from there. A command that resumes the upgrade starts again at zero.
func TestUnhealthyWorkloadsAreOnRecord(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	g.add("web-9", build.Unready)
	g.pass(31 * time.Second)
	first := g.step()
	late := g.Now
	g.pass(59 * time.Second)
	if early := g.step(); len(first.Status.Unhealthy) != 1 || early.Record.Unhealthy != nil {
		t.Fatalf("after 59s the record has %v, and the workloads %v do not recover", early.Record.Unhealthy, first.Status.Unhealthy)
	}
	g.pass(time.Second)
	g.step()
	g.crash()
	g.pass(time.Minute)
	const web = "shop/ReplicaSet/web"
	if step := g.step(); !step.Record.Unhealthy[web].Equal(late) || !step.Status.Unhealthy[0].Since.Equal(late) {
		t.Errorf("since %v and %v, want %v", step.Record.Unhealthy, step.Status.Unhealthy, late)
	}
	if again := g.Record.Reopened(); again.Unhealthy != nil {
		t.Errorf("a command that continues has %v", again.Unhealthy)
	}
}

// TestUnreadyPodsNameTheirNode: if a late pod is on a node that is not Ready, the message also explains the state of the node.
func TestUnreadyPodsNameTheirNode(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	g.add("web-9", build.Unready)
	m := g.at("cur-a-1")
	m.Node = m.Node.DeepCopy()
	m.Node.Status.Conditions[0].Status, m.Node.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.Time{Time: start}
	g.pass(31 * time.Second)
	g.wantHeld(g.step(), "it is not ready after 30s; the node: its kubelet has been silent since "+start.Format(time.RFC3339))
}

// TestAdvisedFlagIgnoresAllUnhealthyWorkloads: if several workloads do not recover, the suggested flag names all of them.
func TestAdvisedFlagIgnoresAllUnhealthyWorkloads(t *testing.T) {
	g := newGateScene(t, 3)
	others := []string{"api", "cart", "db", "search"} // with web more than a message names
	m := g.at("old-a-0")
	for _, name := range others {
		pod := build.Pod(name+"-0", build.Created(start.Add(-time.Hour)), build.OwnedBy("ReplicaSet", name), build.On("old-a-0"))
		m.Pods = append(m.Pods, pod)
		g.index.Store(pod)
	}
	g.step()
	g.pass(6 * time.Second)
	refused := drain.Controller{Replicas: 3, Refused: "exceeded quota", Read: g.Now}
	g.Controllers = map[drain.Workload]drain.Controller{}
	for _, name := range append(others, "web") {
		g.Controllers[drain.Workload{Namespace: build.Namespace, Kind: "ReplicaSet", Name: name}] = refused
	}
	g.step()
	g.wantStopped("or evict even their last ready pods with --ignore-unready=shop/ReplicaSet/api,shop/ReplicaSet/cart,shop/ReplicaSet/db,shop/ReplicaSet/search,shop/ReplicaSet/web")
}

// TestUnhealthyMessageNamesPodKeptByFinalizer: the message names the pod that prevents the creation of another.
func TestUnhealthyMessageNamesPodKeptByFinalizer(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	kept := build.Pod("web-0", build.Created(start.Add(-time.Hour)), build.On("cur-a-1"))
	kept.DeletionTimestamp, kept.Finalizers = &metav1.Time{Time: g.Now}, []string{"example.com/hold"}
	m := g.at("cur-a-1")
	m.Pods = append(m.Pods, kept)
	g.pass(6 * time.Second)
	g.tellController(drain.Controller{Replicas: 3})
	g.wantHeld(g.step(), "1 pod is not created: pod web-0 on node cur-a-1 should be gone, but its finalizers keep it (example.com/hold)")
}

// TestPodsScaledDownByUserAreNotMissing: pods that the owner scaled away are not missing and cause no outage.
func TestPodsScaledDownByUserAreNotMissing(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	g.tellController(drain.Controller{Replicas: 0})
	g.index.Remove(g.at("old-a-1").Pods[0])
	g.index.Remove(g.at("old-a-2").Pods[0])
	g.empty("old-a-1")
	g.empty("old-a-2")
	g.pass(time.Minute)
	step := g.step()
	if step.Record.Result != record.Succeeded {
		t.Fatalf("it ends with %q: %s", step.Record.Result, step.Record.Message)
	}
	for _, impact := range upgrade.ListImpacts(&step.Record) {
		if impact.None.Duration > 0 || impact.Lacks > 0 {
			t.Errorf("its owner scaled it, and it is said to have been without a ready pod: %+v", impact)
		}
	}
}

// TestUnschedulablePodPreventsFurtherDrains: no further node is started if no node of the kind would take a pod, or if a pod waits for
// room and no new node is expected.
func TestUnschedulablePodPreventsFurtherDrains(t *testing.T) {
	device := func(pod *corev1.Pod) {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}}
	}
	for name, c := range map[string]struct {
		with  []func(*corev1.Pod)
		after time.Duration
		why   string
	}{
		"it needs a device":  {[]func(*corev1.Pod){unplaced, device}, 0, "0/3 nodes are available; not even an empty current node would take it: Insufficient nvidia.com/gpu"},
		"it waits for room":  {[]func(*corev1.Pod){unplaced}, 30 * time.Second, "no node takes it: 0/3 nodes are available"},
		"it selects another": {[]func(*corev1.Pod){unplaced, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }}, 0, "didn't match Pod's node affinity"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 3)
			g.mark("cur-a-1", func(n *corev1.Node) {
				n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
			})
			g.step()
			g.add("web-9", c.with...)
			if c.after > 0 {
				if step := g.step(); len(step.Status.Unhealthy) > 0 {
					t.Errorf("%v too early", step.Status.Unhealthy)
				}
			}
			g.pass(c.after)
			g.wantHeld(g.step(), c.why)
			g.wantStopped(c.why)
		})
	}
}

// TestUpgradeStopsForPendingPodAfterNodeIsSkipped: the owner of a group adds a node for each one that leaves. The first node is
// given up with a pod that does not end. The next node waits for a pod that waits for room. That pod is late, and the
// upgrade stops.
func TestUpgradeStopsForPendingPodAfterNodeIsSkipped(t *testing.T) {
	g := newGateScene(t, 3)
	g.Request.OnTimeout, g.Request.WaitReplacement = record.Skip, true
	g.stepUndead()
	g.add("web-9", unplaced)
	g.pass(15 * time.Minute)
	step := g.stepUndead()
	wantState(t, step, "old-a-0", record.NodeQuarantined)
	wantState(t, step, "old-a-1", record.NodeFenced)
	g.pass(30 * time.Second)
	if step := g.stepUndead(); len(step.Status.Unhealthy) != 1 {
		t.Fatalf("unhealthy: %v, want the pod that waits for room", step.Status.Unhealthy)
	}
	g.pass(5 * time.Minute)
	if step := g.stepUndead(); step.Record.Stopping != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, "pod web-9: no node takes it") {
		t.Errorf("stops with %q: %s", step.Record.Stopping, step.Record.Message)
	}
}

// TestUpgradeStopsIfPendingPodGetsNoNodeInBootTimeout: a pod is Pending, every remaining node has pods of its workload, and the cloud does not replace the
// terminated node. maxUnavailable would allow further nodes, but the upgrade must stop after the boot timeout.
func TestUpgradeStopsIfPendingPodGetsNoNodeInBootTimeout(t *testing.T) {
	index := drain.NewWorkloadIndex(drain.Facts{})
	var members []nodegroup.Member
	for _, name := range []string{"0", "1", "2", "3"} {
		pod := build.Pod("web-"+name, build.Created(start.Add(-time.Hour)))
		members = append(members, old("old-a-"+name, pod))
		index.Store(pod)
	}
	g := &gateScene{scene: newScene(t, members...), index: index}
	g.Request.MaxUnavailable, g.Request.Window, g.Request.Surge, g.Request.Settle = 3, 3, 0, duration(0)
	g.step()
	g.remove("old-a-0")
	g.scene.add(booting(current("new-a-1")))
	pod := build.Pod("web-9", build.Created(g.Now), build.Phase(corev1.PodPending))
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"})
	index.Store(pod)
	g.Pods = map[string][]*corev1.Pod{"": append(g.Pods[""], pod)}
	step := g.step()
	if want := "a replacement to be ready"; !strings.HasPrefix(step.Status.Waiting, want) {
		t.Errorf("it waits for %q, want %q", step.Status.Waiting, want)
	}
	g.pass(g.Request.BootTimeout.Duration + time.Minute)
	if step = g.step(); step.Record.Stopping != record.NodeCreationFailure {
		t.Errorf("it is stopping with %q, and waits for %q", step.Record.Stopping, step.Status.Waiting)
	}
}

// TestLastReadyPodStaysWhileOtherPodsCrash: a workload that had one ready pod before keeps it while its other pods cannot become
// ready, and the upgrade stops. A pod that is not ready without a fault may be a standby.
func TestLastReadyPodStaysWhileOtherPodsCrash(t *testing.T) {
	crashing := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", RestartCount: 5, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	}
	standby := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	}
	for name, c := range map[string]struct {
		with  func(*corev1.Pod)
		holds bool
	}{"a crashing pod": {crashing, true}, "a standby": {standby, false}} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 2)
			empty := g.at("old-a-1")
			g.index.Remove(empty.Pods[0])
			empty.Pods = nil
			g.Now = g.Now.Add(-time.Hour)
			g.add("web-9", c.with)
			g.Now = g.Now.Add(time.Hour)
			step := g.step()
			if !c.holds {
				g.pass(2 * time.Minute)
				g.step()
				if left := len(g.at("old-a-0").Pods); left != 0 {
					t.Errorf("%d pods are left of a workload with a standby", left)
				}
				return
			}
			const why = "container app is in CrashLoopBackOff after 5 restarts, and the last ready pod must leave its node"
			g.wantHeld(step, why)
			g.wantStopped(why)
			if left := len(g.at("old-a-0").Pods); left != 1 {
				t.Errorf("%d pods are left on the node, want 1", left)
			}
		})
	}
}

// TestCrashingPodCountsAsReadyOnlyAfterHalfAMinute: a pod that is ready between two crashes counts only after it has been ready for half a
// minute.
func TestCrashingPodCountsAsReadyOnlyAfterHalfAMinute(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	g.pass(10 * time.Second)
	g.add("web-9", func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 2}}
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: g.Now}
	})
	g.pass(10 * time.Second)
	g.wantHeld(g.step(), "it has been ready for only 10s after 2 restarts")
	g.pass(20 * time.Second)
	if step := g.step(); len(step.Status.Unhealthy) > 0 {
		t.Errorf("it has been ready for half a minute: %v", step.Status.Unhealthy)
	}
	wantState(t, g.step(), "old-a-1", record.NodeDrained)
}

// TestBrieflyUnreadyPodsMustBecomeReadyAgain: the last node begins while a pod on it is not ready, or has just become ready
// again. A pod that served for long before is expected again; a pod that crashes repeatedly is not.
func TestBrieflyUnreadyPodsMustBecomeReadyAgain(t *testing.T) {
	ended := func(ran, ago time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			StartedAt: metav1.Time{Time: start.Add(-ago - ran)}, FinishedAt: metav1.Time{Time: start.Add(-ago)},
		}}
	}
	crashes := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for name, c := range map[string]struct {
		ready    bool
		since    time.Duration
		app      corev1.ContainerStatus
		sidecar  corev1.ContainerStatus
		expected bool
	}{
		"ready again after a long run":              {ready: true, since: 5 * time.Second, app: corev1.ContainerStatus{RestartCount: 1, LastTerminationState: ended(time.Hour, 15*time.Second)}, expected: true},
		"ready again after a short run":             {ready: true, since: 5 * time.Second, app: corev1.ContainerStatus{RestartCount: 9, LastTerminationState: ended(20*time.Second, 15*time.Second)}},
		"ready again, its last run is not known":    {ready: true, since: 5 * time.Second, app: corev1.ContainerStatus{RestartCount: 9}},
		"its container has just ended":              {since: 2 * time.Second, app: corev1.ContainerStatus{State: ended(time.Hour, 2*time.Second)}, expected: true},
		"it waits after a long run":                 {since: 15 * time.Second, app: corev1.ContainerStatus{State: crashes, LastTerminationState: ended(time.Hour, 15*time.Second)}, expected: true},
		"it crashes again and again":                {since: 5 * time.Second, app: corev1.ContainerStatus{RestartCount: 9, State: crashes, LastTerminationState: ended(10*time.Second, 5*time.Second)}},
		"it has not come back for long":             {since: time.Minute, app: corev1.ContainerStatus{LastTerminationState: ended(time.Hour, time.Minute)}},
		"a sidecar that ended short ago ran longer": {ready: true, since: 5 * time.Second, app: corev1.ContainerStatus{RestartCount: 1, LastTerminationState: ended(3*time.Second, 100*time.Hour)}, sidecar: corev1.ContainerStatus{RestartCount: 1, LastTerminationState: ended(99*time.Hour, 10*time.Second)}, expected: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 1)
			fell := build.Pod("web-1", build.Created(start.Add(-200*time.Hour)), build.On("old-a-0"))
			fell.Status.ContainerStatuses = []corev1.ContainerStatus{c.app, c.sidecar}
			if ready := &fell.Status.Conditions[0]; !c.ready {
				ready.Status = corev1.ConditionFalse
			}
			fell.Status.Conditions[0].LastTransitionTime.Time = start.Add(-c.since)
			m := g.at("old-a-0")
			m.Pods = append(m.Pods, fell)
			g.index.Store(fell)
			g.step()
			g.add("web-8")
			g.add("web-9", build.Unready)
			g.pass(3 * time.Minute)
			switch step := g.step(); {
			case c.expected && step.Finished:
				t.Errorf("it ends with %q, and one of the two pods is not ready", step.Record.Result)
			case !c.expected && step.Record.Result != record.Succeeded:
				t.Errorf("it waits for %q, and one pod is ready as before", step.Status.Waiting)
			}
		})
	}
}

// TestPodPendingBeforeUpgradeIsNotExpectedAfterIt: a pod was Pending before the upgrade, and became ready on a node that
// the upgrade added. At the end another pod of the workload has no room. As many pods are ready as before the upgrade,
// unless the Pending pod had its node before the upgrade.
func TestPodPendingBeforeUpgradeIsNotExpectedAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		placed, added time.Duration
		want          record.Result
	}{
		"it had no node before":          {placed: time.Second, added: time.Second, want: record.Succeeded},
		"it had a node before":           {placed: -time.Minute, added: -time.Hour, want: record.WorkloadUnhealthy},
		"a node that was there had room": {placed: time.Second, added: -time.Hour, want: record.WorkloadUnhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 2)
			g.at("cur-a-1").Node.CreationTimestamp.Time = start.Add(c.added)
			g.step()
			g.pass(2 * time.Second)
			g.add("web-8")
			g.add("web-7", build.Created(start.Add(-time.Hour)), func(pod *corev1.Pod) {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: start.Add(c.placed)},
				})
			})
			g.step()
			g.add("web-9", build.Unready, build.On(""), build.Phase(corev1.PodPending))
			g.pass(time.Minute)
			g.step()
			g.pass(10 * time.Minute)
			if step := g.step(); step.Record.Result != c.want {
				t.Errorf("it ends with %q (%s), want %q: %v", step.Record.Result, step.Record.Message, c.want, step.Record.Workloads)
			}
		})
	}
}

func TestUpgradeEndsOnlyWhenReadyPodsAreBackToNumberBeforeLastNode(t *testing.T) {
	g := newGateScene(t, 1)
	g.pass(time.Second)
	if step := g.step(); step.Finished {
		t.Fatalf("it ends with %q before the pod is back", step.Record.Result)
	}
	pod := g.add("web-9", build.Unready)
	if step := g.step(); step.Finished || step.Status.Waiting == "" {
		t.Fatalf("it ends with %q before the pod is ready, waiting for %q", step.Record.Result, step.Status.Waiting)
	}
	ready := pod.DeepCopy()
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	g.index.Store(ready)
	if step := g.step(); step.Record.Result != record.Succeeded {
		t.Errorf("it ends with %q when the pod is ready", step.Record.Result)
	}
}

// TestUpgradeStopsAtTheEndIfWorkloadStaysUnhealthy: if a workload stays without its pods, the upgrade ends and names it.
func TestUpgradeStopsAtTheEndIfWorkloadStaysUnhealthy(t *testing.T) {
	g := newGateScene(t, 1)
	g.step()
	g.add("web-9", build.Unready)
	g.pass(30 * time.Second)
	g.step()
	g.wantStopped("pod web-9 on node cur-a-1: it is not ready after 30s")
}

// TestEachNewReadyPodRestartsUnhealthyTimeLimit: if a workload gains a ready pod, its time limit restarts. It does not if the workload gains
// and loses the pod.
func TestEachNewReadyPodRestartsUnhealthyTimeLimit(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	late := g.add("web-9", build.Unready)
	lost := g.at("old-a-1").Pods[0].DeepCopy()
	lost.Status.Conditions[0].Status = corev1.ConditionFalse
	g.index.Store(lost)
	g.pass(30 * time.Second)
	g.wantHeld(g.step(), "(1 of 3 ready)")
	g.pass(3 * time.Minute)
	g.add("web-8", build.Unready)
	turn := func(pod *corev1.Pod, status corev1.ConditionStatus) {
		pod = pod.DeepCopy()
		pod.Status.Conditions[0].Status = status
		g.index.Store(pod)
	}
	g.pass(30 * time.Second)
	g.wantHeld(g.step(), "(1 of 3 ready)")
	g.pass(30 * time.Second)
	turn(late, corev1.ConditionTrue)
	g.wantHeld(g.step(), "(2 of 3 ready)")
	g.pass(90 * time.Second)
	turn(late, corev1.ConditionFalse)
	g.wantHeld(g.step(), "(1 of 3 ready)")
	turn(late, corev1.ConditionTrue)
	g.wantHeld(g.step(), "(2 of 3 ready)")
	g.pass(3*time.Minute - time.Second)
	if step := g.step(); step.Record.Stopping != "" {
		t.Fatalf("it stops too early: %s", step.Record.Message)
	}
	g.pass(time.Second)
	if step := g.step(); step.Record.Result != record.WorkloadUnhealthy {
		t.Errorf("it ends with %q", step.Record.Result)
	}
}

// TestNodeInDrainIsFirstNodeOfWorkloadForNewTarget: a pod left a node in drain, and its replacement waits for room. Then the target
// moves. The node stays the first one that pods of the workload leave, so its other pod does not wait.
func TestNodeInDrainIsFirstNodeOfWorkloadForNewTarget(t *testing.T) {
	g := newGateScene(t, 1)
	other := build.Pod("web-5", build.Created(start.Add(-time.Hour)), build.On("old-a-0"))
	m := g.at("old-a-0")
	m.Pods = append(m.Pods, other)
	g.index.Store(other)
	if blocked := g.step().Blocked; len(blocked) != 1 || blocked[0].Kind != drain.LastReady {
		t.Fatalf("blocked: %v, want the last ready pod", blocked)
	}
	g.add("web-9", build.Unready, func(pod *corev1.Pod) { pod.Spec.NodeName = "" })
	moved := nodegroup.Revision{ID: "3", Name: "workers:3"}
	g.Group.Wanted, g.Group.Pointed = moved, moved
	g.Record = g.Record.WithTarget(moved)
	g.pass(time.Second)
	if blocked := g.step().Blocked; len(blocked) != 1 || blocked[0].Kind != drain.LastReady {
		t.Errorf("blocked: %v, want the last ready pod", blocked)
	}
}

// TestPodsCrashingInTurnShareOneTimeLimit: at any moment one of two new pods crashes. Each is ready for a while between
// crashes, but that does not give the workload more time.
func TestPodsCrashingInTurnShareOneTimeLimit(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	pods := []*corev1.Pod{g.add("web-8", build.Unready), g.add("web-9", build.Unready)}
	lost := g.at("old-a-1").Pods[0].DeepCopy()
	lost.Status.Conditions[0].Status = corev1.ConditionFalse
	g.index.Store(lost)
	g.pass(30 * time.Second)
	g.wantHeld(g.step(), "(1 of 3 ready)")
	began := g.Now
	for i := range 12 {
		for n, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			pod := pods[(i+n)%2].DeepCopy()
			pod.Status.Conditions[0].Status = status
			g.index.Store(pod)
		}
		g.wantHeld(g.step(), "(2 of 3 ready)")
		g.pass(40 * time.Second)
		if step := g.step(); step.Record.Result != "" {
			if took := g.Now.Sub(began); step.Record.Result != record.WorkloadUnhealthy || took != 320*time.Second {
				t.Errorf("it ends with %q after %s", step.Record.Result, took)
			}
			return
		}
	}
	t.Error("it does not stop")
}

// TestUncreatedPodBlocksNextNodeAfterLatePodIsReady: two pods leave the first node. One new pod becomes ready late. A quota
// refuses the other pod. When the late pod is ready, the upgrade still starts no other node (I11).
func TestUncreatedPodBlocksNextNodeAfterLatePodIsReady(t *testing.T) {
	g := newGateScene(t, 4)
	g.Request.Settle = duration(time.Minute)
	second := build.Pod("web-9", build.Created(start.Add(-time.Hour)), build.On("old-a-0"))
	g.at("old-a-0").Pods = append(g.at("old-a-0").Pods, second)
	g.index.Store(second)
	for i := range g.Members { // pods take 5 s to become ready
		for _, pod := range g.Members[i].Pods {
			began := metav1.NewTime(start.Add(-time.Hour))
			pod.Status.StartTime, pod.Status.Conditions[0].LastTransitionTime = &began, metav1.NewTime(began.Add(5*time.Second))
			g.index.Store(pod)
		}
	}
	g.step()
	slow := g.add("web-10", build.Unready)
	for range 12 { // the runner reads the controller every 5 s
		g.pass(5 * time.Second)
		g.tellController(drain.Controller{Replicas: 5, Refused: "exceeded quota"})
		g.wantNoneStarted(g.step())
	}
	ready := slow.DeepCopy()
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	g.index.Store(ready)
	for range 12 {
		g.pass(5 * time.Second)
		g.wantNoneStarted(g.step())
		g.tellController(drain.Controller{Replicas: 5, Refused: "exceeded quota"})
	}
}

func (g *gateScene) wantNoneStarted(step upgrade.Step) {
	g.t.Helper()
	if len(step.Record.Nodes) > 1 {
		g.t.Fatalf("after %s %d nodes are started, want 1; unhealthy %v", g.Now.Sub(start), len(step.Record.Nodes), step.Status.Unhealthy)
	}
}

// TestFlappingPodDoesNotExtendTimeLimitOfUncreatedPod: a quota refuses a pod forever, and another pod of the workload is unready for 10 s now
// and then. The upgrade stops nevertheless (I11).
func TestFlappingPodDoesNotExtendTimeLimitOfUncreatedPod(t *testing.T) {
	for _, ready := range []time.Duration{50 * time.Second, 3 * time.Minute} {
		t.Run(fmt.Sprint(ready), func(t *testing.T) {
			g := newGateScene(t, 1)
			second := build.Pod("web-1", build.Created(start.Add(-time.Hour)), build.On("old-a-0"))
			g.at("old-a-0").Pods = append(g.at("old-a-0").Pods, second)
			g.index.Store(second)
			g.step()
			pod := g.add("web-9", build.Unready)
			for turn := range 40 {
				pod = pod.DeepCopy()
				pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: g.Now}}
				if turn%2 == 1 {
					pod.Status.Conditions[0].Status = corev1.ConditionTrue
				}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: int32(turn / 2)}}
				g.index.Store(pod)
				lasts := 10 * time.Second
				if turn%2 == 1 {
					lasts = ready
				}
				for end := g.Now.Add(lasts); g.Now.Before(end); g.pass(5 * time.Second) {
					if step := g.step(); step.Finished {
						if step.Record.Result != record.WorkloadUnhealthy {
							t.Errorf("it ends %q", step.Record.Result)
						}
						return
					}
					g.tellController(drain.Controller{Replicas: 2, Refused: "exceeded quota"})
				}
			}
			t.Errorf("after %s it has not ended", g.Now.Sub(start))
		})
	}
}

// TestPodsUnreadyInTurnDoNotExtendTimeLimitOfWorkload: a quota refuses one pod forever, and one of two other pods is always
// unready. The time limit does not restart with each of them (I11).
func TestPodsUnreadyInTurnDoNotExtendTimeLimitOfWorkload(t *testing.T) {
	g := newGateScene(t, 1)
	for _, name := range []string{"web-1", "web-2"} {
		pod := build.Pod(name, build.Created(start.Add(-time.Hour)), build.On("old-a-0"))
		g.at("old-a-0").Pods = append(g.at("old-a-0").Pods, pod)
		g.index.Store(pod)
	}
	g.step()
	pods := []*corev1.Pod{g.add("web-8", build.Unready), g.add("web-9", build.Unready)}
	for turn := range 20 {
		for i, pod := range pods {
			pod = pod.DeepCopy()
			pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: g.Now}}
			if turn%2 == i {
				pod.Status.Conditions[0].Status = corev1.ConditionTrue
			}
			g.index.Store(pod)
		}
		for end := g.Now.Add(3 * time.Minute); g.Now.Before(end); g.pass(5 * time.Second) {
			if step := g.step(); step.Finished {
				if step.Record.Result != record.WorkloadUnhealthy || turn > 3 {
					t.Errorf("it ends %q after %s", step.Record.Result, g.Now.Sub(start))
				}
				return
			}
			g.tellController(drain.Controller{Replicas: 3, Refused: "exceeded quota"})
		}
	}
	t.Errorf("after %s it has not ended", g.Now.Sub(start))
}

// TestLastReadyPodStaysWhileOtherPodIsUnschedulable: the scheduler has found no node for one of two pods for an hour, for example because its volume is
// in a zone without nodes. The other pod is not evicted, and the upgrade stops (I11, I12), also in a group with a cloud.
func TestLastReadyPodStaysWhileOtherPodIsUnschedulable(t *testing.T) {
	for _, surge := range []int{0, 1} {
		t.Run(fmt.Sprintf("surge %d", surge), func(t *testing.T) {
			spec := groupSketch{outdated: map[string]int{"a": 2}, current: map[string]int{"a": 1}, provider: "aws", zonal: true, pointed: "2"}.spec()
			pending := build.Pod("web-1", build.Created(start.Add(-time.Hour)), build.Phase(corev1.PodPending))
			pending.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "z"}
			pending.Status.Conditions = append(pending.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available", LastTransitionTime: metav1.NewTime(start.Add(-time.Hour)),
			})
			spec.Pods = append(spec.Pods, build.Pod("web-0", build.On("old-a-2"), build.Created(start.Add(-time.Hour))), pending)
			spec.Facts = drain.Webhooks{}.FactsOf([]*corev1.Service{{
				ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
			}})
			d := newDriver(t, spec, record.Request{
				Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: surge, OnTimeout: record.Fail,
				DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
			})
			d.watch = func(w upgrade.World, step upgrade.Step) {
				if pods := evicted(step); pods != "" {
					t.Errorf("at %s %s is evicted; unhealthy %v", w.Now.Sub(start), pods, step.Status.Unhealthy)
				}
			}
			d.run(time.Time{})
			advised := strings.Contains(d.record.Message, "with --max-surge=1 to add a node first")
			if d.record.Result != record.WorkloadUnhealthy || advised != (surge == 0) {
				t.Errorf("it ends %q: %s", d.record.Result, d.record.Message)
			}
		})
	}
}

// TestUpgradeStopsIfTerminatingPodBlocksItsReplacement: the only pod that left a node does not end, so that no pod takes its
// place. The node is given up when its drain timeout ends, and the upgrade stops soon after that.
func TestUpgradeStopsIfTerminatingPodBlocksItsReplacement(t *testing.T) {
	const why = "shop/StatefulSet/web (2 of 3 ready): an evicted pod must end before its replacement is created: pod web-0 on node old-a-0"
	g := newGateScene(t, 3)
	g.Request.OnTimeout = record.Skip
	for i := range g.Members {
		for _, pod := range g.Members[i].Pods {
			build.OwnedBy("StatefulSet", "web")(pod)
		}
	}
	g.index = drain.NewWorkloadIndex(drain.Facts{})
	for i := range g.Members {
		for _, pod := range g.Members[i].Pods {
			g.index.Store(pod)
		}
	}
	if step := g.stepUndead(); len(step.Status.Unhealthy) > 0 {
		t.Errorf("it is said not to recover while its node has time: %v", step.Status.Unhealthy)
	}
	g.pass(15 * time.Minute)
	step := g.stepUndead()
	wantState(t, step, "old-a-0", record.NodeQuarantined)
	wantState(t, step, "old-a-1", record.NodeFenced)
	if len(step.Status.Unhealthy) != 1 || step.Status.Unhealthy[0].String() != why {
		t.Errorf("unhealthy: %v, want %q", step.Status.Unhealthy, why)
	}
	g.pass(5*time.Minute - time.Second)
	if step := g.stepUndead(); step.Finished {
		t.Fatalf("it ends too early: %s", step.Record.Message)
	}
	g.pass(time.Second)
	if step := g.stepUndead(); step.Record.Result != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, why) {
		t.Errorf("it ends with %q: %s; want %q with %q", step.Record.Result, step.Record.Message, record.WorkloadUnhealthy, why)
	}
}

// TestPodsOfWorkloadFirstLeaveOnlyOneNode: however wide the window, pods of a workload leave only one node until a new pod
// is ready elsewhere.
func TestPodsOfWorkloadFirstLeaveOnlyOneNode(t *testing.T) {
	g := newGateScene(t, 4)
	g.Request.Window, g.Request.MaxUnavailable = 4, 4
	step := g.step()
	wantState(t, step, "old-a-0", record.NodeDrained)
	for _, name := range []string{"old-a-1", "old-a-2", "old-a-3"} {
		wantState(t, step, name, record.NodeFenced)
	}
	if !strings.Contains(step.Status.Waiting, "the first new pod of "+webName) {
		t.Errorf("it waits for %q", step.Status.Waiting)
	}
	for i, name := range []string{"old-a-1", "old-a-2", "old-a-3"} {
		g.add("web-" + string(rune('6'+i)))
		step = g.step()
		wantState(t, step, name, record.NodeDrained)
	}
	g.add("web-9")
	if step := g.step(); step.Record.Result != record.Succeeded {
		t.Errorf("it ends with %q: %s", step.Record.Result, step.Record.Message)
	}
}

// TestNodesDrainOtherPodsWhileWorkloadWaitsForNewPod: each node has a pod of the workload web and a pod of its own workload. Pods of web have left the first node, and the
// first new one is not ready yet. While half of the window is free, further nodes are started: their own pods leave, and those of web stay.
// A node is not started if one of its pods could be kept for longer.
func TestNodesDrainOtherPodsWhileWorkloadWaitsForNewPod(t *testing.T) {
	window := func(n int) func(*gateScene) {
		return func(g *gateScene) { g.Request.Window, g.Request.MaxUnavailable = n, n }
	}
	own := func(with func(*corev1.Pod)) func(*gateScene) { // changes the pod of old-a-1 that is not of web
		return func(g *gateScene) { with(g.at("old-a-1").Pods[1]) }
	}
	each := func(change func(*nodegroup.Member)) func(*gateScene) { // changes all nodes except the first
		return func(g *gateScene) {
			for _, number := range []string{"1", "2", "3"} {
				change(g.at("old-a-" + number))
			}
		}
	}
	more := func(with func(*corev1.Pod)) func(*gateScene) { // adds a pod to all nodes except the first
		return each(func(m *nodegroup.Member) {
			m.Pods = append(m.Pods, build.Pod("more-"+m.Name(), build.App("more-"+m.Name()), build.On(m.Name()), with))
		})
	}
	first := func(with func(*corev1.Pod)) func(*corev1.Pod) { // adds the first new pod of web, unready
		return func(pod *corev1.Pod) { build.Unready(pod); with(pod) }
	}
	crashes := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", RestartCount: 5, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	}
	for name, c := range map[string]struct {
		change  func(*gateScene)
		first   func(*corev1.Pod) // changes the first new pod of web, which is otherwise unready
		missing bool              // a pod of another workload, which has a pod on each node, has been missing for two seconds
		scaled  bool              // that pod was scaled away, and whether the workload was scaled up again is not read
		started string            // the nodes that are started after the first
	}{
		"half of the window":      {started: "old-a-1 old-a-2"},
		"half of an odd window":   {change: window(3), started: "old-a-1"},
		"one node at a time":      {change: window(1)},
		"no node for the new pod": {first: first(build.On(""))},
		"the new pod crashes":     {first: first(crashes)},
		"too few pods would stay": {change: func(g *gateScene) { g.budgets(build.Budget("web", build.Counts(4, 4, 0))) }},
		"little time for a drain": {change: func(g *gateScene) { g.Request.DrainTimeout = duration(11*time.Minute - time.Second) }},
		"just enough time":        {change: func(g *gateScene) { g.Request.DrainTimeout = duration(11 * time.Minute) }, started: "old-a-1 old-a-2"},
		"a current node is down":  {change: func(g *gateScene) { build.NotReady(start)(g.at("cur-a-2").Node) }},
		"the pod of web is down": {
			change: func(g *gateScene) {
				build.Unready(g.at("old-a-1").Pods[0])
				g.at("old-a-2").Pods, g.at("old-a-3").Pods = g.at("old-a-2").Pods[:1], g.at("old-a-3").Pods[:1]
				g.budgets(build.Budget("web", build.Counts(4, 4, 1), build.AlwaysAllow))
			},
		},
		"a node is still to come":  {change: func(g *gateScene) { g.Request.WaitReplacement = true }},
		"no pod may leave at once": {change: own(build.App("web")), started: "old-a-2 old-a-3"},
		"a pod has its turn later": {change: own(build.App("ebs-csi-controller")), started: "old-a-2 old-a-3"},
		"pods are waited for":      {change: more(func(pod *corev1.Pod) { pod.Labels = map[string]string{drain.Label: "wait-completed"} })},
		"pods end":                 {change: more(build.Ending(start.Add(time.Minute)))},
		"a budget keeps a pod": {change: func(g *gateScene) {
			g.budgets(build.Budget("web", build.Counts(4, 4, 1)), build.Budget("own-1", build.Counts(1, 1, 1)))
		}, started: "old-a-2 old-a-3"},
		"a namespace is deleted": {change: own(build.In("gone")), started: "old-a-2 old-a-3"},
		"a pod is not created":   {missing: true},
		"a scale is not read":    {missing: true, scaled: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 4)
			g.Members = slices.Insert(g.Members, 1, current("cur-a-2"))
			g.EndingNamespaces = map[string]bool{"gone": true}
			g.budgets(build.Budget("web", build.Counts(4, 4, 1)))
			for _, number := range []string{"0", "1", "2", "3"} {
				m := g.at("old-a-" + number)
				m.Pods = append(m.Pods, build.Pod("own-"+number, build.App("own-"+number), build.Created(start.Add(-time.Hour)), build.On(m.Name())))
			}
			window(4)(g)
			if c.change != nil {
				c.change(g)
			}
			for i := range g.Members {
				for _, pod := range g.Members[i].Pods {
					g.index.Store(pod)
				}
			}
			if c.missing {
				g.addPair()
			}
			g.step()
			if c.missing {
				g.add("pair-new", build.App("pair"))
				g.step()
				g.pass(2 * time.Second)
			}
			if c.scaled {
				g.Controllers = map[drain.Workload]drain.Controller{{Namespace: build.Namespace, Kind: "ReplicaSet", Name: "pair"}: {Replicas: 4, Read: g.Now}}
				g.step()
				g.Controllers = nil
			}
			if c.first == nil {
				c.first = build.Unready
			}
			g.add("web-6", c.first)
			step := g.step()
			var started []string
			for _, number := range []string{"1", "2", "3"} {
				name := "old-a-" + number
				if _, is := step.Record.Nodes[name]; !is {
					continue
				}
				started = append(started, name)
				if pods := g.at(name).Pods; len(pods) != 1 || pods[0].Name != "web-"+number {
					t.Errorf("node %s is started and has %d pods, want only that of web", name, len(pods))
				}
			}
			if strings.Join(started, " ") != c.started {
				t.Fatalf("%q are started beside the canary's node, want %q; it waits for %q", started, c.started, step.Status.Waiting)
			}
			if c.change != nil || c.started == "" {
				return
			}
			g.add("web-7")
			if g.step(); g.countEmptied() < 1+len(started) {
				t.Errorf("with a new pod of the workload %d nodes are empty, want %d", g.countEmptied(), 1+len(started))
			}
		})
	}
}

// addPair adds two pods of the workload pair to the first node and one to each other node, under a budget that allows all
// of them to leave.
func (g *gateScene) addPair() {
	for _, name := range []string{"old-a-0", "old-a-0", "old-a-1", "old-a-2", "old-a-3"} {
		m := g.at(name)
		pod := build.Pod(fmt.Sprintf("pair-%s-%d", name, len(m.Pods)), build.App("pair"), build.Created(start.Add(-time.Hour)), build.On(name))
		m.Pods = append(m.Pods, pod)
		g.index.Store(pod)
	}
	g.budgets(build.Budget("web", build.Counts(4, 4, 1)), build.Budget("pair", build.Counts(5, 5, 1)))
}

// TestControllerHasOneSecondToCreateReplacementPod: if other pods of its workload became ready before, a missing pod defers further
// nodes only after a second.
func TestControllerHasOneSecondToCreateReplacementPod(t *testing.T) {
	for settle, want := range map[time.Duration]int{0: 3, time.Second: 2} {
		g := newGateScene(t, 4)
		g.budgets(build.Budget("web", build.Counts(4, 4, 1)))
		g.Request.Settle = duration(settle)
		g.step()
		g.add("web-6")
		g.step()
		g.pass(settle)
		g.step() // drains the second node, whose pod is not replaced
		g.pass(settle)
		step := g.step()
		if got := g.countEmptied(); got != want {
			t.Errorf("with %s between nodes %d are emptied, want %d; it waits for %q", settle, got, want, step.Status.Waiting)
		}
		if settle > 0 && !strings.Contains(step.Status.Waiting, "the pods of "+webName+" to be created") {
			t.Errorf("it waits for %q", step.Status.Waiting)
		}
	}
}

// TestAtMostAQuarterOfWorkloadIsEvictedTogether: in a window of any size, at most a quarter of a workload's pods leave together, or one,
// unless a budget of its owner limits them (I15).
func TestAtMostAQuarterOfWorkloadIsEvictedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		pods, atOnce int
		desired      int32 // the pods that a budget keeps; negative for no budget
		ignored      bool
	}{
		"one of three":               {pods: 3, atOnce: 1, desired: -1},
		"one of seven":               {pods: 7, atOnce: 1, desired: -1},
		"two of eight":               {pods: 8, atOnce: 2, desired: -1},
		"budget that keeps a pod":    {pods: 8, atOnce: 6, desired: 1},
		"budget that keeps none":     {pods: 8, atOnce: 2, desired: 0},
		"workload that is not cared": {pods: 8, atOnce: 7, desired: -1, ignored: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, c.pods)
			if g.Request.Window, g.Request.MaxUnavailable = c.pods, c.pods; c.ignored {
				g.Request.IgnoreUnready = []string{webName}
			}
			if c.desired >= 0 {
				g.budgets(build.Budget("web", build.Counts(int32(c.pods), int32(c.pods), c.desired)))
			}
			if g.step(); !c.ignored {
				g.add("web-first") // the first node is the canary
				g.step()
			}
			if got := g.countEmptied() - 1; got != c.atOnce {
				t.Fatalf("pods of %d nodes are away, want %d", got, c.atOnce)
			}
			if c.atOnce > 2 {
				return
			}
			for i := range c.atOnce {
				g.add("web-late-"+string(rune('0'+i)), build.Unready)
			}
			if step := g.step(); g.countEmptied()-1 != c.atOnce || !strings.Contains(step.Status.Waiting, "more pods of "+webName+" to become ready") {
				t.Errorf("with new pods that are not ready, those of %d nodes are away, want %d: it waits for %q", g.countEmptied()-1, c.atOnce, step.Status.Waiting)
			}
			g.add("web-back")
			if g.step(); g.countEmptied()-1 != c.atOnce+1 {
				t.Errorf("with one pod back those of %d nodes left, want %d", g.countEmptied()-1, c.atOnce+1)
			}
		})
	}
}

// countEmptied counts the outdated nodes whose pods have left.
func (g *gateScene) countEmptied() (n int) {
	for i := range g.Members {
		if m := &g.Members[i]; m.Outdated && len(m.Pods) == 0 {
			n++
		}
	}
	return n
}

// TestUpgradeWaitsForReplacementOfDeletedDoNotDisruptPod: a pod has a do-not-disrupt annotation, and --on-timeout=force deletes it when
// the drain timeout of its node ends. The upgrade must not end before the pod's replacement is ready.
func TestUpgradeWaitsForReplacementOfDeletedDoNotDisruptPod(t *testing.T) {
	g := newGateScene(t, 1)
	g.Request.RespectDoNotDisrupt, g.Request.OnTimeout = true, record.Force
	held := g.at("old-a-0").Pods[0]
	held.Annotations = map[string]string{drain.AnnotationDoNotDisrupt: "true"}
	g.step()
	g.pass(16 * time.Minute)
	for range 3 {
		g.Workloads = g.index.Snapshot()
		g.do(g.next().Actions...)
	}
	if held.DeletionTimestamp == nil {
		t.Fatalf("the pod is not deleted: %v", g.Record.Nodes)
	}
	g.empty("old-a-0")
	g.index.Remove(held)
	g.pass(time.Minute)
	if step := g.step(); step.Finished || !strings.Contains(step.Status.Waiting, webName) {
		t.Errorf("it ends %q, and waits for %q", step.Record.Result, step.Status.Waiting)
	}
}

// TestEachSlowNewPodHasItsOwnTimeLimit: if pods of a workload start one after the other, each has its own time limit, even if
// others were deleted during the upgrade.
func TestEachSlowNewPodHasItsOwnTimeLimit(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	first := g.add("web-8", build.Unready)
	g.pass(30 * time.Second)
	g.wantHeld(g.step(), "(2 of 3 ready)")
	g.pass(4 * time.Minute)
	g.index.Remove(g.at("old-a-2").Pods[0]) // a user deletes it
	g.empty("old-a-2")
	g.add("web-9", build.Unready)
	g.pass(30 * time.Second)
	g.wantHeld(g.step(), "(1 of 3 ready)")
	ready := first.DeepCopy()
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	g.index.Store(ready)
	g.wantHeld(g.step(), "(2 of 3 ready)")
	g.pass(5*time.Minute - time.Second)
	if step := g.step(); step.Finished {
		t.Fatalf("it ends %q: %s", step.Record.Result, step.Record.Message)
	}
	g.pass(time.Second)
	if step := g.step(); step.Record.Result != record.WorkloadUnhealthy {
		t.Errorf("it ends %q: %s", step.Record.Result, step.Record.Message)
	}
}

// TestUpgradeStopsIfNodeAddedByUserStaysUnschedulable: in a group without a cloud, the owner added as many nodes as were drained,
// but one of them takes no pods. The upgrade stops after the boot timeout.
func TestUpgradeStopsIfNodeAddedByUserStaysUnschedulable(t *testing.T) {
	s := newManualScene(t, "old-a-1")
	s.rest()
	s.pass(time.Hour)
	if step := s.rest(); step.Finished {
		t.Fatalf("it ends %q while the owner is still to bring a node", step.Record.Result)
	}
	s.add(current("new-a-1"))
	s.at("new-a-1").Instance = nodegroup.Instance{}
	s.mark("new-a-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.rest()
	s.pass(20*time.Minute - time.Second)
	if step := s.rest(); step.Finished {
		t.Fatalf("it ends %q: %s", step.Record.Result, step.Record.Message)
	}
	s.pass(time.Second)
	if step := s.rest(); step.Record.Result != record.NodeCreationFailure || !strings.Contains(step.Record.Message, "node new-a-1 is cordoned: run kubectl uncordon new-a-1") {
		t.Errorf("it ends %q: %s", step.Record.Result, step.Record.Message)
	}
}

// TestFinalMessageNamesPodsThatReturnedToDrainedNodes: the final message names pods that came back to drained nodes, because they tolerate
// the fence.
func TestFinalMessageNamesPodsThatReturnedToDrainedNodes(t *testing.T) {
	g := newGateScene(t, 1)
	g.step()
	g.add("web-9")
	g.at("old-a-0").Pods = []*corev1.Pod{build.Pod("back-0", build.Created(g.Now), build.On("old-a-0"))}
	step := g.step()
	if want := "pods that started on drained nodes again, because they tolerate the fence: shop/back-0"; step.Record.Result != record.Succeeded || !strings.Contains(step.Record.Message, want) {
		t.Errorf("it ends %q: %q, want %q", step.Record.Result, step.Record.Message, want)
	}
}

// TestStatusNamesWorkloadThatWaitsForNodeOfUser: while the user must add a node, the status names the workload that waits
// for it.
func TestStatusNamesWorkloadThatWaitsForNodeOfUser(t *testing.T) {
	g := newGateScene(t, 2)
	g.Request.WaitReplacement = true
	g.step()
	pending := g.add("web-9", build.Unready)
	pending.Spec.NodeName = ""
	g.index.Store(pending)
	if step := g.step(); !strings.Contains(step.Status.Waiting, "1 new node that you add; until then "+webName+" has 1 of 2 ready pods") {
		t.Errorf("it waits for %q", step.Status.Waiting)
	}
}

// TestRestartOfDeploymentReportsRefusedPod: a Deployment is restarted to move its only pod, but the API server refuses the new pod.
// The upgrade reports the refusal.
func TestRestartOfDeploymentReportsRefusedPod(t *testing.T) {
	g := newGateScene(t, 1)
	solo := build.Pod("solo-0", build.Created(start.Add(-time.Hour)), build.OwnedBy("ReplicaSet", "solo-1"), build.On("old-a-0"))
	solo.Labels = map[string]string{"pod-template-hash": "1"}
	g.at("old-a-0").Pods = []*corev1.Pod{solo}
	g.index = drain.NewWorkloadIndex(drain.Facts{})
	g.index.Store(solo)
	g.Movable = drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "solo", UID: "solo"}}}, nil)
	g.Request.Move = record.MoveBySurge
	name := drain.Workload{Namespace: build.Namespace, Kind: "Deployment", Name: "solo"}
	g.step()
	g.pass(time.Minute)
	step := g.step()
	if len(step.Blocked) != 1 || step.Blocked[0].Kind != drain.Moving || !slices.Contains(step.Unscaled, name) {
		t.Fatalf("blocked %v, controllers to read %v", step.Blocked, step.Unscaled)
	}
	g.Controllers = map[drain.Workload]drain.Controller{name: {Replicas: 1, Refused: "exceeded quota: pods", Read: g.Now}}
	if step = g.step(); len(step.Blocked) != 1 || !strings.Contains(step.Blocked[0].String(), "and is refused: exceeded quota: pods") {
		t.Errorf("blocked %v, want the quota to be named", step.Blocked)
	}
}

// TestClosedBudgetsNameTheirCause: if a budget is closed because pods of the workload do not become ready, the remedy
// is to fix them.
func TestClosedBudgetsNameTheirCause(t *testing.T) {
	g := newGateScene(t, 3)
	g.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(3, 3, 2))})
	g.step()
	g.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(3, 2, 2))})
	g.step()
	g.pass(6 * time.Second)
	g.tellController(drain.Controller{Replicas: 3, Refused: "exceeded quota"})
	g.step()
	g.pass(6 * time.Second)
	step := g.step()
	if len(step.Blocked) != 1 || step.Blocked[0].Remedy() != "fix shop/ReplicaSet/web (2 of 3 ready): 1 pod is not created: exceeded quota" {
		t.Errorf("blocked %v, unhealthy %v", step.Blocked, step.Status.Unhealthy)
	}
}

// TestUpgradeStopsIfNewPodsKeepExitingBeforeReady: each new pod ends before it is late, for example because the kubelet rejects it, and another takes its
// place (I11).
func TestUpgradeStopsIfNewPodsKeepExitingBeforeReady(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	for i := range 200 {
		pod := g.add(fmt.Sprintf("web-%d", 9+i), build.Unready)
		for range 2 {
			if step := g.step(); step.Finished {
				const why = "its new pods exit before they are ready, one after the other"
				if step.Record.Result != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, why) {
					t.Errorf("it ends %q: %s", step.Record.Result, step.Record.Message)
				}
				return
			}
			g.pass(10 * time.Second)
		}
		g.index.Remove(pod)
		g.at("cur-a-1").Pods = nil
	}
	step := g.step()
	t.Errorf("after %s it waits for %q, unhealthy %v", g.Now.Sub(start), step.Status.Waiting, step.Status.Unhealthy)
}

// TestPodsCrashingSlowlyInTurnStopUpgrade: two pods crash in turn. Each is ready for two minutes in between, which is long enough to count
// as ready. The upgrade stops nevertheless (I11).
func TestPodsCrashingSlowlyInTurnStopUpgrade(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	pods := []*corev1.Pod{g.add("web-8", build.Unready), g.add("web-9", build.Unready)}
	g.pass(30 * time.Second)
	g.step()
	for i := range 60 {
		for n, ready := range []bool{true, false} {
			pod := pods[(i+n)%2].DeepCopy()
			setReady(pod, ready, g.Now)
			if crashed(int32(i + 1))(pod); ready {
				pod.Status.ContainerStatuses[0].State.Waiting = nil
			}
			g.index.Store(pod)
		}
		lost := g.at("old-a-1").Pods[0].DeepCopy() // with these times, one pod is always missing
		lost.Status.Conditions[0].Status = corev1.ConditionFalse
		g.index.Store(lost)
		for range 8 {
			g.pass(15 * time.Second)
			if step := g.step(); step.Finished {
				if took := g.Now.Sub(start); step.Record.Result != record.WorkloadUnhealthy || took > 10*time.Minute {
					t.Errorf("it ends %q after %s", step.Record.Result, took)
				}
				return
			}
		}
	}
	step := g.step()
	t.Errorf("after %s it waits for %q", g.Now.Sub(start), step.Status.Waiting)
}

// TestLastReadyPodStaysAfterTargetChanged: the other pod crashes on a node of the earlier target, and must leave that node,
// too (I12).
func TestLastReadyPodStaysAfterTargetChanged(t *testing.T) {
	for _, served := range []bool{true, false} {
		g := newGateScene(t, 1)
		if served {
			g.index = drain.NewWorkloadIndex(drain.Webhooks{}.FactsOf([]*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}}))
			g.index.Store(g.at("old-a-0").Pods[0])
		}
		second := build.Pod("web-5", build.Created(start.Add(-time.Hour)), build.On("old-a-0"))
		m := g.at("old-a-0")
		m.Pods = append(m.Pods, second)
		g.index.Store(second)
		g.step()
		g.add("web-9", build.Unready, crashed(5))
		g.pass(3 * time.Minute)
		if step := g.step(); len(step.Status.Unhealthy) != 1 || len(g.at("old-a-0").Pods) != 1 {
			t.Fatalf("unhealthy %v, %d pods left", step.Status.Unhealthy, len(g.at("old-a-0").Pods))
		}
		moved := nodegroup.Revision{ID: "3", Name: "workers:3"}
		g.Group.Wanted, g.Group.Pointed = moved, moved
		cur := g.at("cur-a-1")
		cur.Outdated = true
		g.crash()
		g.Record = g.Record.Reopened()
		g.Record = g.Record.WithTarget(moved)
		for range 10 {
			g.pass(15 * time.Second)
			g.step()
		}
		if left := len(g.at("old-a-0").Pods); left != 1 {
			t.Errorf("served=%t: the last ready pod was evicted while all others crash and no node of the new target is there", served)
		}
	}
}

// TestPodsCrashingAfterUserScalesUpStopUpgrade: an owner scales a workload down and up again, and its new pods crash (I14).
func TestPodsCrashingAfterUserScalesUpStopUpgrade(t *testing.T) {
	for _, low := range []int{0, 1} {
		g := newGateScene(t, 3)
		g.step() // the pod of old-a-0 has left
		for i, name := range []string{"old-a-1", "old-a-2"} {
			if i >= low {
				g.index.Remove(g.at(name).Pods[0])
				g.empty(name)
			}
		}
		g.pass(6 * time.Second)
		g.tellController(drain.Controller{Replicas: low})
		g.Workloads = g.index.Snapshot()
		g.next()
		g.Controllers = nil
		for i := range 3 - low { // scaled up again
			g.add(fmt.Sprintf("web-%d", 7+i), build.Unready, crashed(5))
		}
		g.tellController(drain.Controller{Replicas: 3})
		var step upgrade.Step
		for range 40 {
			g.pass(30 * time.Second)
			g.tellController(drain.Controller{Replicas: 3})
			if step = g.step(); step.Finished {
				break
			}
		}
		if step.Record.Result != record.WorkloadUnhealthy {
			t.Errorf("scaled to %d: it ends %q: %s", low, step.Record.Result, step.Record.Message)
		}
	}
}

// TestPodThatCrashesDuringCleanupFailsUpgrade: all nodes are replaced, a pod crashes while a request to resume a process is tried again, and the upgrade
// does not end well (I14).
func TestPodThatCrashesDuringCleanupFailsUpgrade(t *testing.T) {
	g := &gateScene{index: drain.NewWorkloadIndex(drain.Facts{})}
	pod := build.Pod("web-0", build.Created(start.Add(-time.Hour)))
	g.scene = newScene(t, old("old-a-0", pod), current("cur-a-1"))
	g.Request.Settle, g.Group.Quiesce = duration(0), []string{"AZRebalance"}
	g.index.Store(pod)
	var fresh *corev1.Pod
	for range 60 {
		g.Workloads = g.index.Snapshot()
		step := g.next()
		if step.Finished {
			t.Fatalf("it ends %q: %s", step.Record.Result, step.Record.Message)
		}
		resume := false
		for _, action := range step.Actions {
			if _, resume = action.(nodegroup.Resume); resume {
				break
			}
			g.do(action)
			switch a := action.(type) {
			case schedule.Eviction:
				g.index.Remove(pod)
				g.empty("old-a-0")
				fresh = g.add("web-9")
			case nodegroup.Terminate:
				if g.remove(a.Node); !a.Shrink {
					g.scene.add(current("new-a-1"))
				}
			case nodegroup.AddCapacity:
				g.scene.add(current("new-a-1"))
			}
		}
		if resume {
			break
		}
		g.pass(31 * time.Second)
	}
	down := fresh.DeepCopy()
	setReady(down, false, g.Now)
	crashed(5)(down)
	g.index.Store(down)
	for range 10 { // five minutes
		g.Workloads = g.index.Snapshot()
		step := g.next()
		for _, action := range step.Actions {
			g.answer(action, nodegroup.OutcomeLater, "Throttling")
		}
		g.pass(31 * time.Second)
	}
	if step := g.step(); step.Record.Result != record.WorkloadUnhealthy {
		t.Errorf("it ends %q: %q", step.Record.Result, step.Record.Message)
	}
}

// TestOrderedStatefulSetMayWaitForPendingPod: an ordered StatefulSet creates no further pod while its first pod is Pending and
// waits for a new node. That includes a pod that was Pending before a rollback began (I11).
func TestOrderedStatefulSetMayWaitForPendingPod(t *testing.T) {
	g := newGateScene(t, 3)
	g.Request.WaitReplacement, g.Request.BootTimeout = true, duration(20*time.Minute)
	g.step()
	g.index.Remove(g.at("old-a-1").Pods[0])
	g.at("old-a-1").Pods = nil
	g.add("web-0", build.Created(start.Add(-time.Minute)), build.Phase(corev1.PodPending), build.On(""))
	for range 20 {
		g.tellController(drain.Controller{Replicas: 3, Ordered: true})
		if step := g.step(); len(step.Status.Unhealthy) > 0 {
			t.Fatalf("after %s unhealthy: %v", g.Now.Sub(start), step.Status.Unhealthy)
		}
		g.pass(5 * time.Second)
	}
}

// crashed makes an unready pod be in CrashLoopBackOff after the given number of restarts.
func crashed(restarts int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	}
}

// setReady sets the pod's Ready condition and its transition time.
func setReady(pod *corev1.Pod, ready bool, at time.Time) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	conds := []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at)}}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady {
			conds = append(conds, c)
		}
	}
	pod.Status.Conditions = conds
}

// TestUpgradeStopsIfPodWaitsForNodeLostAtTheEnd: a node is lost at the end, and a pod waits for it. The upgrade stops after the boot timeout.
func TestUpgradeStopsIfPodWaitsForNodeLostAtTheEnd(t *testing.T) {
	s := newScene(t, old("old-a-1"), current("cur-a-1"))
	s.next()
	idx := drain.NewWorkloadIndex(drain.Facts{})
	ready := build.Pod("web-1", build.Created(start), build.On("cur-a-1"))
	pending := build.Pod("web-2", build.Created(start.Add(time.Second)), build.On(""), build.Unready)
	pending.Status.Phase = corev1.PodPending
	idx.Store(ready)
	idx.Store(pending)
	s.Record.Phase = record.PhaseDone // in this scene all nodes were replaced, and then a new node was lost without a replacement
	s.Record.Workloads = map[string]record.WorkloadRecord{webName: {Ready: 2, Proven: true}}
	s.remove("old-a-1")
	s.editBooks(func(b *ledger.Books) { b.Zones = map[string]ledger.Zone{"a": {Removed: 1}} })
	s.Workloads = idx.Snapshot()
	var step upgrade.Step
	for range 24 * 60 {
		s.pass(time.Minute)
		if step = s.next(); step.Finished {
			t.Logf("ends %q %s after %s", step.Record.Result, step.Record.Message, s.Now.Sub(start))
			return
		}
	}
	t.Errorf("after %s it still waits for %q in phase %q, unhealthy %v", s.Now.Sub(start), step.Status.Waiting, step.Record.Phase, step.Status.Unhealthy)
}

// TestPodWithSchedulingGateDoesNotBlockEviction: a pod with a scheduling gate waits on purpose. The workload's other pod leaves like a
// single pod.
func TestPodWithSchedulingGateDoesNotBlockEviction(t *testing.T) {
	g := newGateScene(t, 1)
	gate := build.Pod("web-gated", build.Created(start.Add(-time.Hour)), build.On(""), build.Unready)
	gate.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	gate.Status.Phase = corev1.PodPending
	gate.Status.Conditions = append(gate.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated"})
	g.index.Store(gate)
	var step upgrade.Step
	for range 40 {
		if step = g.step(); step.Finished {
			break
		}
		if len(g.at("old-a-0").Pods) == 0 && len(g.at("cur-a-1").Pods) == 0 {
			g.add("web-9")
		}
		g.pass(15 * time.Second)
	}
	if step.Record.Result != record.Succeeded {
		t.Errorf("it ends %q after %s: %s", step.Record.Result, g.Now.Sub(start), step.Record.Message)
	}
}

// TestSurgePodsAreNotScaledBack: a surge pod of a rollout does not mean that the owner scaled the workload up again.
func TestSurgePodsAreNotScaledBack(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	g.index.Remove(g.at("old-a-2").Pods[0]) // scaled from 3 to 2
	g.empty("old-a-2")
	g.add("web-8")
	g.pass(6 * time.Second)
	g.index.Remove(g.at("cur-a-1").Pods[0])
	g.empty("cur-a-1")
	g.Workloads = g.index.Snapshot()
	g.tellController(drain.Controller{Replicas: 2})
	g.next()
	g.tellController(drain.Controller{Replicas: 2})
	g.add("web-8")
	g.step()
	g.add("web-surge", build.Unready, crashed(5)) // the surge pod of a rolling update that is stuck; both others are ready
	var step upgrade.Step
	for range 60 {
		g.tellController(drain.Controller{Replicas: 2})
		if step = g.step(); step.Finished {
			break
		}
		if len(g.at("old-a-1").Pods) == 0 && len(g.at("cur-a-1").Pods) == 2 {
			g.add("web-9")
		}
		g.pass(15 * time.Second)
	}
	if step.Record.Result != record.Succeeded {
		t.Errorf("it ends %q after %s: %s", step.Record.Result, g.Now.Sub(start), step.Record.Message)
	}
}

// TestTerminatingStatefulSetPodDoesNotCountAsScaleUp: a terminating pod of a StatefulSet does not mean that the owner scaled it up again.
func TestTerminatingStatefulSetPodDoesNotCountAsScaleUp(t *testing.T) {
	g := newGateScene(t, 1)
	g.index = drain.NewWorkloadIndex(drain.Facts{})
	own := build.OwnedBy("StatefulSet", "db")
	ended := func() {
		g.Controllers = map[drain.Workload]drain.Controller{{Namespace: build.Namespace, Kind: "StatefulSet", Name: "db"}: {Replicas: 1, Read: g.Now}}
	}
	pod := build.Pod("db-0", build.Created(start.Add(-time.Hour)), build.On("old-a-0"), own)
	g.at("old-a-0").Pods = []*corev1.Pod{pod}
	g.index.Store(pod)
	db1 := g.add("db-1", own, build.Created(start.Add(-time.Hour)))
	db2 := g.add("db-2", own, build.Created(start.Add(-time.Hour)))
	g.step()                 // db-0 has left its node, and its replacement does not exist yet
	ending := db1.DeepCopy() // the owner scales the StatefulSet to 1: db-2 is gone at once, db-1 takes ten minutes to end
	ending.DeletionTimestamp = &metav1.Time{Time: g.Now.Add(10 * time.Minute)}
	g.index.Store(ending)
	g.index.Remove(db2)
	g.at("cur-a-1").Pods = []*corev1.Pod{ending}
	g.pass(6 * time.Second)
	ended()
	g.step()
	g.add("db-0", own)
	var step upgrade.Step
	for range 40 {
		ended()
		if step = g.step(); step.Finished {
			break
		}
		g.pass(10 * time.Second)
	}
	if step.Record.Result != record.Succeeded || g.Now.Sub(start) > time.Minute {
		t.Errorf("it ends %q after %s: %s; waits for %q", step.Record.Result, g.Now.Sub(start), step.Record.Message, step.Status.Waiting)
	}
}

// TestPodTimeLimitStartsWhenKubeletStartsPod: if a kubelet starts a pod late, the pod's time begins only then.
func TestPodTimeLimitStartsWhenKubeletStartsPod(t *testing.T) {
	g := newGateScene(t, 3)
	g.step()
	pod := g.add("web-9", func(p *corev1.Pod) { setReady(p, false, g.Now) })
	g.step()
	g.pass(15 * time.Second)
	begun := pod.DeepCopy() // its kubelet starts it only now
	begun.Status.StartTime = &metav1.Time{Time: g.Now}
	g.index.Store(begun)
	g.at("cur-a-1").Pods = []*corev1.Pod{begun}
	g.step()
	g.pass(20 * time.Second)
	if step := g.step(); len(step.Status.Unhealthy) > 0 {
		t.Errorf("20s after it began: %v", step.Status.Unhealthy)
	}
}

// unplaced makes the pod one that no node takes.
func unplaced(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"},
	}
}

// TestPodsRefusedAfterUserScalesUpStopUpgrade: an owner scales a workload down and up again, and its new pods are
// refused. No other pod of the workload leaves a node, so its controller must be read before the end (I14).
func TestPodsRefusedAfterUserScalesUpStopUpgrade(t *testing.T) {
	const quota = `pods "web-" is forbidden: exceeded quota`
	g := newGateScene(t, 2)
	g.Request.Settle = duration(time.Minute)
	g.add("web-7", build.Created(start.Add(-time.Hour)))
	g.step() // the pod of old-a-0 has left
	g.index.Remove(g.at("old-a-1").Pods[0])
	g.empty("old-a-1")
	controller := drain.Controller{Replicas: 1}
	var step upgrade.Step
	for i := range 200 {
		g.pass(6 * time.Second)
		if g.Controllers = nil; len(step.Unscaled) > 0 { // the runner reads the controller only now
			g.tellController(controller)
		}
		if step = g.step(); step.Finished {
			break
		}
		if i == 3 {
			controller = drain.Controller{Replicas: 3, Refused: quota}
		}
	}
	if step.Record.Result != record.WorkloadUnhealthy || !strings.Contains(step.Record.Message, "(1 of 3 ready): 2 pods are not created: "+quota) {
		t.Errorf("it ends %q: %s", step.Record.Result, step.Record.Message)
	}
}

// TestNodeIsNotStartedBeforeScaleOfScaledDownWorkloadIsRead: before a node with pods of a workload that the owner scaled down is started, the workload's
// scale is read, even if a budget keeps its pods. If it was scaled up again and its pods are refused, the node is not started (I11).
func TestNodeIsNotStartedBeforeScaleOfScaledDownWorkloadIsRead(t *testing.T) {
	for name, change := range map[string]func(*gateScene){
		"pods may leave":          func(*gateScene) {},
		"a budget keeps the pods": func(g *gateScene) { g.budgets(build.Budget("web", build.Counts(3, 2, 2))) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateScene(t, 2)
			g.Request.Settle = duration(time.Minute) // old-a-1 must not be started before the scale is read
			own := build.Pod("own", build.App("own"), build.Created(start.Add(-time.Hour)), build.On("old-a-1"))
			g.at("old-a-1").Pods = append(g.at("old-a-1").Pods, own)
			g.index.Store(own)
			g.add("web-7", build.Created(start.Add(-time.Hour)))
			g.step() // the pod of old-a-0 has left
			g.tellController(drain.Controller{Replicas: 2})
			g.step()
			g.Controllers = nil
			change(g)
			g.pass(time.Minute)
			g.Workloads = g.index.Snapshot()
			step := g.next()
			wantState(t, step, "old-a-1", record.NodeFenced)
			if want := "the scale of " + webName + " to be read"; step.Status.Waiting != want {
				t.Fatalf("it waits for %q, want %q", step.Status.Waiting, want)
			}
			g.tellController(drain.Controller{Replicas: 3, Refused: "exceeded quota"})
			g.pass(time.Second / 5)
			g.wantHeld(g.step(), "1 pod is not created: exceeded quota")
		})
	}
}

// TestPreemptedPodsAreNotCountedAsCrashing: new pods of a workload are preempted while they start, and the next one waits for a node. That time does
// not count as time in which pods end before they are ready (I11).
func TestPreemptedPodsAreNotCountedAsCrashing(t *testing.T) {
	for preempted := range 5 {
		g := newGateScene(t, 3)
		g.Request.WaitReplacement = true
		g.step()
		for i := range preempted {
			pod := g.add(fmt.Sprintf("web-%d", 10+i), build.Unready)
			g.step()
			g.pass(4 * time.Second)
			g.step()
			g.index.Remove(pod)
			g.empty("cur-a-1")
		}
		pod := g.add("web-9", unplaced)
		for range 120 {
			step := g.step()
			g.pass(10 * time.Second)
			if step.Finished || len(step.Status.Unhealthy) > 0 {
				t.Fatalf("%d preempted: it ends %q after %s, unhealthy %v", preempted, step.Record.Result, g.Now.Sub(start), step.Status.Unhealthy)
			}
		}
		placed := pod.DeepCopy()
		build.On("cur-a-1")(placed)
		placed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: g.Now}}}
		g.index.Store(placed)
		for range 2 {
			if step := g.step(); step.Finished || len(step.Status.Unhealthy) > 0 {
				t.Fatalf("%d preempted, and the next starts: it ends %q, unhealthy %v", preempted, step.Record.Result, step.Status.Unhealthy)
			}
			g.pass(5 * time.Second)
		}
	}
}

// TestPendingPodMayWaitForBootingNode: another workload has used the room of the new node, and a replacement of the first
// node boots. A pod that waits for it has the boot timeout.
func TestPendingPodMayWaitForBootingNode(t *testing.T) {
	g := &gateScene{index: drain.NewWorkloadIndex(drain.Facts{})}
	var members []nodegroup.Member
	for _, name := range []string{"0", "1", "2"} {
		pod := build.Pod("web-"+name, build.Created(start.Add(-time.Hour)))
		members = append(members, old("old-a-"+name, pod))
		g.index.Store(pod)
	}
	g.scene = newScene(t, members...)
	g.Request.Surge, g.Request.Settle = 1, duration(0)
	g.step()
	g.scene.add(current("new-a-1"))
	g.pass(time.Minute)
	g.step() // the pod of old-a-0 has left, and its machine is terminated
	g.remove("old-a-0")
	g.scene.add(booting(current("new-a-2")))
	pod := build.Pod("web-9", build.Created(g.Now), unplaced)
	g.index.Store(pod)
	for g.Now.Before(pod.CreationTimestamp.Add(20 * time.Minute)) {
		if step := g.step(); step.Finished || len(step.Status.Unhealthy) > 0 {
			t.Fatalf("it ends %q after %s, unhealthy %v", step.Record.Result, g.Now.Sub(start), step.Status.Unhealthy)
		}
		g.pass(10 * time.Second)
	}
	if step := g.step(); len(step.Status.Unhealthy) != 1 {
		t.Errorf("no node came within the boot timeout, and unhealthy is %v", step.Status.Unhealthy)
	}
}
