// Package trim takes from the objects of a cluster what no plan and no upgrade looks at, so that a
// cluster of many thousand pods fits in little memory. It changes the objects it is given, which
// must be no other actor's yet.
package trim

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// Object trims one object, given as a pointer. Of a kind that is not known here its metadata is all
// that is trimmed.
func Object(object any) {
	if meta, ok := object.(metav1.ObjectMetaAccessor); ok {
		trimMetadata(meta.GetObjectMeta())
	}
	switch o := object.(type) {
	case *corev1.Pod:
		trimPod(o)
	case *corev1.Node:
		o.Status.Images = nil
	case *corev1.Namespace:
		o.ObjectMeta = metav1.ObjectMeta{Name: o.Name, Labels: o.Labels, ResourceVersion: o.ResourceVersion}
	case *corev1.PersistentVolumeClaim:
		o.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: o.Spec.VolumeName, AccessModes: o.Spec.AccessModes}
		o.Status = corev1.PersistentVolumeClaimStatus{}
	case *corev1.PersistentVolume:
		o.Spec, o.Status = corev1.PersistentVolumeSpec{NodeAffinity: o.Spec.NodeAffinity, PersistentVolumeSource: trimSource(&o.Spec)}, corev1.PersistentVolumeStatus{}
	case *corev1.Service:
		o.Spec, o.Status = corev1.ServiceSpec{Selector: o.Spec.Selector, ExternalTrafficPolicy: o.Spec.ExternalTrafficPolicy}, corev1.ServiceStatus{}
	default:
		trimControllerSpec(object)
		trimWebhooks(object)
	}
}

// trimWebhooks keeps which services admission webhooks name.
func trimWebhooks(object any) {
	switch o := object.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			o.Webhooks[i] = admissionv1.MutatingWebhook{Name: o.Webhooks[i].Name, ClientConfig: admissionv1.WebhookClientConfig{Service: o.Webhooks[i].ClientConfig.Service}}
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			o.Webhooks[i] = admissionv1.ValidatingWebhook{Name: o.Webhooks[i].Name, ClientConfig: admissionv1.WebhookClientConfig{Service: o.Webhooks[i].ClientConfig.Service}}
		}
	}
}

// trimControllerSpec keeps a controller's scale, and the way in which it brings pods up.
func trimControllerSpec(object any) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Strategy: o.Spec.Strategy, Paused: o.Spec.Paused}
		o.Status = appsv1.DeploymentStatus{}
	case *appsv1.ReplicaSet:
		template := corev1.PodTemplateSpec{}
		if o.Spec.Replicas == nil || *o.Spec.Replicas > 0 { // the others, of which there are many, make no pods
			template = trimPodTemplate(&o.Spec.Template)
		}
		o.Spec, o.Status = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: template}, trimReplicaSetStatus(&o.Status)
	case *appsv1.StatefulSet:
		o.Spec = appsv1.StatefulSetSpec{
			Replicas: o.Spec.Replicas, PodManagementPolicy: o.Spec.PodManagementPolicy, UpdateStrategy: o.Spec.UpdateStrategy,
			Ordinals: o.Spec.Ordinals, Template: trimPodTemplate(&o.Spec.Template), VolumeClaimTemplates: trimClaimTemplates(o.Spec.VolumeClaimTemplates),
		}
		o.Status = appsv1.StatefulSetStatus{Replicas: o.Status.Replicas, CurrentRevision: o.Status.CurrentRevision, UpdateRevision: o.Status.UpdateRevision, CurrentReplicas: o.Status.CurrentReplicas}
	}
}

// trimReplicaSetStatus keeps whether the controller fails to create pods.
func trimReplicaSetStatus(status *appsv1.ReplicaSetStatus) appsv1.ReplicaSetStatus {
	kept := appsv1.ReplicaSetStatus{Replicas: status.Replicas}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure {
			kept.Conditions = append(kept.Conditions, appsv1.ReplicaSetCondition{Type: c.Type, Status: c.Status})
		}
	}
	return kept
}

// trimClaimTemplates keeps what the claims of a StatefulSet's pods are named after.
func trimClaimTemplates(all []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	var kept []corev1.PersistentVolumeClaim
	for i := range all {
		kept = append(kept, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: all[i].Name}})
	}
	return kept
}

// trimPodTemplate keeps of a template what is kept of pods.
func trimPodTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	pod := corev1.Pod{Spec: t.Spec}
	trimPod(&pod)
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: t.Labels}, Spec: pod.Spec}
}

