package main

import (
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// scenarios returns all scenarios, by topic.
func scenarios(seed uint64) []scenario {
	return slices.Concat(failingManagedScenario(), poolScenarios(), windowScenarios(), strategyScenarios(), budgetScenarios(), randomScenarios(seed), workloadScenarios(), timeoutScenarios(), unschedulableScenarios(), webhookScenarios(), missingPodScenarios(), managedScenarios())
}

// windowScenarios returns scenarios about the number of nodes in flight.
func windowScenarios() []scenario {
	return []scenario{
		{
			name: "two zones with surge", nodes: 6, zones: []string{zoneA, zoneB},
			workloads: []fixture.Workload{withBudget(withKnownTermination("web", 8, 4*second, 4*second), "2"), withKnownTermination("job", 4, 2*second, 6*second)},
			flags:     []string{"--settle=4s"},
		},
		{
			name: "no budgets two at once", nodes: 8,
			workloads: []fixture.Workload{withKnownTermination("web", 16, 2*second, 9*second), withKnownTermination("job", 8, 3*second, 5*second)},
			flags:     []string{"--settle=1s", "--max-unavailable=2"},
		},
		{
			name: "batch barrier", nodes: 8,
			workloads: []fixture.Workload{withKnownTermination("quick", 10, 2*second, 3*second), withKnownTermination("slow", 4, 2*second, 16*second), withKnownTermination("slower", 2, 2*second, 24*second)},
			flags:     []string{"--settle=1s", "--max-unavailable=4", "--batch-barrier"},
		},
	}
}

// strategyScenarios returns scenarios with other strategies than a surge of the whole group (GKE G14, G40).
func strategyScenarios() []scenario {
	workloads := []fixture.Workload{withBudget(withKnownTermination("web", 8, 4*second, 4*second), "2"), withKnownTermination("job", 4, 2*second, 6*second)}
	return []scenario{
		{
			name: "blue-green with soaks", nodes: 6, zones: []string{zoneA, zoneB}, workloads: workloads,
			flags: []string{"--strategy=blue-green", "--batch=2", "--batch-soak=4s", "--soak=15s"},
		},
		{
			name: "surge zone by zone", nodes: 6, zones: []string{zoneA, zoneB}, workloads: workloads,
			flags: []string{"--like=gke", "--max-unavailable=1", "--settle=4s"},
		},
	}
}

// budgetScenarios returns scenarios in which pods must wait for each other because of their budgets.
func budgetScenarios() []scenario {
	majority := withKnownTermination("quorum", 10, 9*second, 8*second)
	majority.MinAvailable = "80%"
	// Pods take longer to terminate than to start. Otherwise the result would depend on which of two nodes is started a moment
	// earlier.
	shared := append(copyWorkload(4, withBudget(withKnownTermination("api", 6, 3*second, 9*second), "1")), copyWorkload(3, withBudget(withKnownTermination("web", 5, 2*second, 7*second), "2"))...)
	return []scenario{
		{
			name: "one tight budget", nodes: 6,
			workloads: []fixture.Workload{withBudget(withKnownTermination("web", 10, 7*second, 3*second), "1")},
			flags:     []string{"--settle=1s"},
		},
		{
			name: "min available in percent", nodes: 5,
			workloads: []fixture.Workload{majority},
			flags:     []string{"--settle=2s"},
		},
		{
			name: "shared budgets three at once", nodes: 9, workloads: shared,
			flags: []string{"--settle=1s", "--max-unavailable=3"},
		},
	}
}

// randomScenarios returns scenarios in which pods take a random time to terminate.
func randomScenarios(seed uint64) []scenario {
	return []scenario{
		{
			name: "random ends and budgets", nodes: 6, random: true,
			workloads: withRandomTermination(seed, 20*second, copyWorkload(6, withBudget(fixture.Workload{Name: "web", Replicas: 3, Ready: 3 * second}, "1"))),
			flags:     []string{"--settle=1s", "--max-unavailable=2"},
		},
		{
			name: "random ends without budgets", nodes: 6, random: true,
			workloads: withRandomTermination(seed, 20*second, copyWorkload(12, fixture.Workload{Name: "web", Replicas: 2, Ready: 2 * second})),
			flags:     []string{"--settle=1s", "--max-unavailable=2"},
		},
	}
}

// workloadScenarios returns scenarios with several kinds of workloads.
func workloadScenarios() []scenario {
	ordered := withKnownTermination("db", 7, 4*second, 3*second)
	ordered.Kind, ordered.Ordered, ordered.MaxUnavailable = "StatefulSet", true, "1"
	return []scenario{
		{
			name: "stateful set in order", nodes: 4,
			workloads: []fixture.Workload{ordered},
			flags:     []string{"--settle=1s"},
		},
		{
			name: "singletons", nodes: 5,
			workloads: append(copyWorkload(6, withKnownTermination("one", 1, 3*second, 6*second)), copyWorkload(4, withBudget(withKnownTermination("guarded", 1, 3*second, 8*second), "1"))...),
			flags:     []string{"--settle=1s"},
		},
		{
			name: "the whole grace period", nodes: 3,
			workloads: []fixture.Workload{withKnownTermination("slow", 3, 2*second, 10*second)},
			flags:     []string{"--settle=0s"},
		},
	}
}

// timeoutScenarios returns scenarios with nodes that are not empty in time.
func timeoutScenarios() []scenario {
	zonal := withKnownTermination("db", 4, 3*second, 4*second)
	zonal.Kind, zonal.MaxUnavailable, zonal.Disks = "StatefulSet", "1", []string{zoneA, zoneB}
	blocked := []fixture.Workload{withKnownTermination("web", 8, 2*second, 7*second), withBudget(withKnownTermination("stubborn", 1, second, second), "0")}
	return []scenario{
		{
			name: "skip a blocked node", nodes: 4, code: 4, workloads: blocked,
			flags: []string{"--settle=1s", "--on-timeout=skip", "--drain-timeout=20s"},
		},
		{
			name: "force a blocked node", nodes: 4, workloads: blocked,
			flags: []string{"--settle=1s", "--on-timeout=force", "--drain-timeout=20s"},
		},
		{
			name: "volumes in a zone without nodes", nodes: 4, code: 1, newZone: zoneB, // one of the pods fits no node
			workloads: []fixture.Workload{zonal, withKnownTermination("web", 4, 2*second, 5*second)},
			flags:     []string{"--settle=1s", "--on-timeout=skip", "--drain-timeout=12s"},
		},
	}
}

// unschedulableScenarios returns scenarios with pods that do not fit the current nodes. The upgrade stops because of these pods.
func unschedulableScenarios() []scenario {
	const device, disk = corev1.ResourceName("nvidia.com/gpu"), corev1.ResourceEphemeralStorage
	asking := func(name corev1.ResourceName, amount string) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) {
			requests := spec.Containers[0].Resources.Requests
			requests[name] = resource.MustParse(amount)
			spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(amount)}
		}
	}
	having := func(name corev1.ResourceName, amount string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(amount)}
	}
	changed := func(w fixture.Workload, change func(*corev1.PodSpec)) fixture.Workload { w.Change = change; return w }
	port := func(spec *corev1.PodSpec) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	}
	other := withKnownTermination("web", 4, 2*second, 5*second)
	return []scenario{
		{
			name: "devices that no new node has", nodes: 3, code: 1, oldResources: having(device, "1"), flags: []string{"--settle=1s"},
			workloads: []fixture.Workload{changed(withKnownTermination("train", 3, 2*second, 3*second), asking(device, "1")), other},
		},
		{
			name: "new nodes with less disk", nodes: 3, code: 1, oldResources: having(disk, "100Gi"), newResources: having(disk, "20Gi"), flags: []string{"--settle=1s"},
			workloads: []fixture.Workload{changed(withKnownTermination("cache", 3, 2*second, 3*second), asking(disk, "50Gi")), other},
		},
		{
			name: "an ignored workload without room", nodes: 3, oldResources: having(disk, "100Gi"), newResources: having(disk, "20Gi"), flags: []string{"--settle=1s", "--ignore-unready=*"},
			workloads: []fixture.Workload{changed(withKnownTermination("cache", 3, 2*second, 3*second), asking(disk, "50Gi")), other},
		},
		{
			name: "an ignored workload with a budget", nodes: 3, code: 1, oldResources: having(disk, "100Gi"), newResources: having(disk, "20Gi"), flags: []string{"--settle=1s", "--ignore-unready=*", "--drain-timeout=12s"},
			workloads: []fixture.Workload{withBudget(changed(withKnownTermination("cache", 3, 2*second, 3*second), asking(disk, "50Gi")), "1"), other},
		},
		{
			name: "a host port too few", nodes: 3, code: 1, missingNewNodes: 1, flags: []string{"--settle=1s"},
			workloads: []fixture.Workload{changed(withKnownTermination("edge", 3, 2*second, 3*second), port), other},
		},
		{
			name: "pods that take longer than a node has", nodes: 3, code: 1, flags: []string{"--settle=1s", "--drain-timeout=8s"},
			workloads: []fixture.Workload{withKnownTermination("slow", 3, 2*second, 20*second)},
		},
	}
}

