package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// arrivals are pods that are about to be created or scheduled when the simulation begins. The first event creates or
// schedules them.
type arrivals struct {
	// missing has, for each pod that must be created, an existing pod or a prototype that it replaces.
	missing []*simPod
	// unseen is true if there are pending pods that no scheduler has seen yet.
	unseen bool
	// bare are nodes that joined recently and may lack DaemonSet pods.
	bare []*simNode
}

// findArrivals returns the arrivals of the given pods and of the nodes.
func (l *podLifecycle) findArrivals(pods []*simPod) arrivals {
	a := arrivals{missing: l.findMissing(pods), unseen: l.scheduler.hasUnseen()}
	for _, n := range l.index.nodes.sorted {
		if n.member != nil && !n.closed && isYoung(n.node, l.clock.now) && len(l.findMissingDaemons(n)) > 0 {
			a.bare = append(a.bare, n)
		}
	}
	return a
}

func (a *arrivals) isEmpty() bool { return !a.unseen && len(a.missing)+len(a.bare) == 0 }

// createArrivals creates the missing pods and schedules the unseen pods.
func (l *podLifecycle) createArrivals(a arrivals) {
	for _, n := range a.bare {
		l.startMissingDaemons(n)
	}
	for _, u := range l.scheduler.removeUnseen() {
		if n := l.findNodeForArrival(u); n != nil {
			l.startPodOnNode(u, n)
		}
	}
	for _, u := range a.missing {
		l.replacePod(u)
	}
}

// findNodeForArrival returns a node for a pod that no scheduler has seen. For a DaemonSet pod, that is the node that its
// controller chose. If that node does not exist, findNodeForArrival returns nil, and the pod is dropped.
func (l *podLifecycle) findNodeForArrival(u *simPod) *simNode {
	if u.key.kind != daemonSet {
		return l.scheduler.assignNode(u)
	}
	return l.index.nodes.byName[drain.TargetNode(u.pod)]
}

// findMissing returns, for each pod that a controller lacks and will create at once, a pod that it will be like. The
// caller replaces that pod as if it had just left.
func (l *podLifecycle) findMissing(pods []*simPod) []*simPod {
	present := map[types.UID][]*simPod{}
	for _, u := range pods {
		if w, known := l.sets.workloads[u.key.owner]; known && w.Pods != nil && isCountedByController(u) {
			present[u.key.owner] = append(present[u.key.owner], u)
		}
	}
	var missing []*simPod
	for _, id := range slices.Sorted(maps.Keys(l.sets.workloads)) {
		switch set := l.sets.workloads[id].Pods; {
		case set == nil || len(present[id]) >= set.Count:
		case set.Kind == statefulSet:
			missing = append(missing, l.findMissingOrdinals(id, present[id])...)
		default:
			if like := l.chooseReplicaSample(id, present[id]); like != nil {
				missing = append(missing, slices.Repeat([]*simPod{like}, set.Count-len(present[id]))...)
			}
		}
	}
	return missing
}

// isCountedByController reports whether the pod's controller counts it as one of its replicas. A StatefulSet also counts a pod
// that is being deleted, because it waits until the name is free.
func isCountedByController(u *simPod) bool {
	return !isFinished(u.pod) && (u.pod.DeletionTimestamp == nil || u.key.kind == statefulSet)
}

// chooseReplicaSample returns the pod that a missing pod of a ReplicaSet will be like: a ready one, another one, or one
// created from the template. It returns nil if there is none.
func (l *podLifecycle) chooseReplicaSample(id types.UID, present []*simPod) *simPod {
	for _, u := range present {
		if drain.Ready(u.pod) {
			return u
		}
	}
	if len(present) > 0 {
		return present[0]
	}
	return l.newFromTemplate(id, l.sets.workloads[id].Pods.Name)
}

