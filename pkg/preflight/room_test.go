package preflight

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestSharedContainersOfPodsAreSummedOnce compares the room of pods that share their containers with the resources that the
// scheduler counts for each pod.
func TestSharedContainersOfPodsAreSummedOnce(t *testing.T) {
	asking := func(cpu string) []corev1.Container {
		return []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	}
	shared, greedyInit := asking("1"), asking("3")
	pods := []corev1.PodSpec{
		{Containers: shared},
		{Containers: shared, InitContainers: greedyInit},
		{Containers: shared, InitContainers: greedyInit},
		{Containers: shared, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
		{Containers: shared, Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}},
		{Containers: asking("500m")},
		{Containers: shared},
	}
	wants := []int64{1000, 3000, 3000, 1250, 2000, 500, 1000}
	rooms := roomCounter{}
	for i := range pods {
		got := rooms.count(&corev1.Pod{Spec: pods[i]})
		if want := (room{cpu: wants[i], pods: 1}); got != want {
			t.Errorf("pod %d: %+v, want %+v", i, got, want)
		}
	}
	if len(rooms) != 3 {
		t.Errorf("%d rooms are kept, want 3: one for each set of containers that pods share", len(rooms))
	}
}
