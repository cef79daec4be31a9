package upgrade

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// timeout gives up nodes that are not empty in their time.
type timeout struct{ *draft }

// isOutOfTime reports whether a node's drain timeout is over. Its time stands still while the node waits
// only for nodes that were started before it: for budgets that these have spent, and for the first new pods
// of workloads.
func (d timeout) isOutOfTime(name string) bool {
	d.pauseDeadline(name, false)
	deadline := d.rec.Nodes[name].Deadline.Add(d.notes.Yielded[name])
	d.requeueAt(deadline)
	return !d.w.Now.Before(deadline)
}

// pauseDeadline has a node's time stand still from now on, as long as it yields, and counts how
// long it has since the last step.
func (d timeout) pauseDeadline(name string, yields bool) {
	if d.w.Notes.Yielding[name] {
		d.notes.Yielded[name] += max(0, d.w.Now.Sub(d.w.Notes.At))
	}
	if yields {
		d.notes.Yielding[name] = true
	}
}

// giveUpNode applies --on-timeout to a node that was not empty in its time.
func giveUpNode(d *draft, name string, n NodeRecord) {
	switch d.rec.Request.OnTimeout {
	case Force:
		n.State, n.Reason = NodeForcing, timeout{d}.describeForRecord(name)
	case Skip:
		n.State, n.Reason = NodeQuarantined, timeout{d}.describeForRecord(name)
	default:
		d.stopUpgradeWith(PodEvictionFailure, fmt.Sprintf("draining node %q: not empty after %s: %s", name, d.rec.Request.DrainTimeout, timeout{d}.describeRemaining(name)))
		return
	}
	d.rec.Nodes[name] = n
	d.requeueNow() // and act on the new state
}

// describeRemaining names what is still on the node, with its obstacle and the remedy of the first. It counts the pods that it does not
// name.
func (d timeout) describeRemaining(name string) string {
	if mine := d.listBlocked(name); len(mine) > 0 {
		return summarizeBlocked(mine, d.w.Now) + ": " + mine[0].Remedy()
	}
	m := d.count.byName[name]
	view := d.classifyPodsOf(m)
	var left []string
	if names := listPodNames(view.Leaving); len(names) > 0 && m != nil && m.Node != nil && nodegroup.IsSilent(m.Node) {
		left = append(left, fmt.Sprintf("still terminating: %s: %s", abbreviateNames(names), describeSilent(m.Node)))
	} else if len(names) > 0 {
		left = append(left, fmt.Sprintf("still terminating: %s: see their finalizers and grace periods", abbreviateNames(names)))
	}
	if names := listPodNames(view.Evict); len(names) > 0 {
		left = append(left, fmt.Sprintf("their eviction has had no answer: %s: see which admission webhook holds it, and whether the API server is well", abbreviateNames(names)))
	}
	return strings.Join(left, "; ")
}

// describeSilent says since when the node's kubelet has not reported, and what the user can do.
func describeSilent(node *corev1.Node) string {
	return fmt.Sprintf("%s: restart the kubelet, or run %s if the machine is gone for good", nodegroup.DescribeTrouble(node), shell.Command("kubectl delete", "node", node.Name))
}

// describeForRecord is describeRemaining as it fits into NodeRecord.Reason: one pod is named where three do not fit.
func (d timeout) describeForRecord(name string) string {
	text := d.describeRemaining(name)
	if mine := d.listBlocked(name); textBytes(text) > mostReasonBytes && len(mine) > 1 {
		text = fmt.Sprintf("%d pods, such as %s: %s", len(mine), summarizeBlocked(mine[:1], d.w.Now), mine[0].Remedy())
	}
	return shortenReason(text)
}

func (d timeout) listBlocked(name string) []Blocked {
	var mine []Blocked
	for _, b := range d.blocked {
		if b.Node == name {
			mine = append(mine, b)
		}
	}
	return mine
}

func listPodNames(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}
