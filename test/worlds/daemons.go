package worlds

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// addRefusedDaemonSet changes a DaemonSet in some worlds: its pods are not created for new nodes, or wait for a device that new nodes
// lack. It draws from its own generator.
func addRefusedDaemonSet(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6461656d))}
	if p.isDelegated() || p.isShortLived() || !d.chance(40) {
		return
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Kind == DaemonSet && !w.Broken && !w.Undead && !w.isAiling() {
			w.Refused = d.chance(50)
			w.Homeless = !w.Refused
			return
		}
	}
}

// createDaemonPods creates the DaemonSet's pod for each node of the group, and binds it at once. If the node lacks a device or has the
// not-ready taint, the pod stays pending, with an affinity for the node.
func (c *cluster) createDaemonPods(m *controller) {
	for _, name := range c.nodesWithoutDaemon(m) {
		isNew := c.nodes[name].Labels[imageLabel] != "1"
		switch {
		case isNew && m.refused:
		case isNew && m.homeless, slices.Contains(c.nodes[name].Spec.Taints, notReadyTaint()) && !m.tolerant:
			c.noteTaintWait(m, name)
			pod := c.newPod(m, 0)
			pod.Spec.Affinity = affinityTo(name)
			c.putPod(pod)
		default:
			pod := c.newPod(m, 0)
			pod.Spec.NodeName = name
			c.startPod(m, pod)
		}
	}
}

// noteTaintWait counts a pod that waits until the not-ready taint of its node is removed.
func (c *cluster) noteTaintWait(m *controller, node string) {
	if !m.homeless && isNodeReady(c.nodes[node]) {
		c.onPodWaitsForTaint()
	}
}

// daemonTolerations returns the tolerations of a DaemonSet's pod in worlds with the not-ready taint. The pod tolerates all other
// taints of nodes.
func daemonTolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeUnschedulable, "dedicated", "maintenance", startupTaint().Key, fenceTaint("aws").Key, fenceTaint("").Key} {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return all
}

// nodesWithoutDaemon returns the names of the group's Ready nodes without a pod of the DaemonSet.
func (c *cluster) nodesWithoutDaemon(m *controller) []string {
	has := map[string]bool{}
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name {
			has[pod.Spec.NodeName], has[daemonNodeOf(pod)] = true, true
		}
	}
	return slices.DeleteFunc(c.nodeNames(), func(name string) bool {
		return !isNodeReady(c.nodes[name]) || has[name] || c.nodes[name].Labels[groupLabel] == ""
	})
}

// affinityTo returns the affinity by which a DaemonSet's controller binds a pod to a node.
func affinityTo(node string) *corev1.Affinity {
	field := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field}}},
	}}}
}

// daemonNodeOf returns the node for which a DaemonSet's controller created a waiting pod. It returns "" for other pods.
func daemonNodeOf(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil {
		return ""
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// readDaemonSet returns the scale of a DaemonSet as its controller reports it.
func (c *cluster) readDaemonSet(m *controller) drain.Controller {
	bare := len(c.nodesWithoutDaemon(m))
	read := drain.Controller{Uncreated: bare}
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name {
			read.Replicas++
		}
	}
	if read.Replicas += bare; m.refused {
		read.Refused = "pods are forbidden: exceeded quota"
	}
	return read
}

// unboundPods returns the pods of the view that have no node.
func (v *view) unboundPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, uid := range sortedKeys(v.pods) {
		if pod := v.pods[uid]; pod.Spec.NodeName == "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// waitingDaemonPods returns the pods of the DaemonSet that wait for a current Ready node.
func waitingDaemonPods(w *upgrade.World, app *Workload) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.Pods[""]), func(pod *corev1.Pod) bool {
		m := memberNamed(w, daemonNodeOf(pod))
		return pod.Labels["app"] != app.Name || pod.DeletionTimestamp != nil || m == nil || !isStaying(m)
	})
}

// isStaying reports whether the member is current and Ready.
func isStaying(m *nodegroup.Member) bool {
	return !m.Outdated && m.Node != nil && isNodeReady(m.Node) && m.Instance.State != nodegroup.InstanceLeaving
}

// creationLimit is the longest time until a new node's DaemonSet pod is created, or until the process knows why it is not created.
const creationLimit = 20 * time.Second

// trackUncreated records since when current nodes have had no pod of the DaemonSet although its pods are refused. It reports whether a
// node has had none for creationLimit, so that the process must know the refusal.
func (r *rules) trackUncreated(w *upgrade.World, app *Workload) (isLate bool) {
	late, maker := false, r.c.controllers[app.Name]
	isRefused := app.Kind == DaemonSet && maker.refused && !maker.away && !r.c.namespaceEnding
	for i := range w.Members {
		m := &w.Members[i]
		key := app.Name + " on " + m.Name()
		isOf := func(pod *corev1.Pod) bool { return pod.Labels["app"] == app.Name }
		if !isStaying(m) || slices.ContainsFunc(m.Pods, isOf) || !isRefused {
			delete(r.recovery.bareSince, key)
			continue
		}
		since, was := r.recovery.bareSince[key]
		if !was {
			since = w.Now
			r.recovery.bareSince[key] = since
		}
		late = late || w.Now.Sub(since) >= creationLimit
	}
	return late
}