func trimMetadata(meta metav1.Object) {
	meta.SetManagedFields(nil)
	// Trimmed objects may share their annotations, and even deleting what is not there is a write.
	if annotations := meta.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
}

// trimPod keeps identity, placement, readiness, an address of its own, what decides where the pod
// may go, and what tells how long it takes to come up and to leave.
func trimPod(pod *corev1.Pod) {
	spec := corev1.PodSpec{
		NodeName: pod.Spec.NodeName, Tolerations: pod.Spec.Tolerations, RestartPolicy: pod.Spec.RestartPolicy,
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds, Priority: pod.Spec.Priority,
		NodeSelector: pod.Spec.NodeSelector, Affinity: trimAffinity(pod.Spec.Affinity),
		PreemptionPolicy: pod.Spec.PreemptionPolicy, ResourceClaims: pod.Spec.ResourceClaims,
		Containers: append(trimRequests(pod), trimPreStopHooks(pod)...),
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
	address := pod.Status.PodIP
	if pod.Spec.HostNetwork { // its node's, and no address of its own
		address = ""
	}
	pod.Spec = spec
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Conditions: trimConditions(pod.Status.Conditions), StartTime: pod.Status.StartTime, PodIP: address,
		InitContainerStatuses: trimFaults(pod.Status.InitContainerStatuses), ContainerStatuses: trimFaults(pod.Status.ContainerStatuses),
	}
}

// trimFaults keeps the containers that wait for something else than their usual start, and why, and
// those that were started again, and how often.
func trimFaults(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range all {
		short := corev1.ContainerStatus{Name: all[i].Name, RestartCount: all[i].RestartCount}
		if waits := all[i].State.Waiting; waits != nil && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing" {
			short.State.Waiting = &corev1.ContainerStateWaiting{Reason: waits.Reason}
		}
		if short.State.Waiting != nil || short.RestartCount > 0 {
			kept = append(kept, short)
		}
	}
	return kept
}

// trimConditions keeps whether and since when the pod is ready, when it was bound to its node or
// why it is not, and whether and when it was evicted.
func trimConditions(all []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for i := range all {
		switch c := &all[i]; c.Type {
		case corev1.PodReady, corev1.PodScheduled:
			short := corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				short.Reason, short.Message = c.Reason, c.Message
			}
			kept = append(kept, short)
		case corev1.DisruptionTarget:
			kept = append(kept, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return kept
}

// trimRequests sums up in one container what the pod takes of a node: what it requests, and ports.
// Of a pod on a node it is what the scheduler counts there, which is more than its spec says while it
// is resized. There is no container for a pod that asks for nothing.
func trimRequests(pod *corev1.Pod) []corev1.Container {
	requests := corev1.ResourceList{}
	for name, quantity := range resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: pod.Spec.NodeName != ""}) {
		if !quantity.IsZero() {
			requests[name] = quantity
		}
	}
	ports := trimPorts(pod)
	if len(requests)+len(ports) == 0 {
		return nil
	}
	return []corev1.Container{{Name: "all", Ports: ports, Resources: corev1.ResourceRequirements{Requests: requests}}}
}

// trimPorts keeps the ports that the pod takes of its node. Of the init containers sidecars have
// any.
func trimPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var kept []corev1.ContainerPort
	keep := func(ports []corev1.ContainerPort) {
		for i := range ports {
			if p := &ports[i]; p.HostPort > 0 {
				kept = append(kept, corev1.ContainerPort{HostIP: p.HostIP, Protocol: p.Protocol, HostPort: p.HostPort})
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if policy := pod.Spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			keep(pod.Spec.InitContainers[i].Ports)
		}
	}
	for i := range pod.Spec.Containers {
		keep(pod.Spec.Containers[i].Ports)
	}
	return kept
}

// trimPreStopHooks keeps the preStop hooks that may sleep, a container each.
func trimPreStopHooks(pod *corev1.Pod) []corev1.Container {
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

// trimSource keeps by what a CSI driver knows the volume: nodes attach so many of them.
func trimSource(spec *corev1.PersistentVolumeSpec) corev1.PersistentVolumeSource {
	if spec.CSI == nil {
		return corev1.PersistentVolumeSource{}
	}
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: spec.CSI.Driver, VolumeHandle: spec.CSI.VolumeHandle}}
}
