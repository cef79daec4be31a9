package trim

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ForChecks trims one object, given as a pointer, to the fields that the rules of package preflight need. It keeps more than
// Object does: probes, ports, hooks, volumes, and container statuses.
func ForChecks(object any) {
	if ingress, ok := object.(*networkingv1.Ingress); ok { // the checks look at how it was applied
		ingress.SetManagedFields(nil)
		return
	}
	if meta, ok := object.(metav1.ObjectMetaAccessor); ok {
		trimMetadata(meta.GetObjectMeta())
	}
	switch o := object.(type) {
	case *corev1.Pod:
		trimPodForChecks(o)
	case *corev1.Node:
		o.Status.Images = nil
	case *corev1.Namespace:
		o.Spec = corev1.NamespaceSpec{}
	case *corev1.Service:
		o.Status = corev1.ServiceStatus{}
	case *corev1.PersistentVolume:
		o.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{}
	case *corev1.PersistentVolumeClaim:
		o.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: o.Spec.VolumeName, AccessModes: o.Spec.AccessModes}
	case *autoscalingv2.HorizontalPodAutoscaler:
		o.Spec.Metrics, o.Spec.Behavior, o.Status = nil, nil, autoscalingv2.HorizontalPodAutoscalerStatus{}
	default:
		trimTemplate(object)
	}
}

// ForPlans trims one object, given as a pointer, to the fields that rules and forecasts need. It keeps what ForChecks and Object
// keep.
func ForPlans(object any) {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		trimMetadata(o.GetObjectMeta())
		trimControllerSpec(o)
	case *appsv1.StatefulSet:
		template := trimPodTemplate(&o.Spec.Template)
		template.Annotations = o.Spec.Template.Annotations
		ForChecks(o)
		o.Spec.Template = template
	case *corev1.PersistentVolume:
		source := trimSource(&o.Spec)
		ForChecks(o)
		o.Spec.PersistentVolumeSource = source
	default:
		ForChecks(object)
	}
}

// trimTemplate drops a controller's pod template except its labels, annotations and node name. The pods show everything else.
func trimTemplate(object any) {
	labels := func(t *corev1.PodTemplateSpec) {
		*t = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations}, Spec: corev1.PodSpec{NodeName: t.Spec.NodeName}}
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		labels(&o.Spec.Template)
	case *appsv1.ReplicaSet:
		o.Spec, o.Status = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas}, trimReplicaSetStatus(&o.Status)
	case *appsv1.StatefulSet:
		labels(&o.Spec.Template)
		o.Spec.VolumeClaimTemplates = trimClaimTemplates(o.Spec.VolumeClaimTemplates)
	case *appsv1.DaemonSet:
		labels(&o.Spec.Template)
	case *batchv1.Job:
		labels(&o.Spec.Template)
	}
}

func trimPodForChecks(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	pod.Spec = corev1.PodSpec{
		NodeName: spec.NodeName, Tolerations: spec.Tolerations, NodeSelector: spec.NodeSelector, Affinity: spec.Affinity,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		Priority: spec.Priority, PriorityClassName: spec.PriorityClassName, PreemptionPolicy: spec.PreemptionPolicy, ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds,
		HostNetwork: spec.HostNetwork, HostPID: spec.HostPID, HostIPC: spec.HostIPC, HostUsers: spec.HostUsers, OS: spec.OS, SecurityContext: spec.SecurityContext, Overhead: spec.Overhead, Resources: spec.Resources,
		ReadinessGates: spec.ReadinessGates, ResourceClaims: spec.ResourceClaims, SchedulingGroup: spec.SchedulingGroup, RestartPolicy: spec.RestartPolicy,
		Containers: trimContainers(spec.Containers), InitContainers: trimContainers(spec.InitContainers), Volumes: trimVolumes(spec.Volumes),
	}
	pod.Status = corev1.PodStatus{
		Phase: status.Phase, StartTime: status.StartTime, PodIP: status.PodIP,
		Conditions: trimMessages(status.Conditions), ContainerStatuses: trimContainerStatuses(status.ContainerStatuses),
		InitContainerStatuses: trimFaults(status.InitContainerStatuses),
	}
}

// trimContainers keeps the containers' resources, ports, probes and hooks.
func trimContainers(all []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range all {
		c := &all[i]
		kept = append(kept, corev1.Container{
			Name: c.Name, Ports: c.Ports, Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}, RestartPolicy: c.RestartPolicy,
			LivenessProbe: c.LivenessProbe, ReadinessProbe: c.ReadinessProbe, StartupProbe: c.StartupProbe, Lifecycle: c.Lifecycle, SecurityContext: c.SecurityContext,
		})
	}
	return kept
}

// trimVolumes keeps the volumes that bind a pod to a place, whose content is lost with the pod, or that a pod security level may
// refuse.
func trimVolumes(all []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range all {
		source := &all[i].VolumeSource
		isOfAll := source.ConfigMap != nil || source.Secret != nil || source.Projected != nil || source.DownwardAPI != nil || source.CSI != nil || source.Image != nil
		if !isOfAll {
			kept = append(kept, corev1.Volume{Name: all[i].Name, VolumeSource: *source})
		}
	}
	return kept
}

// trimMessages removes the messages of all conditions except PodScheduled. That message says why no node takes the pod.
func trimMessages(all []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for i := range all {
		c := &all[i]
		short := corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			short.Message = c.Message
		}
		kept = append(kept, short)
	}
	return kept
}

// trimContainerStatuses keeps the containers' readiness, restart counts and waiting reasons.
func trimContainerStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range all {
		c := &all[i]
		status := corev1.ContainerStatus{Name: c.Name, Ready: c.Ready, RestartCount: c.RestartCount}
		if c.State.Waiting != nil {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.State.Waiting.Reason}
		}
		kept = append(kept, status)
	}
	return kept
}
