package worlds

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Closing is what keeps pods off new Ready nodes at first; "" for nothing.
type Closing string

// The closings.
const (
	ClosedByCordon Closing = "a cordon"
	ClosedByTaint  Closing = "a start-up taint"
	// ClosedByDevice means that pods request a device that a new node does not offer yet, because its device plugin is still starting.
	ClosedByDevice Closing = "a device to come"
)

// startupTaint returns the taint that an agent on the node removes once the agent has started.
func startupTaint() corev1.Taint {
	return corev1.Taint{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}
}

// drawNodeOddities draws four oddities. Nodes of a group without a cloud are renewed in place. New nodes are closed to pods at first.
// The control plane adds the not-ready taint. DaemonSets crash on nodes of the wanted revision. It draws from its own generator, so
// that all other draws stay the same.
func drawNodeOddities(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x72656e65))}
	p.InPlace = !p.listsMachines() && d.chance(50)
	if p.isDelegated() || p.isShortLived() {
		return // the upgrade waits for no node
	}
	if d.chance(15) {
		p.Closed, p.ClosedFor = pick(d, ClosedByCordon, ClosedByTaint), d.between(10*time.Second, 3*time.Minute)
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Kind == DaemonSet && !w.Broken && !w.Undead {
			w.Crashes = d.chance(20)
		}
	}
	if d.chance(50) {
		p.TaintLag = d.between(100*time.Millisecond, 8*time.Second)
	}
}

// drawLateDevices decides when new nodes offer the device that a Homeless workload requests: late, or never. Or one outdated node does not
// offer the device either. It draws from its own generator, so that all other draws stay the same.
func drawLateDevices(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x64657669))}
	if !p.hasWorkload(func(w *Workload) bool { return w.Homeless && w.Kind != DaemonSet }) {
		return
	}
	switch d.IntN(4) {
	case 0, 1:
		p.Closed, p.ClosedFor = ClosedByDevice, d.between(10*time.Second, 12*time.Minute)
	case 2:
		for i := range p.Nodes {
			if n := &p.Nodes[i]; !n.Current && n.Marks&MarkNoNode == 0 {
				n.Deviceless = true
				return
			}
		}
	}
}

// closeNode keeps pods off a new node for ClosedFor, if the plan says so.
func (c *cluster) closeNode(node *corev1.Node) {
	switch c.plan.Closed {
	case ClosedByCordon:
		node.Spec.Unschedulable = true
	case ClosedByTaint:
		node.Spec.Taints = append(node.Spec.Taints, startupTaint())
	case ClosedByDevice: // addDevices leaves the device out
	default:
		return
	}
	c.onNodeClosed(c.plan.Closed)
	c.closed[node.Name] = true
	c.after(c.plan.ClosedFor, func() { c.openNode(node.Name) })
}

// openNode opens a new node to pods, as the user or agent that closed it would. It waits while the node is fenced.
func (c *cluster) openNode(name string) {
	node := c.nodes[name]
	if node == nil {
		return
	}
	if node.Annotations[nodemark.AnnotationRun] != "" {
		c.after(time.Minute, func() { c.openNode(name) })
		return
	}
	delete(c.closed, name)
	c.changeNodeAsOther(name, func(n *corev1.Node) {
		n.Spec.Unschedulable = n.Spec.Unschedulable && c.plan.Closed != ClosedByCordon
		n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t == startupTaint() })
	})
}

// openNodesOf removes the cordons and maintenance taints of admins from nodes of the revision that are not fenced.
func (c *cluster) openNodesOf(revision string) {
	for _, name := range c.nodeNames() {
		node := c.nodes[name]
		closed := node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, isMaintenanceTaint)
		if node.Labels[groupLabel] == "" || node.Labels[imageLabel] != revision || node.Annotations[nodemark.AnnotationRun] != "" || !closed {
			continue
		}
		c.changeNodeAsOther(name, func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), isMaintenanceTaint)
		})
	}
}

func isMaintenanceTaint(taint corev1.Taint) bool { return taint.Key == "maintenance" }

// isClosed reports whether the node is closed to pods of the group, by the not-ready taint or by the plan's Closing.
func (c *cluster) isClosed(node *corev1.Node) bool {
	return slices.Contains(node.Spec.Taints, notReadyTaint()) && c.hasIntolerantPods() || c.isKeptClosed(node)
}

