package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// The kinds of controllers that create pods in different ways.
const (
	replicaSet  = "ReplicaSet"
	statefulSet = "StatefulSet"
	daemonSet   = "DaemonSet"
)

// brokenAfter is how long a pod must have been unready until its successor is assumed to fail in the same way.
const brokenAfter = 10 * time.Minute

// replacesAfterEnd reports whether the pod's controller creates a replacement only after this pod has ended.
func replacesAfterEnd(u *simPod) bool { return u.key.kind == statefulSet || u.key.kind == daemonSet }

// isReplaced reports whether a controller creates a replacement for a pod that leaves. Pods without a controller are
// not replaced. Finished pods are not replaced either: a Job's work is done, and other controllers do not count them.
func isReplaced(u *simPod) bool {
	return u.key.kind != "" && !isFinished(u.pod) && !isMirrorPod(u.pod)
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isMirrorPod(pod *corev1.Pod) bool { return pod.Annotations[corev1.MirrorPodAnnotationKey] != "" }

// controllerName returns the pod's controller for people: "ReplicaSet shop/web-7d9f".
func controllerName(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return fmt.Sprintf("%s %s/%s", ref.Kind, pod.Namespace, ref.Name)
	}
	return ""
}

// newSuccessor returns the pod that replaces another. serial must be unique.
func newSuccessor(u *simPod, now time.Time, serial int) *simPod {
	pod := *u.pod
	pod.UID = types.UID(fmt.Sprintf("pod-%d", serial))
	pod.DeletionTimestamp = nil
	pod.CreationTimestamp = metav1.Time{Time: now}
	pod.Spec.NodeName = ""
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if u.key.kind != statefulSet {
		pod.Name = successorName(baseName(pod.Name), serial)
	}
	return &simPod{pod: &pod, key: u.key, budgets: u.budgets, broken: u.broken || isLongUnready(u.pod, now)}
}

func successorName(base string, serial int) string { return fmt.Sprintf("%s-r%d", base, serial) }

// baseName removes the suffix that successorName adds.
func baseName(name string) string {
	i := strings.LastIndex(name, "-r")
	if i < 0 {
		return name
	}
	if _, err := strconv.Atoi(name[i+2:]); err != nil {
		return name
	}
	return name[:i]
}

func isLongUnready(pod *corev1.Pod, now time.Time) bool {
	if drain.Ready(pod) {
		return false
	}
	since, started := startOf(pod)
	if !started {
		return false
	}
	for i := range pod.Status.Conditions {
		if cond := &pod.Status.Conditions[i]; cond.Type == corev1.PodReady && cond.LastTransitionTime.After(since) {
			since = cond.LastTransitionTime.Time
		}
	}
	return now.Sub(since) >= brokenAfter
}

// orderedSets holds the StatefulSets that create their pods one after the other. It has their existing pods and their
// missing pods, by controller.
type orderedSets struct {
	workloads map[types.UID]Workload
	pods      map[types.UID]map[types.UID]*simPod
	missing   map[types.UID][]*simPod
}

// containsPod reports whether the pod belongs to an ordered StatefulSet.
func (s *orderedSets) containsPod(u *simPod) bool {
	return u.key.kind == statefulSet && s.workloads[u.key.owner].Ordered
}

// addPodOfSet adds a bound or pending pod, if it belongs to an ordered StatefulSet.
func (s *orderedSets) addPodOfSet(u *simPod) {
	if !s.containsPod(u) {
		return
	}
	if s.pods[u.key.owner] == nil {
		s.pods[u.key.owner] = map[types.UID]*simPod{}
	}
	s.pods[u.key.owner][u.pod.UID] = u
}

func (s *orderedSets) removePodOfSet(u *simPod) { delete(s.pods[u.key.owner], u.pod.UID) }

func (s *orderedSets) addMissing(u *simPod) {
	s.missing[u.key.owner] = append(s.missing[u.key.owner], u)
}

// takeNextMissing removes and returns the next missing pod of a StatefulSet. It returns nil unless all pods before it
// are ready and none of these is being deleted (stateful_set_control.go, the monotonic branch).
func (s *orderedSets) takeNextMissing(owner types.UID) *simPod {
	missing := s.missing[owner]
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b *simPod) int { return cmp.Compare(ordinalOf(a.pod), ordinalOf(b.pod)) })
	next := missing[0]
	for _, other := range s.pods[owner] { // the order does not matter, because any unready pod ends the search
		if ordinalOf(other.pod) < ordinalOf(next.pod) && (other.node == nil || !drain.Ready(other.pod) || other.pod.DeletionTimestamp != nil) {
			return nil
		}
	}
	s.missing[owner] = missing[1:]
	return next
}

// ordinalOf returns the number at the end of a StatefulSet pod's name.
func ordinalOf(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	if err != nil {
		return 0
	}
	return n
}