// webhookScenarios returns scenarios with a webhook that does not answer.
func webhookScenarios() []scenario {
	return []scenario{
		{
			name: "a silent webhook for evictions", nodes: 3, code: 1, silentWebhook: "pods/eviction", flags: []string{"--settle=1s", "--drain-timeout=40s"},
			workloads: []fixture.Workload{withKnownTermination("web", 4, 2*second, 5*second)},
		},
		{
			name: "a silent webhook for pods", nodes: 3, code: 1, silentWebhook: "pods", flags: []string{"--settle=1s"},
			workloads: []fixture.Workload{withKnownTermination("web", 4, 2*second, 5*second)},
		},
	}
}

// missingPodScenarios returns scenarios in which pods are missing, or fill the current nodes, when the upgrade begins.
func missingPodScenarios() []scenario {
	lacking := withBudget(withKnownTermination("db", 4, 6*second, 8*second), "1")
	lacking.Kind = "StatefulSet"
	filling := withKnownTermination("filler", 3, second, 2*second)
	filling.CPU = "3800m"
	return []scenario{
		{
			name: "a pod missing at the start", nodes: 4, deletedPod: "db-0", flags: []string{"--settle=1s"},
			workloads: []fixture.Workload{lacking, withKnownTermination("web", 4, 2*second, 5*second)},
		},
		{
			name: "placeholders that are preempted", nodes: 3, placeholders: []fixture.Workload{filling}, flags: []string{"--settle=1s"},
			workloads: []fixture.Workload{withKnownTermination("web", 6, 3*second, 6*second)},
		},
	}
}

