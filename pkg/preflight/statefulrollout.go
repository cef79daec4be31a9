package preflight

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// statefulRolloutRules returns the rules about how StatefulSets replace their pods.
func statefulRolloutRules() []Rule {
	return []Rule{
		{
			ID: "STR005", Severity: Warn, Reads: []string{"statefulsets"}, find: perWorkload(findPendingTemplate),
			Text:   "Some pods of a StatefulSet do not have its newest template yet. With updateStrategy OnDelete an evicted pod comes back with the newest template, so the node upgrade also upgrades the workload. With a partition, the pods below it keep their old template, so the upgrade moves pods of two versions.",
			Source: "pkg/controller/statefulset/stateful_set_utils.go, newVersionedStatefulSetPod; cloud-on-k8s#1173",
		},
	}
}

// findPendingTemplate implements rule STR005.
func findPendingTemplate(_ *Scene, w *Workload) *Finding {
	if w.StatefulSet == nil {
		return nil
	}
	status, strategy := &w.StatefulSet.Status, &w.StatefulSet.Spec.UpdateStrategy
	if status.UpdateRevision == "" || status.UpdateRevision == status.CurrentRevision {
		return nil
	}
	old := 0
	for _, pod := range w.Leaving {
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] != status.UpdateRevision {
			old++
		}
	}
	undo := shell.Command("kubectl rollout undo "+shell.Option("-n", w.Namespace), "statefulset/"+w.Name)
	switch {
	case old == 0:
		return nil
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return &Finding{
			Message: fmt.Sprintf("its updateStrategy is OnDelete, and %s without its newest template (%s) must move: each eviction also updates the pod", formatCount(old, "pod"), status.UpdateRevision),
			Remedy:  "roll the template out before the upgrade, one pod at a time, or undo it with " + undo,
		}
	case partitionOf(strategy) > 0:
		return &Finding{
			Message: fmt.Sprintf("its rollout stops at partition %s: %s with an older template must move, while others have the newest (%s)", strconv.Itoa(partitionOf(strategy)), formatCount(old, "pod"), status.UpdateRevision),
			Remedy:  "finish the rollout before the upgrade, or undo it with " + undo,
		}
	default:
		return nil
	}
}

// partitionOf returns the ordinal from which a rollout replaces pods.
func partitionOf(s *appsv1.StatefulSetUpdateStrategy) int {
	if s.RollingUpdate == nil || s.RollingUpdate.Partition == nil {
		return 0
	}
	return int(*s.RollingUpdate.Partition)
}
