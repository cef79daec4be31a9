package preflight

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// isPlaceFor reports whether the scheduler may put the pod on the node as far as the node's taints
// and the pod's node selector and affinity say.
func isPlaceFor(node *corev1.Node, pod *Pod) bool {
	refuses := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !drain.ToleratesTaint(pod, taint)
	})
	return !refuses && isSelectedBy(node, pod)
}

// isSelectedBy reports whether the pod's node selector and required node affinity allow the node.
func isSelectedBy(node *corev1.Node, pod *Pod) bool {
	if !hasLabels(node, pod.Spec.NodeSelector) {
		return false
	}
	required := requiredNodesOf(pod)
	return required == nil || matchesTerms(node, required.NodeSelectorTerms)
}

// requiredNodesOf is the pod's required node affinity, nil without one.
func requiredNodesOf(pod *Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// matchesTerms reports whether the node matches one of the terms; an empty term matches none
// (component-helpers, nodeaffinity.go).
func matchesTerms(node *corev1.Node, terms []corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			return false
		}
		for i := range term.MatchExpressions {
			value, has := node.Labels[term.MatchExpressions[i].Key]
			if !meetsRequirement(&term.MatchExpressions[i], value, has) {
				return false
			}
		}
		for i := range term.MatchFields { // metadata.name is the only one there is
			if !meetsRequirement(&term.MatchFields[i], node.Name, true) {
				return false
			}
		}
		return true
	})
}

func meetsRequirement(r *corev1.NodeSelectorRequirement, value string, has bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	}
	return isBeyond(r, value)
}

// isBeyond reports whether a number is more (Gt) or less (Lt) than the one that is required.
func isBeyond(r *corev1.NodeSelectorRequirement, value string) bool {
	number, notNumber := strconv.Atoi(value)
	limit, notLimit := strconv.Atoi(strings.Join(r.Values, ",")) // there is one
	if notNumber != nil || notLimit != nil {
		return false
	}
	return r.Operator == corev1.NodeSelectorOpGt && number > limit || r.Operator == corev1.NodeSelectorOpLt && number < limit
}

// selectsOwn reports whether a selector in a pod matches that pod itself. None at all, as in a
// constraint whose selector was forgotten, matches nothing.
func selectsOwn(selector *metav1.LabelSelector, pod *Pod) bool {
	own, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && own.Matches(labels.Set(pod.Labels))
}

// zoneKeys are those by which nodes and volumes say which zone they are in.
func zoneKeys() []string {
	return []string{
		corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone,
		"topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone",
	}
}

// hasLabels reports whether the node has all of the labels.
func hasLabels(node *corev1.Node, wanted map[string]string) bool {
	for key, value := range wanted {
		if has, ok := node.Labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}
