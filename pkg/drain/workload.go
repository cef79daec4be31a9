package drain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload names the controller that keeps pods running: a Deployment, a StatefulSet or another one. The zero value means
// none.
type Workload struct{ Namespace, Kind, Name string }

// String returns the workload as users write it: NAMESPACE/KIND/NAME.
func (w Workload) String() string { return w.Namespace + "/" + w.Kind + "/" + w.Name }

// LastReadyBudget returns the name of the budget that keeps the workload's last ready pod. No object can have that name.
func (w Workload) LastReadyBudget() types.NamespacedName {
	return types.NamespacedName{Namespace: w.Namespace, Name: w.Kind + "/" + w.Name}
}

// ParseWorkload parses the format of String. Its error describes the expected format.
func ParseWorkload(text string) (Workload, error) {
	namespace, rest, _ := strings.Cut(text, "/")
	kind, name, _ := strings.Cut(rest, "/")
	if namespace == "" || kind == "" || name == "" || strings.Contains(name, "/") {
		return Workload{}, fmt.Errorf("%q is not a workload: write NAMESPACE/KIND/NAME, for example shop/Deployment/web", text)
	}
	return Workload{Namespace: namespace, Kind: kind, Name: name}, nil
}

// WorkloadOf returns the pod's workload: its controller, or the Deployment of its ReplicaSet. It returns zero for pods
// without a controller, and for pods that are tied to a node or to one task; see IsForeignJob.
func WorkloadOf(pod *corev1.Pod) Workload {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return Workload{}
	}
	switch owner.Kind {
	case "DaemonSet", "Job", "Node":
		return Workload{}
	case "ReplicaSet":
		hash, labelled := pod.Labels["pod-template-hash"]
		if name, cut := strings.CutSuffix(owner.Name, "-"+hash); labelled && cut {
			return Workload{Namespace: pod.Namespace, Kind: "Deployment", Name: name}
		}
	default:
		if IsForeignJob(pod) {
			return Workload{}
		}
	}
	return Workload{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name}
}