// failingManagedScenario returns a scenario in which EKS cannot drain a node. It takes as long as all others together, so it comes
// first.
func failingManagedScenario() []scenario {
	return []scenario{{
		name: "managed gives up", nodes: 2, zones: []string{zoneA}, managed: true, width: 1, code: 1, flags: []string{"--skip-check=PDB001"},
		workloads: []fixture.Workload{withBudget(withKnownTermination("stubborn", 2, second, second), "0")},
	}}
}

// managedScenarios returns scenarios in which EKS runs the upgrade.
func managedScenarios() []scenario {
	const minimal = ekstypes.NodegroupUpdateStrategiesMinimal
	all := []scenario{
		{
			name: "managed default", nodes: 2, zones: []string{zoneA},
			workloads: []fixture.Workload{withBudget(withKnownTermination("web", 4, 4*second, 4*second), "2"), withKnownTermination("job", 2, 2*second, 6*second)},
		},
		{
			name: "managed default two at once", nodes: 4, zones: []string{zoneA, zoneB}, width: 2,
			workloads: []fixture.Workload{withBudget(withKnownTermination("web", 8, 3*second, 5*second), "3"), withKnownTermination("job", 4, 2*second, 8*second)},
		},
		{
			name: "managed minimal", nodes: 3, zones: []string{zoneA, zoneB}, strategy: minimal,
			workloads: []fixture.Workload{withBudget(withKnownTermination("web", 6, 4*second, 4*second), "2")},
		},
		{
			name: "managed minimal two at once", nodes: 4, zones: []string{zoneA, zoneB}, strategy: minimal, width: 2,
			workloads: []fixture.Workload{withBudget(withKnownTermination("web", 8, 3*second, 6*second), "4"), withKnownTermination("job", 4, 2*second, 5*second)},
		},
		{
			name: "managed grace period", nodes: 2, zones: []string{zoneB}, strategy: minimal, width: 2,
			workloads: []fixture.Workload{withKnownTermination("slow", 4, 3*second, 12*second)},
		},
		{
			name: "managed blocked for a while", nodes: 2, zones: []string{zoneA, zoneB},
			workloads: []fixture.Workload{withBudget(withKnownTermination("tight", 4, 15*second, 5*second), "1")},
		},
	}
	for i := range all {
		all[i].managed, all[i].width = true, max(1, all[i].width)
	}
	return all
}
