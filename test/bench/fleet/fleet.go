// Package fleet makes realistic node groups of any size, to measure how the cost of a simulated upgrade grows. Each node has thirty
// pods, which belong to DaemonSets and to workloads of 1 to 100 replicas with many kinds of budgets or none.
package fleet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

const (
	// PodsPerNode is the number of pods on each node, including daemons.
	PodsPerNode = 30
	daemons     = 3
	// workloadsPerNamespace is how many workloads share a namespace.
	workloadsPerNamespace = 12
)

// StartTime returns the fixed time at which every fleet starts.
func StartTime() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// New returns a group of outdated nodes in three zones that are about half full. Equal sizes give equal fleets.
func New(nodes int) simulate.Spec {
	revision := nodegroup.Revision{ID: "2", Name: "fleet:2"}
	f := &fleet{spec: simulate.Spec{
		Now: StartTime(), Outdated: func(*corev1.Node) bool { return true }, Workloads: map[types.UID]simulate.Workload{},
		Group: nodegroup.Group{
			Name: "fleet", Provider: "aws", Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision,
			Desired: nodes, Max: nodes, Zones: []string{"a", "b", "c"},
		},
	}}
	for i := range nodes {
		f.addNode(i)
	}
	for left, w := nodes*(PodsPerNode-daemons), 0; left > 0; w++ {
		k := kinds()[w%len(kinds())]
		if k.replicas > left { // the last workload gets the remaining pods
			k.replicas, k.missing, k.needed = left, "1", ""
		}
		left -= k.replicas
		f.addWorkload(w, k)
	}
	return f.spec
}

// Request returns a request that replaces the fleet's nodes, inFlight at a time.
func Request(inFlight int) record.Request {
	span := func(d time.Duration) record.Duration { return record.Duration{Duration: d} }
	return record.Request{
		Group: "fleet", Run: "bench", Strategy: record.Surge, Like: "eks", MaxUnavailable: inFlight, Window: inFlight,
		Surge: max(6, inFlight), OnTimeout: record.Skip, DrainTimeout: span(time.Hour), Settle: span(30 * time.Second), BootTimeout: span(20 * time.Minute),
	}
}

type fleet struct {
	spec simulate.Spec
	// nextNode is the number of the node that gets the next pod.
	nextNode int
}

func (f *fleet) addNode(i int) {
	zone := f.spec.Group.Zones[i%len(f.spec.Group.Zones)]
	node := build.Node(fmt.Sprintf("node-%05d", i), zone)
	node.Labels[corev1.LabelHostname] = node.Name
	node.Spec.ProviderID = "sim:///" + zone + "/i-" + node.Name
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("58"),
	}
	f.spec.Nodes = append(f.spec.Nodes, node)
	f.spec.Group.Instances = append(f.spec.Group.Instances, nodegroup.Instance{ID: "i-" + node.Name, Zone: zone, State: nodegroup.InstanceInService, Outdated: true})
	for d := range daemons {
		name := fmt.Sprintf("daemon-%d", d)
		pod := build.Pod(name+"-"+node.Name, build.In("kube-system"), build.App(name), build.OwnedBy("DaemonSet", name), build.On(node.Name),
			withRequests("50m", "64Mi"), withStartTime(5*time.Second))
		f.spec.Pods = append(f.spec.Pods, pod)
	}
}

// kind describes a kind of workload.
type kind struct {
	replicas int
	owner    string
	// ready is how long its pods take to become ready. grace is their grace period.
	ready, grace time.Duration
	// missing is its budget's maxUnavailable, and needed its minAvailable. A workload with neither has no budget.
	missing, needed string
	// zones spreads its pods evenly over zones. hosts keeps its pods on different nodes.
	zones, hosts bool
}