// isKeptClosed reports whether a new node is still closed to pods by the plan's Closing.
func (c *cluster) isKeptClosed(node *corev1.Node) bool {
	if !c.closed[node.Name] {
		return false
	}
	return node.Spec.Unschedulable && c.plan.Closed == ClosedByCordon ||
		slices.Contains(node.Spec.Taints, startupTaint()) && c.hasIntolerantPods() ||
		c.plan.Closed == ClosedByDevice && c.devicesRepairedAt.IsZero() && c.hasDevicePods()
}

// hasDevicePods reports whether a drain of the group's nodes must evict a pod that requests the device.
func (c *cluster) hasDevicePods() bool {
	for _, pod := range c.pods {
		node := c.nodes[pod.Spec.NodeName]
		if node != nil && node.Labels[groupLabel] != "" && mustLeave(pod, false) && requestsDevice(pod) {
			return true
		}
	}
	return false
}

// hasIntolerantPods reports whether a drain of the group's nodes must evict a pod that does not tolerate taints.
func (c *cluster) hasIntolerantPods() bool {
	for _, pod := range c.pods {
		node := c.nodes[pod.Spec.NodeName]
		if node != nil && node.Labels[groupLabel] != "" && mustLeave(pod, false) && len(pod.Spec.Tolerations) == 0 {
			return true
		}
	}
	return false
}

// renewNode simulates a user who renews a drained node in place: its kubelet stops reporting, and returns with the wanted revision.
func (u *user) renewNode(name string) {
	node := u.c.nodes[name]
	if u.renewing[node.UID] {
		return
	}
	u.renewing[node.UID] = true
	u.rules.tally.count("renewal", inPlace)
	u.c.setNodeReady(name, false)
	u.c.after(u.c.plan.Boot, func() {
		if again := u.c.nodes[name]; again == nil || again.UID != node.UID {
			return
		}
		u.rules.logf("node %s is renewed in place", name)
		u.c.changeNodeAsOther(name, func(n *corev1.Node) { n.Labels[imageLabel] = u.c.cloud.wanted })
		u.c.setNodeReady(name, true)
		u.rules.currentSince[name] = u.c.now
		u.c.scheduleBinding()
		u.c.after(u.c.drawUpTo(30*time.Minute), func() { u.reopenRenewedNode(name) })
	})
}

// reopenRenewedNode simulates the user who renewed a node. After the upgrade has unfenced the node, the user removes the cordon and
// the taints that the node had before the upgrade. The upgrade waits until they are removed.
func (u *user) reopenRenewedNode(name string) {
	node := u.c.nodes[name]
	switch {
	case node == nil || u.done:
	case node.Annotations[nodemark.AnnotationRun] != "":
		u.c.after(time.Minute, func() { u.reopenRenewedNode(name) })
	case node.Spec.Unschedulable || len(node.Spec.Taints) > 0:
		u.c.changeNodeAsOther(name, func(n *corev1.Node) { n.Spec.Unschedulable, n.Spec.Taints = false, nil })
		u.c.taintByCondition(name)
	}
}

// checkRenewedReleased checks that a stopped upgrade has unfenced the nodes that have been current for a minute after a renewal in
// place.
func (r *rules) checkRenewedReleased(record record.Record) {
	if !r.undisturbed {
		return
	}
	for name, at := range r.currentSince {
		node := r.c.nodes[name]
		if node != nil && isNodeReady(node) && r.c.now.Sub(at) > time.Minute && node.Labels[imageLabel] == record.Target.ID && node.Annotations[nodemark.AnnotationRun] == record.Run {
			r.fail("released", "node %s has been current for %s, but it is still fenced", name, r.c.now.Sub(at))
		}
	}
}

// withoutDevice returns the pods whose node lacks the device that they request. During a rollback, new nodes have the device, and a
// pod only waits until its node's not-ready taint is removed.
func (r *rules) withoutDevice(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		node := r.c.nodes[daemonNodeOf(pod)]
		return node == nil || r.c.hasDeviceFor(node, pod)
	})
}

