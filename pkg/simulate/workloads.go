package simulate

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkloadsOf returns data about controllers, by UID. For a ReplicaSet of a Deployment, Replicas is the Deployment's
// scale. The disruption controller does the same (disruption.go, getPodDeployment).
func WorkloadsOf(deployments []*appsv1.Deployment, replicaSets []*appsv1.ReplicaSet, statefulSets []*appsv1.StatefulSet) map[types.UID]Workload {
	scales := make(map[types.UID]int32, len(deployments))
	for _, d := range deployments {
		scales[d.UID] = scaleOf(d.Spec.Replicas)
	}
	workloads := make(map[types.UID]Workload, len(replicaSets)+len(statefulSets))
	for _, set := range replicaSets {
		workload := Workload{Replicas: scaleOf(set.Spec.Replicas), Template: templateOf(&set.Spec.Template), NodeName: set.Spec.Template.Spec.NodeName, Pods: podsOfReplicaSet(set)}
		if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
			if replicas, known := scales[owner.UID]; known {
				workload.Replicas, workload.Of = replicas, owner.UID
			}
		}
		workloads[set.UID] = workload
	}
	for _, set := range statefulSets {
		workloads[set.UID] = Workload{
			Replicas: scaleOf(set.Spec.Replicas), Ordered: set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
			Template: templateOf(&set.Spec.Template), NodeName: set.Spec.Template.Spec.NodeName, Rollout: rolloutOf(set), Pods: podsOfStatefulSet(set),
		}
	}
	return workloads
}

// podsOfReplicaSet returns the pods that the set keeps. It returns nil while the set reports that it cannot create
// pods, because it is not known when that ends.
func podsOfReplicaSet(set *appsv1.ReplicaSet) *PodSet {
	for i := range set.Status.Conditions {
		if c := &set.Status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return &PodSet{Kind: replicaSet, Namespace: set.Namespace, Name: set.Name, Count: int(scaleOf(set.Spec.Replicas))}
}

func podsOfStatefulSet(set *appsv1.StatefulSet) *PodSet {
	pods := &PodSet{Kind: statefulSet, Namespace: set.Namespace, Name: set.Name, Count: int(scaleOf(set.Spec.Replicas)), First: firstOrdinal(set)}
	for i := range set.Spec.VolumeClaimTemplates {
		pods.Claims = append(pods.Claims, set.Spec.VolumeClaimTemplates[i].Name)
	}
	return pods
}

func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// templateOf returns the template, or nil if the template has no containers.
func templateOf(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if len(t.Spec.Containers) == 0 {
		return nil
	}
	return t
}

// rolloutOf returns the template that some pods of the set do not have yet, or nil (stateful_set_utils.go,
// newVersionedStatefulSetPod).
func rolloutOf(set *appsv1.StatefulSet) *Rollout {
	status, strategy, first := &set.Status, &set.Spec.UpdateStrategy, firstOrdinal(set)
	switch {
	case status.UpdateRevision == "" || status.UpdateRevision == status.CurrentRevision:
		return nil
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return &Rollout{Revision: status.UpdateRevision, From: first}
	case strategy.RollingUpdate != nil && strategy.RollingUpdate.Partition != nil && *strategy.RollingUpdate.Partition > 0:
		return &Rollout{Revision: status.UpdateRevision, From: first + int(*strategy.RollingUpdate.Partition)}
	default:
		return &Rollout{Revision: status.UpdateRevision, From: first + int(status.CurrentReplicas)}
	}
}

// scaleOf returns spec.replicas, which is 1 by default.
func scaleOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
