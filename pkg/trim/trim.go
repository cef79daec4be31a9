// Package trim removes from the objects of a cluster all fields that no plan and no upgrade needs,
// so that a cluster of many thousand pods fits in little memory. It changes the objects in place,
// so nothing else may use them yet.
package trim

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// Object trims one object, given as a pointer. For an unknown kind it trims only the metadata.
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

// trimWebhooks keeps the names of admission webhooks and of their services.
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

// trimControllerSpec keeps a controller's scale, its update strategy, and the fields of its
// template that decide where pods may go.
func trimControllerSpec(object any) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Strategy: o.Spec.Strategy, Paused: o.Spec.Paused}
		o.Status = appsv1.DeploymentStatus{}
	case *appsv1.ReplicaSet:
		template := corev1.PodTemplateSpec{}
		if o.Spec.Replicas == nil || *o.Spec.Replicas > 0 { // the many old ReplicaSets with 0 replicas create no pods
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

// trimReplicaSetStatus keeps the number of replicas and the condition that the controller fails to
// create pods.
func trimReplicaSetStatus(status *appsv1.ReplicaSetStatus) appsv1.ReplicaSetStatus {
	kept := appsv1.ReplicaSetStatus{Replicas: status.Replicas}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure {
			kept.Conditions = append(kept.Conditions, appsv1.ReplicaSetCondition{Type: c.Type, Status: c.Status})
		}
	}
	return kept
}

// trimClaimTemplates keeps the names, from which the names of the pods' claims are made.
func trimClaimTemplates(all []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	var kept []corev1.PersistentVolumeClaim
	for i := range all {
		kept = append(kept, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: all[i].Name}})
	}
	return kept
}

// trimPodTemplate keeps the same fields of a template as of a pod.
func trimPodTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	pod := corev1.Pod{Spec: t.Spec}
	trimPod(&pod)
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: t.Labels}, Spec: pod.Spec}
}

func trimMetadata(meta metav1.Object) {
	meta.SetManagedFields(nil)
	// Trimmed objects may share their annotations, and even deleting a missing key is a write.
	if annotations := meta.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
}

// trimPod keeps the pod's identity, placement, readiness and its own address. It also keeps the
// fields that decide where the pod may go, and how long it takes to start and to stop.
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
	if pod.Spec.HostNetwork { // it is the node's address
		address = ""
	}
	pod.Spec = spec
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Conditions: trimConditions(pod.Status.Conditions), StartTime: pod.Status.StartTime, PodIP: address,
		InitContainerStatuses: trimFaults(pod.Status.InitContainerStatuses), ContainerStatuses: trimFaults(pod.Status.ContainerStatuses),
	}
}

// trimFaults keeps the containers that wait for another reason than their normal start, with that
// reason. It also keeps the containers that were restarted, with the number of restarts.
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

// trimConditions keeps whether and since when the pod is ready, when or why not it was scheduled,
// and whether and when it was evicted.
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

// trimRequests returns one container with everything that the pod takes from a node: its requests
// and its ports. For a pod on a node these are the requests that the scheduler counts, which are
// higher than the spec's during a resize. It returns no container for a pod that requests nothing.
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

// trimPorts returns the ports that the pod takes from its node. Of the init containers only
// sidecars have any.
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

// trimPreStopHooks keeps the preStop hooks that may sleep, each in its own container.
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

// trimAffinity keeps the required terms. Preferred terms keep no pod from any node.
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

// trimSource keeps the CSI driver and the volume's handle. They are needed to count a node's
// attached volumes.
func trimSource(spec *corev1.PersistentVolumeSpec) corev1.PersistentVolumeSource {
	if spec.CSI == nil {
		return corev1.PersistentVolumeSource{}
	}
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: spec.CSI.Driver, VolumeHandle: spec.CSI.VolumeHandle}}
}