// checkDaemonSets checks I11 for DaemonSets whose pods were all ready before the upgrade. No node is started while a pod does not come
// up on a current node. The upgrade stops after unhealthyLimit.
func (r *rules) checkDaemonSets(w *upgrade.World, step *upgrade.Step, started []*nodegroup.Member) {
	for i := range r.c.plan.Workloads {
		app := &r.c.plan.Workloads[i]
		if app.Kind != DaemonSet {
			continue
		}
		name, unready, crashed := app.id().String(), 0, (*corev1.Pod)(nil)
		for _, pod := range daemonPods(w, app, w.Record.Run != "") {
			if w.Record.Run == "" && !isPodReady(pod) {
				unready++
			}
			if w.Record.Run != "" && isCrashing(pod) {
				unready++
				crashed = pod
			}
		}
		if waiting := r.withoutDevice(waitingDaemonPods(w, app)); len(waiting) > 0 && w.Record.Run != "" {
			unready++
			crashed = waiting[0]
			r.tally.count("renewal", daemonWaits)
		}
		if w.Record.Run != "" && r.trackUncreated(w, app) {
			unready++
			crashed = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "(not created)"}}
			r.tally.count("renewal", daemonRefused)
		}
		if w.Record.Run == "" {
			r.recovery.unreadyDaemons[name] = unready
			continue
		}
		if unready == 0 || r.recovery.unreadyDaemons[name] > 0 || isIgnored(&step.Record, name) {
			delete(r.recovery.crashing, name)
			continue
		}
		r.tally.count("renewal", daemonCrashes)
		r.checkStopsInTime(w, &step.Record, name, crashed)
		for _, m := range started {
			r.fail("I11", "node %s is started, but pod %s of %s does not become ready", m.Name(), crashed.Name, name)
		}
	}
}

// daemonPods returns the pods of a DaemonSet on Ready nodes; only on current ones if current is true.
func daemonPods(w *upgrade.World, app *Workload, current bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range w.Members {
		m := &w.Members[i]
		if m.Node == nil || !isNodeReady(m.Node) || m.Instance.State == nodegroup.InstanceLeaving || current && m.Outdated {
			continue
		}
		for _, pod := range m.Pods {
			owner := metav1.GetControllerOfNoCopy(pod)
			if owner != nil && owner.Kind == string(DaemonSet) && owner.Name == app.Name && pod.DeletionTimestamp == nil {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// checkDaemonSetReport checks the status about a DaemonSet that does not recover.
func (r *rules) checkDaemonSetReport(w *upgrade.World, step *upgrade.Step, app *Workload, u record.Unhealthy) {
	if u.Pod == "" && strings.Contains(u.Why, "not created") {
		if !r.c.plan.hasWorkload(func(w *Workload) bool { return w.Kind == DaemonSet && w.Refused }) {
			r.fail("I11", "%s is reported with missing pods, but its pods are not refused", u)
		}
		return
	}
	pods := append(daemonPods(w, app, true), waitingDaemonPods(w, app)...)
	at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == u.Pod && pod.Spec.NodeName == u.Node })
	if at < 0 || u.Ready >= u.Before && u.Before > 0 {
		r.fail("I11", "%s is reported as unhealthy, but its pod or its numbers are wrong: it has %d pods on current nodes", u, len(pods))
	}
	if at >= 0 && pods[at].Spec.NodeName == "" && !app.Homeless {
		r.fail("I11", "%s is reported as unhealthy, but its pod only waits until the not-ready taint is removed", u)
	}
	if isIgnored(&step.Record, u.Name) {
		r.fail("I11", "%s is reported as unhealthy, but the request ignores it", u)
	}
}

// The words of the tally about renewed nodes, closed nodes, and DaemonSets on such nodes.
const (
	inPlace       = "in place"
	daemonCrashes = "a DaemonSet crashes"
	daemonWaits   = "a DaemonSet's pod waits for its node"
	daemonRefused = "a DaemonSet's pod is not created"
	daemonTainted = "a DaemonSet's pod waits for a taint"
)

func renewalWords() []string {
	return []string{inPlace, daemonCrashes, daemonWaits, daemonRefused, daemonTainted, string(ClosedByCordon), string(ClosedByTaint), string(ClosedByDevice)}
}