// IsForeignJob reports whether an eviction may end the pod's work for good although it has a controller. The pod ends by
// itself (restartPolicy Never or OnFailure), and only a Job is known to recreate such pods. Controllers of custom
// resources, whose groups have a dot, need not recreate them: a CI runner, a TaskRun, a Workflow.
func IsForeignJob(pod *corev1.Pod) bool {
	if p := pod.Spec.RestartPolicy; p != corev1.RestartPolicyNever && p != corev1.RestartPolicyOnFailure {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return owner.Kind != "Job" || strings.Contains(group, ".")
}

// Replicas are the pods of one workload at one moment. They are not changed after creation.
type Replicas struct {
	Workload
	// Pods has the pods that have not ended and are not being deleted, with or without a node; the ready ones first.
	Pods []*corev1.Pod
	// Ready counts the ready Pods. Most is the largest number of pods that one controller of the workload had. Expected
	// counts Pods, and pods that are replaced only after their end.
	Ready, Most, Expected int
	// shaky has the ready pods that have been unready since they first were ready, or whose containers ended before.
	shaky map[types.UID]bool
	// lasted has, for each pod that was ready and then was not, how long it had been ready.
	lasted map[types.UID]time.Duration
	// last has the budget that keeps the last ready pod of a workload behind a Service; nil if none is needed.
	last []*Budget
}

// Unready returns the pods that are not ready.
func (r *Replicas) Unready() []*corev1.Pod { return r.Pods[r.Ready:] }

// CountSettled counts the ready pods that are likely to stay ready; see IsUnsettled. A nil workload has none.
func (r *Replicas) CountSettled(usual time.Duration, now time.Time) int {
	if r == nil {
		return 0
	}
	settled := r.Ready
	if len(r.shaky) == 0 {
		return settled
	}
	for _, pod := range r.Pods[:r.Ready] {
		if _, unsettled := r.IsUnsettled(pod, usual, now); unsettled {
			settled--
		}
	}
	return settled
}

// MayBeUnsettled reports whether IsUnsettled may be true for any of the ready pods.
func (r *Replicas) MayBeUnsettled() bool { return len(r.shaky) > 0 }

// IsUnsettled reports whether a ready pod may fail again. Its containers ended before, or it has been unready since it
// first was ready, and it has now been ready for less than usual or 30 s. until is when its readiness counts.
func (r *Replicas) IsUnsettled(pod *corev1.Pod, usual time.Duration, now time.Time) (until time.Time, unsettled bool) {
	if len(r.shaky) == 0 || !r.shaky[pod.UID] {
		return time.Time{}, false
	}
	ready := conditionOf(pod, corev1.PodReady)
	until = ready.LastTransitionTime.Add(max(minPatience, usual))
	return until, now.Before(until)
}

// CountServing counts the settled pods, and those that are unready only for a moment. Such a pod was ready for long, then
// a container ended or a probe failed, and it has not been unready for longer than Patience, or is ready again. A pod
// that crashes repeatedly was not ready for long. usual is how long a pod takes to become ready, 0 if that is not known.
// A nil workload has no pods.
func (r *Replicas) CountServing(usual time.Duration, now time.Time) int {
	if r == nil {
		return 0
	}
	serving := r.CountSettled(usual, now)
	for i, pod := range r.Pods {
		_, unsettled := r.IsUnsettled(pod, usual, now)
		fell := i >= r.Ready && now.Before(UnreadySince(pod).Add(Patience(usual)))
		if (unsettled || fell) && max(r.lasted[pod.UID], lastRun(pod)-usual) >= max(minPatience, usual) {
			serving++
		}
	}
	return serving
}

// KeepsLastReady reports whether the workload's last ready pod is kept: it is behind a Service and has more than one pod.
func (r *Replicas) KeepsLastReady() bool { return r.last != nil }

// IsReadyPod reports whether the pod is one of the ready pods.
func (r *Replicas) IsReadyPod(pod types.UID) bool {
	return slices.ContainsFunc(r.Pods[:r.Ready], func(p *corev1.Pod) bool { return p.UID == pod })
}

// ReadyTime returns how long a pod of the workload usually takes from its binding to a node until it is ready. It returns
// false if none of its pods shows that.
func (r *Replicas) ReadyTime() (took time.Duration, known bool) {
	var samples []time.Duration
	for _, pod := range r.Pods {
		if took, known := ReadyTime(pod); known {
			samples = append(samples, took)
		}
	}
	return TypicalDuration(samples, 0), len(samples) > 0
}

const (
	// awayShare limits how many pods of a workload without a PodDisruptionBudget may be away together: one in four. A
	// Deployment's rolling update has the same default limit.
	awayShare = 4
	// slowStart is the shortest time to readiness at which the limit applies. Faster pods are replaced before
	// many more have left, so a limit would only cost time.
	slowStart = 10 * time.Second
)

// MaxAwayAtOnce returns how many pods of a workload without a PodDisruptionBudget may be away together: a
// quarter of its ready pods, and at least one. 0 means no limit. usual is how long its pods take to become
// ready, 0 if that is not known. See docs/decisions/0040.
func MaxAwayAtOnce(ready int, usual time.Duration) int {
	if ready == 0 || (usual > 0 && usual < slowStart) {
		return 0
	}
	return max(1, ready/awayShare)
}

// newReplicas returns the workload's pods from its counter. A workload behind a Service with more than one pod gets a
// budget that keeps only its last ready pod (kubernetes#31487).
func newReplicas(w Workload, c *podCounter, facts Facts) *Replicas {
	r := &Replicas{Workload: w, Pods: slices.Concat(c.ready, c.unready), Ready: len(c.ready)}
	for controller, counted := range c.counted {
		r.Most = max(r.Most, c.most[controller])
		r.Expected += counted
	}
	if len(c.shaky) > 0 {
		r.shaky = maps.Clone(c.shaky)
	}
	if len(c.lasted) > 0 {
		r.lasted = maps.Clone(c.lasted)
	}
	if r.Most > 1 && len(r.Pods) > 0 && matchesSelector(facts.serving[w.Namespace], r.Pods[0]) {
		r.last = []*Budget{newLastReadyBudget(w, int32(r.Ready), int32(r.Most))}
	}
	return r
}

// IsLiving reports whether the pod has not ended and is not being deleted. Only living pods count as replicas of their
// controller. A failed pod does not count: kubelets fail pods to free memory or disk, and the object stays long after
// its replacement (controller_utils.go, IsPodActive).
func IsLiving(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !isFinished(pod) }

// isReplacedLater reports whether the pod is replaced only after its end. Until then it counts as expected.
func isReplacedLater(pod *corev1.Pod) bool {
	return OwnerKind(pod) == "StatefulSet" && !isFinished(pod)
}

// Ordinal returns the number at the end of the name of a StatefulSet's pod, or -1 if there is none.
func Ordinal(pod *corev1.Pod) int {
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	if err != nil {
		return -1
	}
	return ordinal
}

// newLastReadyBudget returns the budget that a careful owner would have written for the workload, with the status that
// the disruption controller would set.
func newLastReadyBudget(w Workload, ready, expected int32) *Budget {
	least, unready := intstr.FromInt32(1), policyv1.AlwaysAllow
	return &Budget{OfLastReady: true, PodDisruptionBudget: &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.LastReadyBudget().Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, UnhealthyPodEvictionPolicy: &unready},
		Status: policyv1.PodDisruptionBudgetStatus{
			DisruptionsAllowed: max(0, ready-1), CurrentHealthy: ready, DesiredHealthy: 1, ExpectedPods: expected,
		},
	}}
}

