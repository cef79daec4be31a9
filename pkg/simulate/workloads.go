package simulate

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkloadsOf are the scales of controllers, by UID. A Deployment's stands for those of its
// ReplicaSets, as it does for the disruption controller (disruption.go, getPodDeployment).
func WorkloadsOf(deployments []*appsv1.Deployment, replicaSets []*appsv1.ReplicaSet, statefulSets []*appsv1.StatefulSet) map[types.UID]Workload {
	scales := make(map[types.UID]int32, len(deployments))
	for _, d := range deployments {
		scales[d.UID] = scaleOf(d.Spec.Replicas)
	}
	workloads := make(map[types.UID]Workload, len(replicaSets)+len(statefulSets))
	for _, set := range replicaSets {
		workload := Workload{Replicas: scaleOf(set.Spec.Replicas)}
		if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
			if replicas, known := scales[owner.UID]; known {
				workload = Workload{Replicas: replicas, Of: owner.UID}
			}
		}
		workloads[set.UID] = workload
	}
	for _, set := range statefulSets {
		workloads[set.UID] = Workload{
			Replicas: scaleOf(set.Spec.Replicas), Ordered: set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		}
	}
	return workloads
}

// scaleOf is spec.replicas, which is 1 where it is not written.
func scaleOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
