package simulate_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// fleet is a group of so many outdated nodes in three zones, with thirty pods on each: workloads of thirty pods,
// most of them under a budget of a tenth, that take one to thirty seconds to become ready.
func fleet(nodes int) simulate.Spec {
	revision := upgrade.Revision{ID: "2", Name: "fleet:2"}
	spec := simulate.Spec{
		Now: start, Outdated: func(*corev1.Node) bool { return true },
		Group: upgrade.Group{
			Name: "fleet", Provider: "aws", Sized: true, Zonal: true, Wanted: revision, Pointed: revision,
			Desired: nodes, Max: nodes, Zones: []string{"a", "b", "c"},
		},
	}
	for i := range nodes {
		zone := spec.Group.Zones[i%3]
		node := build.Node(fmt.Sprintf("node-%04d", i), zone, allocatable("8", "32Gi", "58"))
		node.Labels[corev1.LabelHostname] = node.Name
		node.Spec.ProviderID = "sim:///" + zone + "/i-" + node.Name
		spec.Nodes = append(spec.Nodes, node)
		spec.Group.Instances = append(spec.Group.Instances, upgrade.Instance{ID: "i-" + node.Name, Zone: zone, State: upgrade.InstanceInService, Outdated: true})
	}
	for w := range nodes {
		app, namespace := fmt.Sprintf("app-%04d", w), fmt.Sprintf("team-%03d", w/10)
		for i := range 30 {
			// Pods of a workload are spread over the nodes, as a scheduler does.
			pod := build.Pod(fmt.Sprintf("%s-%d", app, i), build.App(app), build.On(spec.Nodes[(w*31+i*37)%nodes].Name), requests("200m", "512Mi"), build.In(namespace))
			pod.UID = types.UID(app + "/" + pod.Name)
			started(start.Add(-time.Hour), time.Duration(1+w%30)*time.Second)(pod)
			spec.Pods = append(spec.Pods, pod)
		}
		if w%5 != 0 {
			spec.Budgets = append(spec.Budgets, build.Budget(app, build.Counts(30, 30, 27), func(b *policyv1.PodDisruptionBudget) { b.Namespace = namespace }))
		}
	}
	return spec
}

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

// started says when the pod started and how long it took to become ready.
func started(at time.Time, took time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.StartTime = &metav1.Time{Time: at}
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: at.Add(took)}
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, unavailable := range []int{1, 10} {
		for _, nodes := range []int{100, 300, 1000, 3000} {
			b.Run(fmt.Sprintf("nodes=%d/max-unavailable=%d", nodes, unavailable), func(b *testing.B) {
				spec := fleet(nodes)
				req := request()
				req.Group, req.MaxUnavailable, req.Window, req.Surge = "fleet", unavailable, unavailable, 6
				for b.Loop() {
					timed := spec
					timed.Times, _ = simulate.Estimate(&spec)
					timed.Times.GoneLatest = nil // one run
					f, err := simulate.Predict(timed, req)
					if err != nil || f.Result != upgrade.Succeeded {
						b.Fatalf("it ends %q: %v", f.Result, err)
					}
				}
			})
		}
	}
}
