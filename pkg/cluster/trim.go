package cluster

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	}
	return object, nil
}

func trimMeta(meta *metav1.ObjectMeta) {
	meta.ManagedFields = nil
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
}

// trimPod keeps identity, placement, readiness and what decides where the pod may go.
func trimPod(pod *corev1.Pod) {
	trimMeta(&pod.ObjectMeta)
	spec := corev1.PodSpec{
		NodeName: pod.Spec.NodeName, Tolerations: pod.Spec.Tolerations,
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds, Priority: pod.Spec.Priority,
	}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: pod.Spec.Volumes[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
		}
	}
	pod.Spec = spec
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions}
}
