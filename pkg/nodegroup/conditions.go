package nodegroup

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DescribeTrouble returns why the node does not serve, according to its conditions. It returns "" if they show no
// reason. Examples: "its kubelet has been silent since 2026-11-27T06:40:00Z", "DiskPressure since
// 2026-11-27T06:40:00Z: kubelet has disk pressure".
func DescribeTrouble(node *corev1.Node) string {
	var said []string
	for _, c := range node.Status.Conditions {
		since := c.LastTransitionTime.UTC().Format(time.RFC3339)
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
			return "its kubelet has been silent since " + since // the other conditions are outdated
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse:
			said = append(said, fmt.Sprintf("not Ready since %s: %s", since, c.Message))
		case c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue:
			said = append(said, fmt.Sprintf("%s since %s: %s", c.Type, since, c.Message))
		}
	}
	return strings.Join(said, "; ")
}

// IsSilent reports whether the node's kubelet has stopped reporting. Pods that are deleted on such a node do not end.
func IsSilent(node *corev1.Node) bool {
	c := ReadyCondition(node)
	return c != nil && c.Status == corev1.ConditionUnknown
}
