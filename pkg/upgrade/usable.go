package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// tolerances caches, for one step and by taint, a pod of the group that does not tolerate the taint; nil if all pods do.
type tolerances map[corev1.Taint]*corev1.Pod

// deviceUsers caches, for one step and by extended resource, a pod of the group that requests the resource; nil if no
// pod does.
type deviceUsers map[corev1.ResourceName]*corev1.Pod

// isUsable reports whether the member can take the pods that must move. A node with the fence, or with a part of it after
// a user removed the rest, is not usable.
func (w *World) isUsable(m *nodegroup.Member, rec *record.Record) bool {
	if !w.Group.IsUsable(m) || rec.OwnsFence(m) {
		return false
	}
	return w.hasNoClosingTaint(m, rec) && w.hasAllDevices(m, rec)
}

// hasNoClosingTaint reports whether no taint, except the fence, keeps pods from the member's node.
func (w *World) hasNoClosingTaint(m *nodegroup.Member, rec *record.Record) bool {
	_, pod := w.findClosingTaint(m, rec)
	return pod == nil
}

// hasAllDevices reports whether the node offers all extended resources that pods need and the outdated nodes offered.
func (w *World) hasAllDevices(m *nodegroup.Member, rec *record.Record) bool {
	_, pod := w.findMissingDevice(m, rec)
	return pod == nil
}

// findMissingDevice returns an extended resource that all outdated nodes offered and the node does not, and a pod that
// requests it. The pod is nil if the node offers every such resource. A new node offers its GPUs only when a device
// plugin on it has started, minutes after the node is Ready (Kubernetes device plugins; NVIDIA/gpu-operator).
func (w *World) findMissingDevice(m *nodegroup.Member, rec *record.Record) (corev1.ResourceName, *corev1.Pod) {
	for _, name := range rec.Devices {
		if offersDevice(m.Node, name) {
			continue
		}
		pod, known := w.users[name]
		if !known {
			pod = w.findMovingPod(rec, func(pod *corev1.Pod) bool { return requestsDevice(pod, name) })
			if w.users != nil {
				w.users[name] = pod
			}
		}
		if pod != nil {
			return name, pod
		}
	}
	return "", nil
}

func offersDevice(node *corev1.Node, name corev1.ResourceName) bool {
	offered := node.Status.Allocatable[name]
	return offered.Sign() > 0
}

func requestsDevice(pod *corev1.Pod, name corev1.ResourceName) bool {
	return slices.ContainsFunc(fit.RequestsOf(pod).Others, func(q fit.Quantity) bool { return q.Name == name && q.Value > 0 })
}

// findClosingTaint returns a taint of the node that the outdated nodes did not have, and a pod that does not tolerate
// it. The pod is nil if every pod tolerates every such taint. An agent may remove the taint once it has started, or the
// new revision may have the taint by mistake.
func (w *World) findClosingTaint(m *nodegroup.Member, rec *record.Record) (corev1.Taint, *corev1.Pod) {
	for _, taint := range m.Node.Spec.Taints {
		taint.TimeAdded = nil
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || slices.Contains(rec.Taints, taint) || isFence(taint) && rec.OwnsFence(m) {
			continue
		}
		pod, known := w.tolerances[taint]
		if !known {
			pod = w.findIntolerant(taint, rec)
			if w.tolerances != nil {
				w.tolerances[taint] = pod
			}
		}
		if pod != nil {
			return taint, pod
		}
	}
	return corev1.Taint{}, nil
}

// findIntolerant returns a pod that must move or was moved and does not tolerate the taint, or nil.
func (w *World) findIntolerant(taint corev1.Taint, rec *record.Record) *corev1.Pod {
	return w.findMovingPod(rec, func(pod *corev1.Pod) bool { return !drain.ToleratesTaint(pod, taint) })
}