// kinds returns the workloads in the order in which they repeat: 350 pods in twelve workloads.
func kinds() []kind {
	const replicaSet, statefulSet = "ReplicaSet", "StatefulSet"
	return []kind{
		{replicas: 30, owner: replicaSet, ready: 8 * time.Second, grace: 30 * time.Second, missing: "10%"},
		{replicas: 100, owner: replicaSet, ready: 20 * time.Second, grace: 60 * time.Second, missing: "25%", zones: true},
		{replicas: 10, owner: replicaSet, ready: 15 * time.Second, grace: 30 * time.Second, missing: "1"},
		{replicas: 25, owner: replicaSet, ready: 5 * time.Second, grace: 10 * time.Second},
		{replicas: 12, owner: statefulSet, ready: 30 * time.Second, grace: 120 * time.Second, missing: "1", hosts: true},
		{replicas: 50, owner: replicaSet, ready: 12 * time.Second, grace: 30 * time.Second, needed: "80%"},
		{replicas: 20, owner: replicaSet, ready: 45 * time.Second, grace: 30 * time.Second, needed: "90%", hosts: true},
		{replicas: 1, owner: replicaSet, ready: 10 * time.Second, grace: 30 * time.Second},
		{replicas: 40, owner: replicaSet, ready: 3 * time.Second, grace: 5 * time.Second, missing: "2"},
		{replicas: 10, owner: replicaSet, ready: 25 * time.Second, grace: 30 * time.Second, needed: "8", zones: true},
		{replicas: 2, owner: replicaSet, ready: 10 * time.Second, grace: 30 * time.Second, missing: "1"},
		{replicas: 50, owner: replicaSet, ready: 10 * time.Second, grace: 30 * time.Second, missing: "10%"},
	}
}

// addWorkload assigns the workload's pods to the nodes in turn, which spreads them over nodes and zones.
func (f *fleet) addWorkload(w int, k kind) {
	app, namespace := fmt.Sprintf("app-%05d", w), fmt.Sprintf("team-%04d", w/workloadsPerNamespace)
	f.spec.Workloads[types.UID(k.owner+"/"+app)] = simulate.Workload{Replicas: int32(k.replicas), Ordered: k.owner == "StatefulSet"}
	for i := range k.replicas {
		node := f.spec.Nodes[f.nextNode%len(f.spec.Nodes)].Name
		f.nextNode++
		pod := build.Pod(fmt.Sprintf("%s-%d", app, i), build.In(namespace), build.App(app), build.OwnedBy(k.owner, app), build.On(node),
			withRequests("150m", "512Mi"), withStartTime(k.ready), k.addConstraints)
		f.spec.Pods = append(f.spec.Pods, pod)
	}
	if budget := k.newBudget(app, namespace); budget != nil {
		f.spec.Budgets = append(f.spec.Budgets, budget)
	}
}

func (k *kind) addConstraints(pod *corev1.Pod) {
	seconds := int64(k.grace / time.Second)
	pod.Spec.TerminationGracePeriodSeconds = &seconds
	same := &metav1.LabelSelector{MatchLabels: pod.Labels}
	if k.zones {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same,
		}}
	}
	if k.hosts {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: same}},
		}}
	}
}

func (k *kind) newBudget(app, namespace string) *policyv1.PodDisruptionBudget {
	if k.missing+k.needed == "" {
		return nil
	}
	return build.Budget(app, func(b *policyv1.PodDisruptionBudget) {
		b.Namespace = namespace
		if k.missing != "" {
			missing := intstr.Parse(k.missing)
			b.Spec.MaxUnavailable = &missing
		} else {
			needed := intstr.Parse(k.needed)
			b.Spec.MinAvailable = &needed
		}
	})
}

func withRequests(cpu, memory string) func(*corev1.Pod) {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list}}}
	}
}

// withStartTime returns an option for a pod that started an hour ago and became ready after the given time.
func withStartTime(took time.Duration) func(*corev1.Pod) {
	at := StartTime().Add(-time.Hour)
	return func(pod *corev1.Pod) {
		pod.Status.StartTime = &metav1.Time{Time: at}
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: at.Add(took)}
	}
}
