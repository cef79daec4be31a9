package trim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTrimPodKeepsForecastFields checks that trim keeps exactly the fields that a forecast needs.
func TestTrimPodKeepsForecastFields(t *testing.T) {
	asks := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), "nvidia.com/gpu": resource.MustParse("1")}}
	}
	began := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname}
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			NodeSelector:   map[string]string{"disk": "ssd"},
			InitContainers: []corev1.Container{{Name: "init", Resources: asks("3")}},
			Containers: []corev1.Container{
				{Name: "app", Image: "app:1", Resources: asks("1"), Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 15}}}},
				{Name: "side", Env: []corev1.EnvVar{{Name: "A"}}, Resources: asks("500m")},
			},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}},
			}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}, {WhenUnsatisfiable: corev1.DoNotSchedule}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, PodIP: "10.0.0.1"},
	}
	trimPod(pod)
	spec := &pod.Spec
	if cpu := spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "3" || len(spec.InitContainers) > 0 {
		t.Errorf("it asks for %s CPU, want those of its init container, 3", cpu)
	}
	if len(spec.Containers) != 2 || spec.Containers[1].Lifecycle.PreStop.Sleep.Seconds != 15 || spec.Containers[1].Image != "" {
		t.Errorf("containers: %+v", spec.Containers)
	}
	if spec.NodeSelector["disk"] != "ssd" || !pod.Status.StartTime.Equal(&began) || pod.Status.PodIP != "10.0.0.1" {
		t.Errorf("selector %v, status %+v", spec.NodeSelector, pod.Status)
	}
	if a := spec.Affinity.PodAntiAffinity; len(a.RequiredDuringSchedulingIgnoredDuringExecution) != 1 || len(a.PreferredDuringSchedulingIgnoredDuringExecution) != 0 {
		t.Errorf("anti-affinity: %+v", a)
	}
	if len(spec.TopologySpreadConstraints) != 1 {
		t.Errorf("spread: %+v", spec.TopologySpreadConstraints)
	}
}

func TestTrimmedPodWithoutRequestsHasNoContainers(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Image: "app:1"}},
		Affinity:   &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}},
	}}
	trimPod(pod)
	if pod.Spec.Affinity != nil || len(pod.Spec.Containers) != 0 {
		t.Errorf("left: %+v", pod.Spec)
	}
}

// TestTrimmedHostNetworkPodHasNoAddress checks that a pod in its node's network has no address of its
// own (NG004).
func TestTrimmedHostNetworkPodHasNoAddress(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
	trimPod(pod)
	if pod.Status.PodIP != "" {
		t.Errorf("kept the address %s", pod.Status.PodIP)
	}
}
