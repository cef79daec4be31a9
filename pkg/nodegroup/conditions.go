package nodegroup

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DescribeTrouble says what the node's conditions tell of why it does not serve, "" when they tell
// nothing: "its kubelet has been silent since 2026-11-27T06:40:00Z", "DiskPressure since
// 2026-11-27T06:40:00Z: kubelet has disk pressure".
func DescribeTrouble(node *corev1.Node) string {
	var said []string
	for _, c := range node.Status.Conditions {
		since := c.LastTransitionTime.UTC().Format(time.RFC3339)
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
			return "its kubelet has been silent since " + since // what it said before is old
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse:
			said = append(said, fmt.Sprintf("not Ready since %s: %s", since, c.Message))
		case c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue:
			said = append(said, fmt.Sprintf("%s since %s: %s", c.Type, since, c.Message))
		}
	}
	return strings.Join(said, "; ")
}

// IsSilent reports whether the node's kubelet has stopped to report: what is to end on the node does
// not.
func IsSilent(node *corev1.Node) bool {
	c := ReadyCondition(node)
	return c != nil && c.Status == corev1.ConditionUnknown
}
