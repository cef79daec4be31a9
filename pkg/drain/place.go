package drain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sample is a node that represents all nodes of its kind, with the pods on it.
type Sample struct {
	*corev1.Node
	Pods []*corev1.Pod
}

// WhyNoneFits returns why none of the samples would take the pod even if only DaemonSet pods and static pods ran there.
// It returns "" if one would, or if there are no samples. It ignores node names and zones, because another node of the
// kind may have others.
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

// withoutLocation returns a pod with the pod's node selector and node affinity, without terms about a node's name or
// zone.
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

// isLocationLabel reports whether a label says where a node is rather than what it is.
func isLocationLabel(key string) bool {
	return key == corev1.LabelHostname || strings.HasPrefix(key, "topology.") || strings.HasPrefix(key, "failure-domain.")
}

// TargetNode returns the node of a DaemonSet's pod: the one that it is bound to, or the one that its controller names in
// its node affinity (kubernetes, pkg/controller/daemon/util, ReplaceDaemonSetPodNodeNameNodeAffinity). It returns "" if
// there is none.
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
