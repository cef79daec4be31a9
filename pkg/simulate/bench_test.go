package simulate_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/bench/fleet"
)

func allocatable(cpu, memory, pods string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse(pods),
		}
	}
}

func requests(cpu, memory string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}}
	}
}

// started sets when the pod started and how long it took to become ready.
func started(at time.Time, took time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.StartTime = &metav1.Time{Time: at}
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: at.Add(took)}
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, unavailable := range []int{1, 20} {
		for _, nodes := range []int{100, 300} { // test/bench measures larger ones
			b.Run(fmt.Sprintf("nodes=%d/max-unavailable=%d", nodes, unavailable), func(b *testing.B) {
				spec := fleet.New(nodes)
				b.ReportAllocs()
				for b.Loop() {
					timed := spec
					timed.Times, _ = simulate.Estimate(&spec)
					f, err := simulate.Predict(b.Context(), timed, fleet.Request(unavailable))
					if err != nil || f.Slow.Result != record.Succeeded {
						b.Fatalf("it ends %q: %v", f.Slow.Result, err)
					}
				}
			})
		}
	}
}
