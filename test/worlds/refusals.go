package worlds

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// device is a resource that only nodes of the first revision have, in worlds with a Homeless workload.
const device = "example.com/device"

// addRefusedPods makes a workload Refused, Homeless or flapping in some worlds. It draws from its own generator.
func addRefusedPods(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x72656675))}
	if p.isDelegated() || p.isShortLived() || !d.chance(25) {
		return
	}
	var fit []int
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.isReplicated() && w.Replicas > 0 && !w.Broken && !w.Tolerant && !w.isAiling() && w.Role != Completes && w.Rollout == "" {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return
	}
	w := &p.Workloads[pick(d, fit...)]
	switch d.IntN(3) {
	case 0:
		w.Refused = true
	case 1:
		w.Homeless = true
	default:
		w.Flaps = d.between(2*time.Second, 20*time.Second)
	}
	if d.chance(60) { // otherwise only budgets keep the workload up
		p.Budgets = slices.DeleteFunc(p.Budgets, func(b Budget) bool { return b.Workload == w.Name })
	}
	if !w.Refused || !d.chance(80) {
		return
	}
	w.Spare = 1 + d.IntN(3)
	if d.chance(50) {
		w.Flaps = d.between(35*time.Second, 4*time.Minute)
	} else {
		w.Slow = d.between(time.Minute, 5*time.Minute)
	}
}

// setSickPods makes some first pods of Refused workloads unready. At least one stays ready. It draws from its own generator.
func setSickPods(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x7369636b))}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Refused && w.Spare == 0 && w.isReplicated() && w.Replicas > 1 && d.chance(60) {
			w.Sick = min(1+d.IntN(2), w.Replicas-1)
		}
	}
}

// addStrandedPods makes a workload Stranded in some worlds: all its pods except one are unschedulable. It draws from its own
// generator.
func addStrandedPods(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73747261))}
	if p.isDelegated() || p.isShortLived() || !d.chance(6) {
		return
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Replicas < 2 || !w.isPlain() || w.Ordered {
			continue
		}
		w.Stranded, w.Served = true, w.Served || d.chance(70)
		p.Budgets = slices.DeleteFunc(p.Budgets, func(b Budget) bool { return b.Workload == w.Name && d.chance(70) })
		return
	}
}

// pinWorkload makes a workload Pinned in some worlds. It draws from its own generator.
func pinWorkload(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x70696e6e))}
	if p.isDelegated() || p.isShortLived() || !d.chance(4) {
		return
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Replicas > 0 && w.isPlain() && !w.Ordered {
			w.Pinned = true
			return
		}
	}
}

// addRejectedPods changes a workload in some worlds: its pods end on new nodes before they are ready, as after a rejection by the
// kubelet. Its controller creates them again. It draws from its own generator.
func addRejectedPods(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x72656a65))}
	if p.isDelegated() || p.isShortLived() || !d.chance(4) {
		return
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Replicas == 0 || !w.isPlain() {
			continue
		}
		w.Rejected = d.between(time.Second, 25*time.Second)
		return
	}
}

// makeUnschedulable gives the pod a node selector for a zone without nodes.
func makeUnschedulable(pod *corev1.Pod) {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "elsewhere"}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
}

func isStranded(pod *corev1.Pod) bool {
	return pod.Spec.NodeSelector[corev1.LabelTopologyZone] == "elsewhere"
}

func isPinned(pod *corev1.Pod) bool { return pod.Spec.NodeSelector[imageLabel] == "1" }

// addDevices sets the devices of a node according to its revision, in worlds with a Homeless workload. In some plans,
// all nodes have devices, new ones from when they are not closed any more. A plan may also have a node without devices.
func (c *cluster) addDevices(node *corev1.Node) {
	if !c.plan.hasWorkload(func(w *Workload) bool { return w.Homeless }) {
		return
	}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	has := node.Labels[imageLabel] == "1"
	if c.plan.Closed == ClosedByDevice {
		has = !c.closed[node.Name]
	}
	if (has && !c.deviceless[node.Name] || !c.devicesRepairedAt.IsZero()) && node.Labels[groupLabel] != "" {
		node.Status.Allocatable[device] = resource.MustParse("100")
	}
}

// hadNoNewDevices reports whether pods request the device and new nodes did not offer it at some time since then.
func (c *cluster) hadNoNewDevices(since time.Time) bool {
	repaired := !c.devicesRepairedAt.IsZero() && c.devicesRepairedAt.Before(since)
	return !repaired && c.plan.Closed != ClosedByDevice && c.plan.hasWorkload(func(w *Workload) bool { return w.Homeless })
}

