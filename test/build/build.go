// Package build creates Kubernetes objects for tests. Each object is valid and ordinary by default, so that a test names only what its
// case is about:
//
//	build.Pod("web-0", build.On("node-1"), build.Unready)
//	build.Budget("web", build.Counts(3, 3, 2))
package build

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace is the namespace of all pods and budgets, unless In sets another.
const Namespace = "shop"

// Pod returns a running, ready pod of the ReplicaSet "web" with the label app=web. Its UID is its name.
func Pod(name string, with ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	App("web")(pod)
	for _, change := range with {
		change(pod)
	}
	return pod
}

// App sets the pod's label app=name and makes the ReplicaSet of that name its controller.
func App(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": name}
		OwnedBy("ReplicaSet", name)(pod)
	}
}

// OwnedBy sets the pod's controller, whose UID is kind/name.
func OwnedBy(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(kind + "/" + name), Controller: &yes}}
	}
}

// Bare removes the pod's controller.
func Bare(pod *corev1.Pod) { pod.OwnerReferences = nil }

// On binds the pod to a node.
func On(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

// In puts the pod into another namespace.
func In(namespace string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = namespace }
}

// Unready makes the pod run without being ready.
func Unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

// Phase sets the pod's phase. A pod in another phase than Running is not ready.
func Phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		if phase != corev1.PodRunning {
			Unready(pod)
		}
	}
}

// Created sets the pod's creation time.
func Created(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.Time{Time: at} }
}

// Ending marks the pod as deleted, with a grace period that ends at the given time.
func Ending(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: at} }
}

// Evicted adds the condition that the eviction API writes on an evicted pod, with the given time.
func Evicted(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Time{Time: at},
		})
	}
}

// Tolerating adds a toleration.
func Tolerating(toleration corev1.Toleration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration) }
}

// Volume gives the pod one volume.
func Volume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: source})
	}
}

// Node returns a Ready node in a zone. Its UID is its name.
func Node(name, zone string, with ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{corev1.LabelTopologyZone: zone},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range with {
		change(node)
	}
	return node
}

// NotReady makes the node's Ready condition Unknown since the given time, as when its kubelet is silent.
func NotReady(since time.Time) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		node.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: since}
	}
}

// Tainted adds a NoSchedule taint.
func Tainted(key string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

// Budget returns a PodDisruptionBudget for the pods with the label app=name. By its status it has 3 pods, of which 3 are healthy and 2
// are needed.
func Budget(name string, with ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Generation: 1, ResourceVersion: "1"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
	Counts(3, 3, 2)(budget)
	for _, change := range with {
		change(budget)
	}
	return budget
}

// Counts sets the status that the disruption controller would write for these numbers.
func Counts(expected, healthy, desired int32) func(*policyv1.PodDisruptionBudget) {
	return func(budget *policyv1.PodDisruptionBudget) {
		allowed := max(0, healthy-desired)
		if expected <= 0 {
			allowed = 0
		}
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, ExpectedPods: expected, CurrentHealthy: healthy, DesiredHealthy: desired,
			DisruptionsAllowed: allowed,
		}
	}
}

// Selecting replaces the budget's selector; nil selects nothing.
func Selecting(selector *metav1.LabelSelector) func(*policyv1.PodDisruptionBudget) {
	return func(budget *policyv1.PodDisruptionBudget) { budget.Spec.Selector = selector }
}

// AlwaysAllow sets the policy by which unready pods may be evicted whatever the budget says.
func AlwaysAllow(budget *policyv1.PodDisruptionBudget) {
	policy := policyv1.AlwaysAllow
	budget.Spec.UnhealthyPodEvictionPolicy = &policy
}
