package upgrade

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

const (
	// seen is how long the effect of an accepted request may take to be observed before it is asked
	// for again.
	seen = 30 * time.Second
	// detachLimit is how long volumes may take to detach; kube-controller-manager forces it then
	// (attach_detach_controller.go).
	detachLimit = 6 * time.Minute
	// returnsAllowed is how many pods of a controller that came back to the fenced node are evicted
	// again, before it is held to be one whose pods always do (EKS E51).
	returnsAllowed = 1
	// nodeObjectGrace is how long a Node object may outlive its machine before it is deleted.
	nodeObjectGrace = time.Minute
)

// lifecycle takes started nodes from their drain to their end.
type lifecycle struct{ *draft }

func lifecycleOf(d *draft) lifecycle { return lifecycle{d} }

// nodePods is what a drain has to know of one node's pods.
type nodePods struct {
	toEvict []*corev1.Pod
	leaving []*corev1.Pod
	held    []*corev1.Pod
	staying int
}

func (v *nodePods) podsLeft() int { return len(v.toEvict) + len(v.leaving) + len(v.held) }

func (t *draft) podsOf(m *nodegroup.Member) *nodePods {
	if v, ok := t.drains[m.Name()]; ok {
		return v
	}
	v := &nodePods{}
	var unready []*corev1.Pod
	lost := m.Node != nil && nodeLost(m.Node, t.w.Now)
	for _, pod := range m.Pods {
		switch drain.Judge(pod, t.rec.Request.Policy(), lost).Fate {
		case drain.Go:
			if drain.Ready(pod) {
				v.toEvict = append(v.toEvict, pod)
			} else {
				unready = append(unready, pod)
			}
		case drain.Leaving:
			v.leaving = append(v.leaving, pod)
		case drain.Held:
			v.held = append(v.held, pod)
		default:
			v.staying++
		}
	}
	// Pods that are not ready cost no budget and go first; the rest by name, so that a step is the
	// same each time.
	v.toEvict = append(unready, v.toEvict...)
	slices.SortStableFunc(v.toEvict[:len(unready)], byName)
	slices.SortStableFunc(v.toEvict[len(unready):], byName)
	t.drains[m.Name()] = v
	return v
}

