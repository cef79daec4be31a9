package drain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// The taint of a node's condition is removed with the condition, so it is no reason why a pod never fits.
func TestNodeConditionTaintsAreNoPermanentObstacle(t *testing.T) {
	cases := map[string]struct {
		taint corev1.Taint
		want  string
	}{
		"not-ready":           {corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}, ""},
		"memory pressure":     {corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}, ""},
		"network unavailable": {corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}, ""},
		"a taint of the kind": {corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}, "node(s) had untolerated taint {dedicated=gpu:NoSchedule}"},
		"out of service":      {corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "x", Effect: corev1.TaintEffectNoExecute}, "node(s) had untolerated taint {node.kubernetes.io/out-of-service=x:NoExecute}"},
	}
	for name, c := range cases {
		node := build.Node("n", "a")
		node.Spec.Taints = []corev1.Taint{c.taint}
		if got := drain.WhyNoneFits(build.Pod("p"), []drain.Sample{{Node: node}}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(node.Spec.Taints) != 1 {
			t.Errorf("%s: the node's taints are changed to %v", name, node.Spec.Taints)
		}
	}
}
