package nodegroup_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func TestNodeConditionsAreDescribedAsTrouble(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 27, 6, 40, 0, 0, time.UTC))
	condition := func(of corev1.NodeConditionType, status corev1.ConditionStatus, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: of, Status: status, Message: message, LastTransitionTime: at}
	}
	full := condition(corev1.NodeDiskPressure, corev1.ConditionTrue, "kubelet has disk pressure")
	cases := map[string]struct {
		conditions []corev1.NodeCondition
		want       string
		silent     bool
	}{
		"none":        {nil, "", false},
		"well":        {[]corev1.NodeCondition{condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "enough"), condition(corev1.NodeReady, corev1.ConditionTrue, "")}, "", false},
		"a full disk": {[]corev1.NodeCondition{full, condition(corev1.NodeReady, corev1.ConditionTrue, "")}, "DiskPressure since 2026-11-27T06:40:00Z: kubelet has disk pressure", false},
		"no network":  {[]corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionFalse, "cni plugin not initialized")}, "not Ready since 2026-11-27T06:40:00Z: cni plugin not initialized", false},
		"both":        {[]corev1.NodeCondition{full, condition(corev1.NodeReady, corev1.ConditionFalse, "x")}, "DiskPressure since 2026-11-27T06:40:00Z: kubelet has disk pressure; not Ready since 2026-11-27T06:40:00Z: x", false},
		"silent":      {[]corev1.NodeCondition{full, condition(corev1.NodeReady, corev1.ConditionUnknown, "Kubelet stopped posting node status.")}, "its kubelet has been silent since 2026-11-27T06:40:00Z", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: c.conditions}}
			if got := nodegroup.DescribeTrouble(node); got != c.want || nodegroup.IsSilent(node) != c.silent {
				t.Errorf("got %q, silent %t, want %q, %t", got, nodegroup.IsSilent(node), c.want, c.silent)
			}
		})
	}
}
