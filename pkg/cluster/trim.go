package cluster

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// trim is the informers' transform: it keeps of an object what upgrades look at, so that a
// cluster of many thousand pods fits in little memory. It changes the object, which nobody else has yet.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		trimPod(o)
	case *corev1.Node:
		trimMeta(&o.ObjectMeta)
		o.Status.Images = nil
	case *policyv1.PodDisruptionBudget:
		trimMeta(&o.ObjectMeta)
	case *corev1.Namespace:
		o.ObjectMeta = metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion}
	default:
		trimBackground(object)
	}
	return object, nil
}

func trimMeta(meta *metav1.ObjectMeta) {
	meta.ManagedFields = nil
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
}

// trimPod keeps identity, placement, readiness, what decides where the pod may go, and what tells how long it takes
// to come up and to leave.
func trimPod(pod *corev1.Pod) {
	trimMeta(&pod.ObjectMeta)
	spec := corev1.PodSpec{
		NodeName: pod.Spec.NodeName, Tolerations: pod.Spec.Tolerations,
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds, Priority: pod.Spec.Priority,
		NodeSelector: pod.Spec.NodeSelector, Affinity: trimAffinity(pod.Spec.Affinity),
		Containers: append(trimRequests(pod), trimHooks(pod)...),
	}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
			spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, constraint)
		}
	}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: pod.Spec.Volumes[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
		}
	}
	pod.Spec = spec
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, StartTime: pod.Status.StartTime}
}

// trimRequests sums the pod's requests of CPU and memory up in one container; none for a pod that asks for nothing.
func trimRequests(pod *corev1.Pod) []corev1.Container {
	sum := resource.PodRequests(pod, resource.PodResourcesOptions{})
	requests := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := sum[name]; ok && !quantity.IsZero() {
			requests[name] = quantity
		}
	}
	if len(requests) == 0 {
		return nil
	}
	return []corev1.Container{{Name: "all", Resources: corev1.ResourceRequirements{Requests: requests}}}
}

// trimHooks keeps the preStop hooks that may sleep, a container each.
func trimHooks(pod *corev1.Pod) []corev1.Container {
	var hooks []corev1.Container
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && (c.Lifecycle.PreStop.Sleep != nil || c.Lifecycle.PreStop.Exec != nil) {
			hooks = append(hooks, corev1.Container{Name: c.Name, Lifecycle: &corev1.Lifecycle{PreStop: c.Lifecycle.PreStop}})
		}
	}
	return hooks
}

// trimAffinity keeps what is required; what is only preferred keeps no pod from anywhere.
func trimAffinity(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity == nil {
		return nil
	}
	var kept corev1.Affinity
	if node := affinity.NodeAffinity; node != nil && node.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		kept.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: node.RequiredDuringSchedulingIgnoredDuringExecution}
	}
	if near := affinity.PodAffinity; near != nil && len(near.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		kept.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near.RequiredDuringSchedulingIgnoredDuringExecution}
	}
	if apart := affinity.PodAntiAffinity; apart != nil && len(apart.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		kept.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart.RequiredDuringSchedulingIgnoredDuringExecution}
	}
	if kept == (corev1.Affinity{}) {
		return nil
	}
	return &kept
}
