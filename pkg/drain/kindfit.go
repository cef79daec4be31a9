package drain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// whyRefused says why a node of the sample's kind does not take the pod, in the words of
// kube-scheduler; "" when it does. The cordon of the sample is its own and not looked at.
func whyRefused(pod *corev1.Pod, sample Sample) string {
	var storage fit.Storage
	needs, free := storage.TakesOf(pod), withoutPlaces(pod)
	needs.SetPlace(free.Spec.NodeSelector, free.Spec.Affinity, pod.Spec.Tolerations)
	object := *sample.Node
	object.Spec.Unschedulable = false
	node := fit.NewNode(&object)
	for _, other := range sample.Pods {
		if kind := OwnerKind(other); kind == "DaemonSet" || kind == "Node" {
			takes := storage.TakesOf(other)
			node.Place(&takes, 1)
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

// describeTaint names the first taint that the pod does not tolerate.
func describeTaint(pod *corev1.Pod, node *fit.Node) string {
	for i := range node.Taints {
		if !fit.Tolerates(pod.Spec.Tolerations, &node.Taints[i]) {
			return fmt.Sprintf("node(s) had untolerated taint {%s}", node.Taints[i].ToString())
		}
	}
	return ""
}
