package dump

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ExampleGroup is the name of the Example's node group.
const ExampleGroup = "workers"

const exampleNodes = 12

// sample is one workload of the Example.
type sample struct {
	kind, namespace, name string
	replicas              int32
	// node is the first node with pods, counted from 0. share is how many pods are on a node, and
	// step the distance to the next node.
	node, share, step int
	// ready is how long a pod takes to become ready, grace its termination grace period.
	ready, grace time.Duration
	cpu, memory  string
	// spare is how many pods its budget allows to be evicted concurrently; negative without a
	// budget.
	spare int32
}

// sampleWorkloads returns a dozen typical workloads. Most of them move in a minute. The workload
// search/index starts slowly, and two of its pods share a node, so its budget delays the drain of
// that node.
func sampleWorkloads() []sample {
	const s, m = time.Second, time.Minute
	return []sample{
		{"ReplicaSet", "shop", "web", 9, 0, 1, 4, 8 * s, 30 * s, "500m", "512Mi", 3},
		{"ReplicaSet", "shop", "cart", 4, 1, 1, 3, 15 * s, 30 * s, "500m", "1Gi", 1},
		{"ReplicaSet", "shop", "checkout", 3, 2, 1, 4, 25 * s, 60 * s, "500m", "1Gi", 1},
		{"ReplicaSet", "shop", "catalog", 6, 3, 1, 5, 20 * s, 30 * s, "1", "2Gi", 2},
		{"ReplicaSet", "shop", "mailer", 2, 7, 1, 2, 5 * s, 30 * s, "100m", "128Mi", -1},
		{"StatefulSet", "search", "index", 5, 4, 2, 3, 4 * m, 2 * m, "1", "4Gi", 1},
		{"StatefulSet", "data", "postgres", 3, 1, 1, 1, 45 * s, 90 * s, "1", "4Gi", 1},
		{"StatefulSet", "data", "queue", 3, 6, 1, 1, 30 * s, 60 * s, "500m", "2Gi", 1},
		{"ReplicaSet", "ingress", "gateway", 3, 9, 1, 1, 10 * s, 60 * s, "250m", "256Mi", 1},
		{"ReplicaSet", "jobs", "worker", 8, 5, 1, 1, 5 * s, 5 * m, "1", "1Gi", 4},
		{"ReplicaSet", "monitoring", "metrics", 2, 10, 1, 6, 60 * s, 30 * s, "500m", "2Gi", -1},
		{"ReplicaSet", "kube-system", "coredns", 2, 0, 1, 1, 5 * s, 30 * s, "100m", "128Mi", 1},
	}
}

// Example returns a cluster for trying out the tool: twelve nodes of one self-managed group in
// three zones, a dozen workloads, and a DaemonSet. It is the same every time.
func Example() *Dump {
	d := &Dump{Taken: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Ignored: map[string]int{}}
	for i := range exampleNodes {
		node := exampleNode(d.Taken, i)
		d.Nodes = append(d.Nodes, node)
		d.Pods = append(d.Pods, exampleDaemon(d.Taken, node))
	}
	for _, s := range sampleWorkloads() {
		d.addSample(s)
	}
	return d
}

func exampleNode(taken time.Time, i int) *corev1.Node {
	zone := "us-east-1" + string("abc"[i%3])
	name := fmt.Sprintf("ip-10-0-%d-%d", i%3+1, 20+7*i)
	created := metav1.Time{Time: taken.Add(-41 * 24 * time.Hour)}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("3920m"), corev1.ResourceMemory: resource.MustParse("14Gi"), corev1.ResourcePods: resource.MustParse("58"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: makeUID(identity{kind: "Node", name: name}), CreationTimestamp: created,
			Labels: map[string]string{
				"alpha.eksctl.io/nodegroup-name": ExampleGroup,
				corev1.LabelTopologyZone:         zone, corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: "m7i.xlarge",
			},
		},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/i-0%015x", zone, i+1)},
		Status: corev1.NodeStatus{
			Allocatable: room, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.33.4"},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Time{Time: taken},
				LastTransitionTime: metav1.Time{Time: created.Add(35 * time.Second)},
			}},
		},
	}
}

// addSample adds a workload's pods, their controller, their volumes and their budget.
func (d *Dump) addSample(s sample) {
	owner := identity{kind: s.kind, namespace: s.namespace, name: s.name}
	labels := map[string]string{"app": s.name}
	meta := metav1.ObjectMeta{Name: s.name, Namespace: s.namespace, UID: makeUID(owner)}
	if s.kind == "StatefulSet" {
		d.StatefulSets = append(d.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &s.replicas}})
	} else {
		d.ReplicaSets = append(d.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &s.replicas}})
	}
	for i := range int(s.replicas) {
		node := d.Nodes[(s.node+i/s.share*s.step)%exampleNodes]
		pod := examplePod(d.Taken, node, owner, fmt.Sprintf("%s-%d", s.name, i))
		pod.Labels = labels
		d.Pods = append(d.Pods, s.fillPod(pod))
		if s.namespace == "data" {
			d.addVolume(pod, node)
		}
	}
	if s.spare < 0 {
		return
	}
	spare := intstr.FromInt32(s.spare)
	d.Budgets = append(d.Budgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace, UID: makeUID(identity{"PodDisruptionBudget", s.namespace, s.name}), Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &spare, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, ExpectedPods: s.replicas, CurrentHealthy: s.replicas,
			DesiredHealthy: s.replicas - s.spare, DisruptionsAllowed: s.spare,
		},
	})
}

func examplePod(taken time.Time, node *corev1.Node, owner identity, name string) *corev1.Pod {
	controller := true
	created := metav1.Time{Time: taken.Add(-72 * time.Hour)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: owner.namespace, UID: makeUID(identity{"Pod", owner.namespace, name}), CreationTimestamp: created,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner.kind, Name: owner.name, UID: makeUID(owner), Controller: &controller}},
		},
		Spec:   corev1.PodSpec{NodeName: node.Name, RestartPolicy: corev1.RestartPolicyAlways},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &created},
	}
}

// fillPod sets the pod's requests and the times that it takes to start and to stop.
func (s sample) fillPod(pod *corev1.Pod) *corev1.Pod {
	grace := int64(s.grace / time.Second)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Containers = []corev1.Container{{Name: s.name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(s.cpu), corev1.ResourceMemory: resource.MustParse(s.memory),
	}}}}
	pod.Status.Conditions = readySince(pod.Status.StartTime.Add(s.ready))
	return pod
}

func readySince(at time.Time) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at}}}
}

// addVolume gives the pod a disk that is reachable only from its node's zone.
func (d *Dump) addVolume(pod *corev1.Pod, node *corev1.Node) {
	claim := "data-" + pod.Name
	volume := "pv-" + pod.Name
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
	d.Claims = append(d.Claims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim, Namespace: pod.Namespace, UID: types.UID(claim)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
	})
	here := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Labels[corev1.LabelTopologyZone]}}
	d.Volumes = append(d.Volumes, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume, UID: types.UID(volume)},
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{here}}}},
		}},
	})
}

// exampleDaemon returns the node's pod of a DaemonSet.
func exampleDaemon(taken time.Time, node *corev1.Node) *corev1.Pod {
	pod := examplePod(taken, node, identity{"DaemonSet", "kube-system", "node-agent"}, "node-agent-"+node.Name)
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.Status.Conditions = readySince(pod.Status.StartTime.Add(3 * time.Second))
	return pod
}