func byName(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// isInDrain are the members whose drain goes on, in order of start.
func (t *draft) membersInDrain() []*nodegroup.Member {
	var members []*nodegroup.Member
	for _, name := range t.rec.startedNames() {
		if m := t.count.byName[name]; m != nil && isInDrain(t.rec.Nodes[name].State) {
			members = append(members, m)
		}
	}
	return members
}

// startRecord begins the record of a member, which is to be stored before anything happens to it.
func (t lifecycle) startRecord(m *nodegroup.Member, n NodeRecord) {
	t.count.byName[m.Name()] = m
	t.rec.Nodes[m.Name()] = n
}

// advanceNode takes one started node one step further.
func (t lifecycle) advanceNode(name string) {
	n, m := t.rec.Nodes[name], t.count.byName[name]
	if n.isGivenBack() {
		surplusOf(t.draft).driveReturn(name)
		return
	}
	if m == nil || (m.Node != nil && n.UID != "" && m.Node.UID != n.UID) {
		t.recordGone(name)
		return
	}
	switch n.State {
	case NodeDraining, NodeForcing, NodeEmpty:
		t.drainNode(name, n, m)
	case NodeRemoving:
		removalOf(t.draft).followTermination(name, n, m)
	}
}

// recordGone books a started node that is no longer there.
func (t lifecycle) recordGone(name string) {
	n := t.rec.Nodes[name]
	if !removalOf(t.draft).resolveTerminator(n) {
		return
	}
	if n.State != NodeDrained {
		t.rec.Replaced++
	}
	delete(t.rec.Nodes, name)
	delete(t.notes.Yielded, name)
	maps.DeleteFunc(t.notes.Returned, func(r Return, _ int) bool { return r.Node == name })
}

func (t lifecycle) drainNode(name string, n NodeRecord, m *nodegroup.Member) {
	if m.Instance.State == nodegroup.InstanceLeaving {
		t.waitForCloud("")
		return // its machine is going down without us; it is booked when it is gone
	}
	if m.Node != nil && n.Deadline.IsZero() {
		n.Deadline = t.w.Now.Add(t.rec.Request.DrainTimeout.Duration)
		t.rec.Nodes[name] = n
	}
	if m.Node != nil && !t.isFenced(m) {
		timeoutOf(t.draft).pauseDeadline(name, true)
		return // somebody took its fence away, or a stop of ours did: pods that leave would come back
	}
	view := t.podsOf(m)
	empty := view.podsLeft() == 0
	if empty || t.fencing || n.State == NodeForcing {
		t.ensureStarted(n, m)
	}
	if empty {
		t.waitSettled(name, n, m)
		return
	}
	if n.State == NodeEmpty {
		n.State, n.EmptyAt = NodeDraining, time.Time{}
		t.rec.Nodes[name] = n
	}
	if t.fencing {
		timeoutOf(t.draft).pauseDeadline(name, true)
		return // what leaves could land on a node that is drained next (EKS E30)
	}
	if n.State == NodeForcing {
		t.deleteRemaining(name, n, m, view)
		return
	}
	candidates, blocked := evictionsOf(t.draft).evictPods(name, view)
	if timeoutOf(t.draft).outOfTime(name, blocked) {
		t.phase.late(t.draft, name, n)
		return
	}
	t.ensureStarted(n, m)
	t.candidates = append(t.candidates, candidates...)
}

// ensureStarted writes the start of the drain on the node, once.
func (t lifecycle) ensureStarted(n NodeRecord, m *nodegroup.Member) {
	if m.Node == nil || m.Node.Annotations[nodemark.AnnotationDeadline] == nodemark.FormatTime(n.Deadline) {
		return
	}
	t.addAction(StartDrain{Node: m.Node.Name, UID: m.Node.UID, Version: m.Node.ResourceVersion, Deadline: n.Deadline})
}

func isInDrain(s NodeState) bool { return s == NodeDraining || s == NodeForcing || s == NodeEmpty }

// deleteRemaining deletes the pods that are left, each with its own grace (EKS E43), and goes on without
// those that are still there when the longest grace is over: they are named in the node's reason.
func (t lifecycle) deleteRemaining(name string, n NodeRecord, m *nodegroup.Member, view *nodePods) {
	over := n.Deadline.Add(t.notes.Yielded[name])
	kept := 0
	for _, pod := range slices.Concat(view.held, view.toEvict) {
		if pod.CreationTimestamp.After(over) {
			continue // it came back for one that was deleted, and would each time: it goes down with the machine
		}
		kept++
		t.addAction(Delete{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: name})
	}
	for _, pod := range view.leaving {
		if end := pod.DeletionTimestamp.Add(seen); end.After(over) {
			over = end // deletionTimestamp is when the grace ends, not when it began
		}
	}
	if kept == 0 && t.w.Now.After(over) {
		t.phase.emptied(t.draft, name, n, m)
		return
	}
	t.requeueAt(over)
}

// waitSettled waits, once the node is empty, for load balancers and volumes to let go of it (EKS
// E44, E45).
func (t lifecycle) waitSettled(name string, n NodeRecord, m *nodegroup.Member) {
	if n.State != NodeEmpty {
		n.State, n.EmptyAt = NodeEmpty, t.w.Now
		t.rec.Nodes[name] = n
	}
	if m.Node != nil {
		if end := n.EmptyAt.Add(t.rec.Request.Settle.Duration); t.w.Now.Before(end) {
			t.requeueAt(end)
			return
		}
		if end := n.EmptyAt.Add(detachLimit); t.hasAttachedVolumes(m) && t.w.Now.Before(end) {
			t.requeueAt(end)
			return
		}
		if m.Node.Annotations[nodemark.AnnotationDeadline] != nodemark.FormatTime(n.Deadline) {
			return // the start of this drain must be on the node before its machine goes
		}
	}
	t.phase.emptied(t.draft, name, n, m)
}

// hasAttachedVolumes reports whether volumes of pods that left are still attached. Volumes of pods that stay
// keep their place and cannot be told apart, so a node with such pods is not waited for.
func (t lifecycle) hasAttachedVolumes(m *nodegroup.Member) bool {
	for _, pod := range m.Pods {
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
				return false
			}
		}
	}
	return len(m.Node.Status.VolumesAttached) > 0
}
