package nodemark

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// CleanupCommand returns the command line with which a user removes our marks from a node, as ClearFence and ClearHold
// do. It restores what the node had before. fences are the possible fence taints. If the node's baseline cannot be read,
// it counts as empty.
func CleanupCommand(node *corev1.Node, fences []corev1.Taint) string {
	prev, err := readNodeBaseline(node)
	if prev == nil || err != nil {
		prev = &NodeBaseline{}
	}
	var steps []string
	if node.Annotations[AnnotationRun] != "" && !prev.Unschedulable {
		steps = append(steps, shell.Command("kubectl uncordon", node.Name))
	}
	for _, fence := range fences {
		step := shell.Command("kubectl taint node", node.Name, fence.Key+":"+string(fence.Effect)+"-")
		if HasTaint(node, fence) && !prev.Taint && !slices.Contains(steps, step) { // some clouds have the same taint
			steps = append(steps, step)
		}
	}
	if step := exclusionCommand(node, prev); step != "" {
		steps = append(steps, step)
	}
	words := []string{node.Name}
	if IsHeld(node) {
		words = append(words, AnnotationNoScaleDown+"-")
	}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if strings.HasPrefix(key, Domain+"/") {
			words = append(words, key+"-")
		}
	}
	return strings.Join(append(steps, shell.Command("kubectl annotate node", words...)), " && ")
}

// exclusionCommand returns the command that restores the load-balancer label, or "" if it is unchanged.
func exclusionCommand(node *corev1.Node, prev *NodeBaseline) string {
	value, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	switch {
	case prev.Excluded != nil && *prev.Excluded != value:
		return shell.Command("kubectl label --overwrite node", node.Name, corev1.LabelNodeExcludeBalancers+"="+*prev.Excluded)
	case prev.Excluded == nil && excluded:
		return shell.Command("kubectl label node", node.Name, corev1.LabelNodeExcludeBalancers+"-")
	default:
		return ""
	}
}