// findMovingPod returns a matching pod that must move or was moved: a pod on the group's nodes, or a Pending pod of a
// workload on record. It returns nil if there is none.
func (w *World) findMovingPod(rec *record.Record, matches func(*corev1.Pod) bool) *corev1.Pod {
	for pod := range w.eachBoundPod() {
		if drain.Judge(pod, drain.Policy{}, false).Fate != drain.Stay && matches(pod) {
			return pod
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rec.Workloads)) {
		workload, err := drain.ParseWorkload(name)
		if err != nil {
			continue
		}
		var first *corev1.Pod // by name, so that every step names the same pod
		if r := w.Workloads.Named(workload); r != nil {
			for _, pod := range r.Pods {
				if pod.Spec.NodeName == "" && matches(pod) && (first == nil || pod.Name < first.Name) {
					first = pod
				}
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// commonTaints returns the taints that all Ready nodes have, which belong to the group. It excludes the fence and the
// taints with which the control plane reports conditions.
func commonTaints(members []*nodegroup.Member) []corev1.Taint {
	var common []corev1.Taint
	first := true
	for _, m := range members {
		if !m.IsReady() {
			continue
		}
		var own []corev1.Taint
		for _, taint := range m.Node.Spec.Taints {
			taint.TimeAdded = nil
			if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") && !isFence(taint) && (first || slices.Contains(common, taint)) {
				own = append(own, taint)
			}
		}
		common, first = own, false
	}
	return common
}

// commonDevices returns the extended resources that all Ready nodes offer, sorted.
func commonDevices(members []*nodegroup.Member) []corev1.ResourceName {
	var common []corev1.ResourceName
	first := true
	for _, m := range members {
		if !m.IsReady() {
			continue
		}
		if first {
			for name := range m.Node.Status.Allocatable {
				if fit.IsExtended(name) {
					common = append(common, name)
				}
			}
			first = false
		}
		common = slices.DeleteFunc(common, func(name corev1.ResourceName) bool { return !offersDevice(m.Node, name) })
	}
	slices.Sort(common)
	return common
}

// isFence reports whether the taint is a fence of any provider, or the taint of a cordon.
func isFence(taint corev1.Taint) bool {
	cordon := nodemark.CordonTaint()
	return taint.MatchTaint(&cordon) || slices.ContainsFunc(nodegroup.Providers(), func(p nodegroup.Info) bool { return p.FenceTaint.MatchTaint(&taint) })
}

// describeUnusable returns why a new node does not take pods, and what to do; "" if it takes pods.
func (d *decision) describeUnusable(m *nodegroup.Member) string {
	switch {
	case d.w.isUsable(m, &d.rec):
		return ""
	case m.Node == nil:
		return fmt.Sprintf("instance %s has not joined the cluster: check its user data and its kubelet's log", m.Instance.ID)
	case !nodegroup.IsNodeReady(m.Node):
		return fmt.Sprintf("node %s: %s: see %s", m.Name(), cmp.Or(nodegroup.DescribeTrouble(m.Node), "not Ready"), shell.Command("kubectl describe", "node", m.Name()))
	case m.Node.Spec.Unschedulable && !d.rec.OwnsFence(m):
		return fmt.Sprintf("node %s is cordoned: run %s", m.Name(), shell.Command("kubectl uncordon", m.Name()))
	}
	if taint, pod := d.w.findClosingTaint(m, &d.rec); pod != nil {
		return fmt.Sprintf("node %s has taint %s, which the outdated nodes did not have and pod %s/%s does not tolerate: check the controller that should remove it",
			m.Name(), taint.ToString(), pod.Namespace, pod.Name)
	}
	if device, pod := d.w.findMissingDevice(m, &d.rec); pod != nil {
		return fmt.Sprintf("node %s does not offer %s, which the outdated nodes offered and pod %s/%s requests: check the device plugin's pod on the node",
			m.Name(), device, pod.Namespace, pod.Name)
	}
	if trouble := nodegroup.DescribeTrouble(m.Node); trouble != "" {
		return fmt.Sprintf("node %s: %s", m.Name(), trouble)
	}
	return fmt.Sprintf("node %s is Ready but lacks the labels of a current node or still has a start-up taint: check its user data", m.Name())
}

// describeUnusableNewNode returns why the first Ready new node that takes no pods does not, in parentheses; "" if there is
// none.
func (d *decision) describeUnusableNewNode() string {
	for _, m := range d.rec.NewMembers(d.w.Members) {
		if m.IsReady() {
			if why := d.describeUnusable(m); why != "" {
				return " (" + why + ")"
			}
		}
	}
	return ""
}
