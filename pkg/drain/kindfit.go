package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// whyRefused returns why a node of the sample's kind does not take the pod, in the words of kube-scheduler; "" if it does. It
// ignores the sample's cordon and the taints of its conditions, because another node of the kind has its own.
func whyRefused(pod *corev1.Pod, sample Sample) string {
	var storage fit.Storage
	needs, free := storage.UsageOf(pod), withoutLocation(pod)
	needs.SetNodeRequirements(free.Spec.NodeSelector, free.Spec.Affinity, pod.Spec.Tolerations)
	object := *sample.Node
	object.Spec.Unschedulable = false
	object.Spec.Taints = slices.DeleteFunc(slices.Clone(object.Spec.Taints), isOfCondition)
	node := fit.NewNode(&object)
	for _, other := range sample.Pods {
		if kind := OwnerKind(other); kind == "DaemonSet" || kind == "Node" {
			takes := storage.UsageOf(other)
			node.AddPods(&takes, 1)
		}
	}
	var reasons []string
	for _, why := range fit.Explain(&needs, node) {
		if why == fit.UntoleratedTaint {
			return describeTaint(pod, node)
		}
		reasons = append(reasons, string(why))
	}
	return strings.Join(reasons, ", ")
}

// isOfCondition reports whether the node lifecycle controller adds and removes the taint by the node's conditions. A node that has
// just become Ready has the taint not-ready for a moment longer (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
func isOfCondition(taint corev1.Taint) bool {
	switch taint.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure,
		corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable:
		return true
	default:
		return false
	}
}

// describeTaint names the first taint that the pod does not tolerate.
func describeTaint(pod *corev1.Pod, node *fit.Node) string {
	for i := range node.Taints {
		if !fit.Tolerates(pod.Spec.Tolerations, &node.Taints[i]) {
			return fmt.Sprintf("node(s) had untolerated taint {%s}", node.Taints[i].ToString())
		}
	}
	return ""
}
