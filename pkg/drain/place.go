package drain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sample is a node that represents its kind, with the pods bound to it.
type Sample struct {
	*corev1.Node
	Pods []*corev1.Pod
}

// WhyNoneFits returns why no sample would take the pod, even if only DaemonSet pods and static pods ran there. It
// returns "" if a sample would take it, or if there are no samples. Requirements on a node's name or zone are
// ignored, because another node of the kind may have a different name or zone.
func WhyNoneFits(pod *corev1.Pod, samples []Sample) string {
	var reasons []string
	for _, sample := range samples {
		why := whyRefused(pod, sample)
		if why == "" {
			return ""
		}
		reasons = append(reasons, why)
	}
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), ", ")
}

// withoutLocation returns the pod's selector and node affinity without requirements on a node's name and zone.
func withoutLocation(pod *corev1.Pod) *corev1.Pod {
	free := &corev1.Pod{}
	for key, value := range pod.Spec.NodeSelector {
		if !isLocationLabel(key) {
			if free.Spec.NodeSelector == nil {
				free.Spec.NodeSelector = map[string]string{}
			}
			free.Spec.NodeSelector[key] = value
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return free
	}
	var terms []corev1.NodeSelectorTerm
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		kept := slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(r corev1.NodeSelectorRequirement) bool { return isLocationLabel(r.Key) })
		if len(kept) == 0 {
			return free // a node of the kind may satisfy the term
		}
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: kept})
	}
	free.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return free
}

// isLocationLabel reports whether a label describes where a node is, instead of what it is.
func isLocationLabel(key string) bool {
	return key == corev1.LabelHostname || strings.HasPrefix(key, "topology.") || strings.HasPrefix(key, "failure-domain.")
}

// TargetNode returns the node that a DaemonSet's pod is for. Before the pod is bound, that is the node in its node
// affinity (kubernetes, pkg/controller/daemon/util, ReplaceDaemonSetPodNodeNameNodeAffinity). TargetNode returns ""
// if there is none.
func TargetNode(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if pod.Spec.NodeName != "" || affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return pod.Spec.NodeName
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
