package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// disrupted is the taint that Karpenter puts on a node before it drains it. It does not evict pods that tolerate the taint.
var disrupted = corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}

// FindKeeper returns why Karpenter does not choose the pod's node for a replacement now, or the zero Obstacle if this pod is no
// reason. One such pod keeps the whole node. Pods of DaemonSets count, too (karpenter, utils/pod/scheduling.go,
// IsDisruptable, IsEvictable; utils/pdb/pdb.go, CanEvictPods).
func FindKeeper(pod *corev1.Pod, budgets Budgets, now time.Time) Obstacle {
	if isFinished(pod) || pod.DeletionTimestamp != nil {
		return Obstacle{}
	}
	if kept, until := isKept(pod, now); kept {
		o := Obstacle{Kind: Keeps}
		if !until.IsZero() {
			o.Detail = until.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		return o
	}
	if pod.Annotations[corev1.MirrorPodAnnotationKey] != "" || ToleratesTaint(pod, disrupted) {
		return Obstacle{}
	}
	switch covering := budgets.Covering(pod); len(covering) {
	case 0:
		return Obstacle{}
	case 1:
		return findClosed(pod, covering[0])
	default:
		return Obstacle{Kind: TwoBudgets, Budget: covering[0].Key(), Detail: covering[1].Key().String()}
	}
}

// findClosed returns the budget as an obstacle, unless it is open or always lets go of unready pods.
func findClosed(pod *corev1.Pod, budget *Budget) Obstacle {
	policy := budget.Spec.UnhealthyPodEvictionPolicy
	if budget.Status.DisruptionsAllowed > 0 || policy != nil && *policy == policyv1.AlwaysAllow && isUnready(pod) {
		return Obstacle{}
	}
	o := predictBudget(pod, budget, nil).Obstacle
	if o.Kind == NoObstacle { // the eviction API would let go of the unready pod, but Karpenter does not ask it
		o.Kind = BudgetSpent
	}
	return o
}

// isKept reports whether the pod's annotation asks Karpenter to keep its node, and until when if it names a duration since the
// pod's start. Karpenter ignores other values (karpenter, utils/pod/scheduling.go, IsDoNotDisruptActive).
func isKept(pod *corev1.Pod, now time.Time) (kept bool, until time.Time) {
	value := pod.Annotations[AnnotationDoNotDisrupt]
	if value == "true" {
		return true, time.Time{}
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return false, time.Time{}
	}
	if pod.Status.StartTime == nil {
		return true, time.Time{}
	}
	until = pod.Status.StartTime.Add(d)
	return now.Before(until), until
}

// isUnready reports whether the pod's Ready condition is false.
func isUnready(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionFalse
}

// IsNodeKept reports whether the node's annotation asks Karpenter to keep it (karpenter, state/statenode.go).
func IsNodeKept(node *corev1.Node) bool { return node.Annotations[AnnotationDoNotDisrupt] == "true" }

// IsDisrupted reports whether Karpenter has chosen the node for a replacement, or drains it.
func IsDisrupted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&disrupted) })
}
