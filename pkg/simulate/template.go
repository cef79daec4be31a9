package simulate

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// newSuccessor returns the pod that replaces another, according to its controller's template if that is known. Only
// the running pod shows what admission adds to a template, such as containers. Only the template shows what an
// in-place resize has reduced. So the new pod requests the larger of the two.
func (l *podLifecycle) newSuccessor(u *simPod) *simPod {
	next := newSuccessor(u, l.clock.now, l.clock.nextSerial())
	workload := l.sets.workloads[u.key.owner]
	switch rollout := workload.Rollout; {
	case workload.Template == nil:
		return next
	case rollout != nil && ordinalOf(u.pod) >= rollout.From && u.pod.Labels[appsv1.ControllerRevisionHashLabelKey] != rollout.Revision:
		next.applyTemplate(workload.Template, rollout.Revision)
	default:
		wanted := fit.RequestsOf(&corev1.Pod{Spec: workload.Template.Spec})
		larger := u.key.needs.Requests.Max(&wanted)
		if larger.Equal(&u.key.needs.Requests) {
			return next
		}
		next.setRequests(&larger)
	}
	next.key = l.index.schedulingKeyOf(next.pod)
	next.budgets = l.budgets.index.Covering(next.pod)
	return next
}

// applyTemplate creates the pod from a template that its predecessor did not have. It keeps the labels that the StatefulSet
// sets.
func (u *simPod) applyTemplate(template *corev1.PodTemplateSpec, revision string) {
	labels := maps.Clone(u.pod.Labels)
	maps.Copy(labels, template.Labels)
	labels[appsv1.ControllerRevisionHashLabelKey] = revision
	spec := template.Spec
	spec.Volumes, spec.Priority = slices.Clone(u.pod.Spec.Volumes), u.pod.Spec.Priority // claims belong to the pod, and admission sets the priority
	u.pod.Labels, u.pod.Spec = labels, spec
}

// setRequests sets the total requests of the pod's containers.
func (u *simPod) setRequests(all *fit.Resources) {
	containers := []corev1.Container{{Name: "all", Ports: hostPorts(u.pod), Resources: corev1.ResourceRequirements{Requests: all.List()}}}
	for _, c := range u.pod.Spec.Containers {
		c.Resources, c.Ports = corev1.ResourceRequirements{}, nil
		containers = append(containers, c)
	}
	u.pod.Spec.Containers, u.pod.Spec.InitContainers, u.pod.Spec.Overhead, u.pod.Spec.Resources = containers, nil, nil, nil
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, p := range fit.PortsOf(pod) {
		ports = append(ports, corev1.ContainerPort{HostIP: p.IP, Protocol: p.Protocol, HostPort: p.Number})
	}
	return ports
}
