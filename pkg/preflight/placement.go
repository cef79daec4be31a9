package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// placement is where the scheduler may put a pod by its node selector, its required node affinity
// and its tolerations.
type placement struct {
	pod      *corev1.Pod
	required nodeaffinity.RequiredNodeAffinity
}

func placementOf(pod *corev1.Pod) placement {
	return placement{pod: pod, required: nodeaffinity.GetRequiredNodeAffinity(pod)}
}

// selectsNode reports whether the node selector and the required affinity match the node.
func (p placement) selectsNode(node *corev1.Node) bool {
	matches, err := p.required.Match(node)
	return err == nil && matches
}

// canRunOn reports whether selectsNode is true and the pod tolerates the node's taints.
func (p placement) canRunOn(node *corev1.Node) bool {
	refuses := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !drain.ToleratesTaint(p.pod, taint)
	})
	return !refuses && p.selectsNode(node)
}

// requiredNodeAffinity returns the pod's required node affinity, nil if it has none.
func requiredNodeAffinity(pod *corev1.Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// selects reports whether a selector matches labels. A nil selector, as in a constraint without
// one, matches nothing.
func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

// zoneKeys returns the labels by which nodes and volumes name their zone.
func zoneKeys() []string {
	return []string{
		corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone,
		"topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone",
	}
}