// findMissingOrdinals returns a prototype for each name of the StatefulSet that no pod has.
func (l *podLifecycle) findMissingOrdinals(id types.UID, present []*simPod) []*simPod {
	set := l.sets.workloads[id].Pods
	known := map[int]*simPod{}
	for _, u := range present {
		known[ordinalOf(u.pod)] = u
	}
	var missing []*simPod
	for ordinal := set.First; ordinal < set.First+set.Count; ordinal++ {
		if known[ordinal] != nil {
			continue
		}
		name := fmt.Sprintf("%s-%d", set.Name, ordinal)
		like := l.newFromTemplate(id, name)
		if near := nearestOrdinal(known, ordinal); near != nil {
			like = l.copyForOrdinal(near, name)
		}
		if like != nil {
			missing = append(missing, like)
		}
	}
	return missing
}

// nearestOrdinal returns the next pod before the ordinal, because a rollout reaches that later. If there is none, it
// returns the next pod after the ordinal, or nil without pods.
func nearestOrdinal(known map[int]*simPod, ordinal int) *simPod {
	ordinals := slices.Sorted(maps.Keys(known))
	if len(ordinals) == 0 {
		return nil
	}
	i, _ := slices.BinarySearch(ordinals, ordinal)
	return known[ordinals[max(0, i-1)]]
}

// copyForOrdinal returns a copy of a StatefulSet's pod with another name, and with the claims that belong to
// that name.
func (l *podLifecycle) copyForOrdinal(u *simPod, name string) *simPod {
	pod := *u.pod
	pod.Name, pod.Labels = name, maps.Clone(pod.Labels)
	setOrdinalLabels(&pod)
	pod.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		if template, own := strings.CutSuffix(claim.ClaimName, "-"+u.pod.Name); own {
			pod.Spec.Volumes[i].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: template + "-" + name, ReadOnly: claim.ReadOnly}
		}
	}
	return l.newPrototype(&pod)
}

// setOrdinalLabels sets the labels of a StatefulSet's pod that contain its name and ordinal (stateful_set_utils.go,
// updateIdentity).
func setOrdinalLabels(pod *corev1.Pod) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel], pod.Labels[appsv1.PodIndexLabel] = pod.Name, strconv.Itoa(ordinalOf(pod))
}

// newFromTemplate returns a pod of the controller, created from its template. It returns nil if the template is not
// known.
func (l *podLifecycle) newFromTemplate(id types.UID, name string) *simPod {
	workload := l.sets.workloads[id]
	set := workload.Pods
	if workload.Template == nil || set.Name == "" {
		return nil
	}
	controls := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, Labels: maps.Clone(workload.Template.Labels), Annotations: workload.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: set.Kind, Name: set.Name, UID: id, Controller: &controls}},
		},
		Spec: workload.Template.Spec,
	}
	if set.Kind == statefulSet {
		setOrdinalLabels(pod)
		pod.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
		for _, claim := range set.Claims {
			source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim + "-" + name}}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: source})
		}
		if workload.Rollout != nil {
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] = workload.Rollout.Revision
		}
	}
	return l.newPrototype(pod)
}

// newPrototype returns a simPod that is not in the cluster itself, and that others are created from.
func (l *podLifecycle) newPrototype(pod *corev1.Pod) *simPod {
	return &simPod{pod: pod, key: l.index.schedulingKeyOf(pod), budgets: l.budgets.index.Covering(pod)}
}

// isBeyondScale reports whether the pod's ordinal is beyond the scale of its StatefulSet, which therefore does not
// create it again.
func (l *podLifecycle) isBeyondScale(u *simPod) bool {
	set := l.sets.workloads[u.key.owner].Pods
	return set != nil && set.Kind == statefulSet && ordinalOf(u.pod) >= set.First+set.Count
}

// findMissingDaemons returns one pod of each DaemonSet of the group that has no pod on the node.
func (l *podLifecycle) findMissingDaemons(n *simNode) []*simPod {
	return slices.DeleteFunc(slices.Clone(l.daemons), func(d *simPod) bool {
		return slices.ContainsFunc(n.pods, func(pod *corev1.Pod) bool { return drain.ControllerOf(pod) == d.key.owner })
	})
}
