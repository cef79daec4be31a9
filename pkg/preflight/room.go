package preflight

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// room is the resources of pods on nodes: thousandths of a CPU, bytes of memory, and the number of
// pods.
type room struct{ cpu, memory, pods int64 }

func (r *room) add(other room) {
	r.cpu, r.memory, r.pods = r.cpu+other.cpu, r.memory+other.memory, r.pods+other.pods
}

func (r *room) subtract(other room) {
	r.cpu, r.memory, r.pods = r.cpu-other.cpu, r.memory-other.memory, r.pods-other.pods
}

func roomOfResourceList(list corev1.ResourceList) room {
	return room{cpu: fit.MilliCPU(list.Cpu()), memory: fit.Bytes(list.Memory()), pods: list.Pods().Value()}
}

// describeShortage returns the resources of which there is too little, as "3 CPU (1 free)".
func (r room) describeShortage(free room) []string {
	var lacking []string
	if r.cpu > free.cpu {
		lacking = append(lacking, fmt.Sprintf("%s CPU (%s free)", formatCPU(r.cpu), formatCPU(free.cpu)))
	}
	if r.memory > free.memory {
		lacking = append(lacking, fmt.Sprintf("%s of memory (%s free)", formatMemory(r.memory), formatMemory(free.memory)))
	}
	if r.pods > free.pods {
		lacking = append(lacking, fmt.Sprintf("room for %s (%d free)", formatCount(int(r.pods), "pod"), max(0, free.pods)))
	}
	return lacking
}

func formatCPU(milli int64) string { return fmt.Sprintf("%.4g", float64(max(0, milli))/1000) }

func formatMemory(bytes int64) string { return fmt.Sprintf("%.4gGi", float64(max(0, bytes))/(1<<30)) }

// roomCounter caches the resources that the scheduler counts for a pod, once for all pods that
// share their containers. Pods of one controller do; see trim.Sharer.
type roomCounter map[sharedContainers]room

// sharedContainers identifies pods that share their containers, by the first ones.
type sharedContainers struct{ main, init *corev1.Container }

func (c roomCounter) count(pod *corev1.Pod) room {
	spec := &pod.Spec
	if len(spec.Containers) == 0 || spec.Resources != nil || len(spec.Overhead) > 0 {
		return countRoom(pod)
	}
	key := sharedContainers{main: &spec.Containers[0]}
	if len(spec.InitContainers) > 0 {
		key.init = &spec.InitContainers[0]
	}
	r, known := c[key]
	if !known {
		r = countRoom(pod)
		c[key] = r
	}
	return r
}

func countRoom(pod *corev1.Pod) room {
	requests := helpers.PodRequests(pod, helpers.PodResourcesOptions{})
	return room{cpu: fit.MilliCPU(requests.Cpu()), memory: fit.Bytes(requests.Memory()), pods: 1}
}

// hasPodEnded reports whether the pod has ended, so that it uses no resources.
func hasPodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
