package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Start returns the creation time of all objects whose manifest has none.
func Start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// cluster contains the objects that are made from manifests.
type cluster struct {
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	budgets []*policyv1.PodDisruptionBudget
	others  []runtime.Object
	// scales are the replicas of controllers that own pods, by UID.
	scales map[types.UID]int32
}

func newCluster(manifests []runtime.Object) *cluster {
	c := &cluster{scales: map[types.UID]int32{}}
	for _, object := range manifests {
		if node, ok := object.(*corev1.Node); ok {
			c.nodes = append(c.nodes, node)
		}
	}
	if len(c.nodes) == 0 {
		for _, name := range splitNodes(Nodes) {
			c.nodes = append(c.nodes, makeNode(name))
		}
	}
	for _, object := range manifests {
		c.add(object)
	}
	for _, budget := range c.budgets {
		if budget.Status.ObservedGeneration == 0 && budget.Generation == 0 {
			c.computeStatus(budget)
		}
	}
	return c
}

func (c *cluster) objects() []runtime.Object {
	all := slices.Clone(c.others)
	for _, node := range c.nodes {
		all = append(all, node)
	}
	for _, pod := range c.pods {
		all = append(all, pod)
	}
	for _, budget := range c.budgets {
		all = append(all, budget)
	}
	return all
}

// makeNode returns a node with 8 CPUs. The beginning of its name determines whether it is outdated, the last letter its zone.
func makeNode(name string) *corev1.Node {
	image := "v2"
	if name[:3] == "old" {
		image = "v1"
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(Start()), Labels: map[string]string{
		"pool": "workers", "image": image, corev1.LabelOSStable: "linux", corev1.LabelHostname: name, corev1.LabelTopologyZone: name[len(name)-1:],
	}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func (c *cluster) add(object runtime.Object) {
	if meta, ok := object.(metav1.Object); ok {
		meta.SetUID(cmp.Or(meta.GetUID(), types.UID(fmt.Sprintf("%T/%s/%s", object, meta.GetNamespace(), meta.GetName()))))
		if meta.GetCreationTimestamp().Time.IsZero() {
			meta.SetCreationTimestamp(metav1.NewTime(Start()))
		}
	}
	switch o := object.(type) {
	case *corev1.Node:
		return
	case *corev1.Pod:
		c.addPod(o)
		return
	case *policyv1.PodDisruptionBudget:
		c.budgets = append(c.budgets, o)
		return
	case *appsv1.Deployment:
		c.addDeployment(o)
	case *appsv1.StatefulSet:
		c.run(o, "StatefulSet", scaleOf(o.Spec.Replicas), &o.Spec.Template, nil)
	case *appsv1.DaemonSet:
		c.run(o, "DaemonSet", int32(len(c.nodes)), &o.Spec.Template, nil)
	case *batchv1.Job:
		c.run(o, "Job", scaleOf(o.Spec.Parallelism), &o.Spec.Template, nil)
	}
	c.others = append(c.others, object)
}

func scaleOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// addPod completes a pod without a controller.
func (c *cluster) addPod(pod *corev1.Pod) {
	pod.Spec.NodeName = cmp.Or(pod.Spec.NodeName, c.nodes[0].Name)
	if pod.Status.Phase == "" {
		pod.Status = statusOf(pod, true, "")
	}
	c.pods = append(c.pods, pod)
}

const hash = "5d9c7b"

// addDeployment adds a Deployment's ReplicaSet and its pods. If the manifest has no status, the Deployment gets the status of a
// complete rollout.
func (c *cluster) addDeployment(d *appsv1.Deployment) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-" + hash, UID: types.UID("rs/" + d.Namespace + "/" + d.Name), CreationTimestamp: d.CreationTimestamp,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		Annotations:     d.Annotations,
	}}
	set.Spec.Replicas = d.Spec.Replicas
	replicas := scaleOf(d.Spec.Replicas)
	c.others = append(c.others, set)
	c.run(set, "ReplicaSet", replicas, &d.Spec.Template, map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash})
	if d.Status.Replicas == 0 {
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = replicas, replicas, replicas, replicas
		d.Status.ObservedGeneration = d.Generation
	}
}

// run creates the pods of a controller.
func (c *cluster) run(owner metav1.Object, kind string, replicas int32, template *corev1.PodTemplateSpec, more map[string]string) {
	c.scales[owner.GetUID()] = replicas
	nodes := splitNodes(owner.GetAnnotations()[AnnotationNodes])
	unready, _ := strconv.Atoi(owner.GetAnnotations()[AnnotationUnready]) // 0 without the annotation
	for i := range int(replicas) {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = owner.GetNamespace(), fmt.Sprintf("%s-%d", owner.GetName(), i)
		pod.UID, pod.CreationTimestamp = types.UID("pod/"+pod.Namespace+"/"+pod.Name), owner.GetCreationTimestamp()
		pod.Labels = labels.Merge(pod.Labels, more)
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, APIVersion: "apps/v1", Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
		pod.Spec.NodeName = c.nodes[i%len(c.nodes)].Name
		if len(nodes) > 0 {
			pod.Spec.NodeName = nodes[i%len(nodes)]
		}
		if pod.Spec.NodeName == "-" {
			pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		} else {
			waiting := ""
			if i < unready {
				waiting = owner.GetAnnotations()[AnnotationWaiting]
			}
			pod.Status = statusOf(pod, i >= unready, waiting)
		}
		c.pods = append(c.pods, pod)
	}
}

// count counts the pods that a selector matches and the ready ones among them, and adds up the wanted replicas of their
// controllers.
func (c *cluster) count(namespace string, selector labels.Selector) (matching, healthy, expected int32) {
	owners := map[types.UID]bool{}
	for _, pod := range c.pods {
		if pod.Namespace != namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		matching++
		if owner := metav1.GetControllerOf(pod); owner != nil && !owners[owner.UID] {
			owners[owner.UID] = true
			expected += c.scales[owner.UID]
		}
		if drain.Ready(pod) {
			healthy++
		}
	}
	return matching, healthy, expected
}

// computeStatus sets a budget's status as the disruption controller does. It rounds numbers up (disruption.go,
// getExpectedPodCount).
func (c *cluster) computeStatus(b *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return
	}
	matching, healthy, expected := c.count(b.Namespace, selector)
	b.Generation, b.Status.ObservedGeneration, b.Status.CurrentHealthy = 1, 1, healthy
	least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	switch {
	case most != nil:
		n, _ := intstr.GetScaledValueFromIntOrPercent(most, int(expected), true)
		b.Status.DesiredHealthy = max(0, expected-int32(n))
	case least != nil && least.Type == intstr.Int:
		expected, b.Status.DesiredHealthy = matching, least.IntVal
	case least != nil:
		n, _ := intstr.GetScaledValueFromIntOrPercent(least, int(expected), true)
		b.Status.DesiredHealthy = int32(n)
	}
	b.Status.ExpectedPods, b.Status.DisruptionsAllowed = expected, max(0, healthy-b.Status.DesiredHealthy)
	if expected == 0 {
		b.Status.DisruptionsAllowed = 0
	}
}