// repairDevices simulates an admin who repairs the device plugin: all nodes of the group offer the device.
func (c *cluster) repairDevices() {
	if c.devicesRepairedAt = cmp.Or(c.devicesRepairedAt, c.now); !c.plan.hasWorkload(func(w *Workload) bool { return w.Homeless }) {
		return
	}
	for _, name := range c.nodeNames() {
		if c.nodes[name].Labels[groupLabel] != "" {
			c.changeNodeAsOther(name, func(*corev1.Node) {})
		}
	}
}

// hasDeviceFor reports whether the node has the zone, the revision and the device that the pod requests.
func (c *cluster) hasDeviceFor(node *corev1.Node, pod *corev1.Pod) bool {
	m := c.controllers[pod.Labels["app"]]
	if m != nil && m.stranded && isStranded(pod) {
		return false
	}
	if m != nil && m.pinned && isPinned(pod) && node.Labels[imageLabel] != "1" {
		return false
	}
	if m == nil || !m.homeless {
		return true
	}
	_, has := node.Status.Allocatable[device]
	return has
}

// requestDevice makes the pod request a device.
func requestDevice(pod *corev1.Pod) {
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{device: resource.MustParse("1")},
	}}}
}

func requestsDevice(pod *corev1.Pod) bool {
	return len(pod.Spec.Containers) > 0 && pod.Spec.Containers[0].Resources.Requests.Name(device, resource.DecimalSI).Sign() > 0
}

// scheduleFlap schedules the first crash of a ready pod on a new node, if its workload flaps.
func (c *cluster) scheduleFlap(m *controller, pod *corev1.Pod) {
	if m.flaps == 0 || !c.isOnNew(pod) {
		return
	}
	uid := pod.UID
	c.after(m.flaps, func() { c.flapPod(m, uid) })
}

func (c *cluster) flapPod(m *controller, uid types.UID) {
	old, ok := c.pods[uid]
	if !ok || m.flaps == 0 || old.DeletionTimestamp != nil {
		return
	}
	ready := isPodReady(old)
	pod := old.DeepCopy()
	restarts := int32(0)
	if len(pod.Status.ContainerStatuses) > 0 {
		restarts = pod.Status.ContainerStatuses[0].RestartCount
	}
	status := corev1.ContainerStatus{Name: "main", RestartCount: restarts}
	after := m.flaps
	if ready {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: crashLoop}
		after = 10 * time.Second
	} else {
		status.RestartCount++
	}
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady {
			condition.Status, condition.LastTransitionTime = corev1.ConditionTrue, metav1.Time{Time: c.now}
			if ready {
				condition.Status = corev1.ConditionFalse
			}
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	c.putPod(pod)
	c.after(after, func() { c.flapPod(m, uid) })
}

// readController returns the scale of a workload as its controller reports it.
func (c *cluster) readController(w drain.Workload) drain.Controller {
	m := c.controllers[w.Name]
	if m == nil || m.away || c.namespaceEnding {
		return drain.Controller{}
	}
	if m.Kind == DaemonSet {
		return c.readDaemonSet(m)
	}
	read := drain.Controller{Replicas: m.scale, Ordered: m.Ordered}
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name && pod.Status.Phase == corev1.PodSucceeded && pod.DeletionTimestamp == nil {
			read.Replicas-- // no pod replaces it while it exists
		}
	}
	if m.refused {
		read.Refused = "pods are forbidden: exceeded quota"
	}
	return read
}

// readControllers schedules the reading of the controllers that the step asks for. Like the runner, it forgets the others: their
// workloads may be scaled before they are read again.
func (p *process) readControllers(step *upgrade.Step) {
	maps.DeleteFunc(p.controllers, func(w drain.Workload, _ drain.Controller) bool { return !slices.Contains(step.Unscaled, w) })
	for _, w := range step.Unscaled {
		read, known := p.controllers[w]
		if p.readingControllers[w] || (known && p.c.now.Sub(read.Read) < 5*time.Second) {
			continue
		}
		p.readingControllers[w] = true
		asked := p.c.now
		p.whenAwake(200*time.Millisecond, func() {
			delete(p.readingControllers, w)
			read := p.c.readController(w)
			read.Read = asked
			p.controllers[w] = read
			p.scheduleTurn()
		})
	}
}