// Workloads are the workloads of a cluster at one moment. The zero value has none.
type Workloads struct {
	named        map[Workload]*Replicas
	byController map[types.UID]*Replicas
}

// Named returns the pods of the workload, or nil.
func (w Workloads) Named(name Workload) *Replicas { return w.named[name] }

// Of returns the pods of the pod's workload, or nil.
func (w Workloads) Of(pod *corev1.Pod) *Replicas { return w.byController[ControllerOf(pod)] }

// Unsettled returns the ready pods that may fail again, and for each the time at which it counts as settled; see
// IsUnsettled. usual returns how long pods of a workload usually take to become ready, or 0 if that is not known.
func (w Workloads) Unsettled(usual func(Workload) time.Duration, now time.Time) map[*corev1.Pod]time.Time {
	var pods map[*corev1.Pod]time.Time
	for name, r := range w.named {
		if len(r.shaky) == 0 {
			continue
		}
		for _, pod := range r.Pods[:r.Ready] {
			until, unsettled := r.IsUnsettled(pod, usual(name), now)
			if unsettled && pods == nil {
				pods = map[*corev1.Pod]time.Time{}
			}
			if unsettled {
				pods[pod] = until
			}
		}
	}
	return pods
}

// countsReady reports whether the pod is a ready pod of a workload whose last ready pod is kept.
func (w Workloads) countsReady(workload Workload, pod types.UID) bool {
	r := w.named[workload]
	return r != nil && r.last != nil && r.IsReadyPod(pod)
}

// WorkloadIndex maintains the Workloads of a cluster while its pods change. It is not safe for concurrent use.
type WorkloadIndex struct {
	facts    Facts
	counters map[Workload]*podCounter
	stale    map[Workload]bool
	current  Workloads
}

// NewWorkloadIndex returns an index without pods.
func NewWorkloadIndex(facts Facts) *WorkloadIndex {
	return &WorkloadIndex{
		facts: facts, counters: map[Workload]*podCounter{}, stale: map[Workload]bool{},
		current: Workloads{named: map[Workload]*Replicas{}, byController: map[types.UID]*Replicas{}},
	}
}

// SetFacts updates which pods are behind Services.
func (x *WorkloadIndex) SetFacts(facts Facts) {
	x.facts = facts
	for w := range x.counters {
		x.stale[w] = true
	}
}

// Store adds a pod or its newer state.
func (x *WorkloadIndex) Store(pod *corev1.Pod) {
	w := WorkloadOf(pod)
	if w == (Workload{}) {
		return
	}
	c := x.counters[w]
	if c == nil {
		c = newPodCounter()
		x.counters[w] = c
	}
	c.storePod(pod)
	x.stale[w] = true
}

// Remove removes a pod.
func (x *WorkloadIndex) Remove(pod *corev1.Pod) {
	if w := WorkloadOf(pod); x.counters[w] != nil {
		x.counters[w].removePod(pod.UID)
		x.stale[w] = true
	}
}

// Current returns the current workloads. They may change with the next Store or Remove.
func (x *WorkloadIndex) Current() Workloads {
	for w := range x.stale {
		x.renewReplicas(w)
	}
	clear(x.stale)
	return x.current
}

// Snapshot returns the current workloads, which do not change later.
func (x *WorkloadIndex) Snapshot() Workloads {
	w := x.Current()
	return Workloads{named: maps.Clone(w.named), byController: maps.Clone(w.byController)}
}

// renewReplicas updates the current state of a workload from its counter.
func (x *WorkloadIndex) renewReplicas(w Workload) {
	c := x.counters[w]
	if len(c.members) == 0 {
		if w.Kind != "StatefulSet" { // its only pod may be replaced after its end
			delete(x.counters, w)
		}
		delete(x.current.named, w)
		return // no pod is left from which its entries in byController could be found
	}
	r := newReplicas(w, c, x.facts)
	x.current.named[w] = r
	for controller := range c.counted {
		x.current.byController[controller] = r
	}
}
