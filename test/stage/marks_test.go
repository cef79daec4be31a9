package stage_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

func TestMarks(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "x"}, Annotations: map[string]string{"volumes": "y"}}}
		change(n)
		return n
	}
	cases := map[string]struct {
		change func(*corev1.Node)
		want   []string
	}{
		"nothing": {func(*corev1.Node) {}, nil},
		"a fence": {func(n *corev1.Node) { _ = nodemark.SetFence(n, "r", nodegroup.FenceTaint("aws")) }, []string{"a cordon", "a taint", nodemark.AnnotationNodeBaseline, nodemark.AnnotationRun}},
		"a drain": {func(n *corev1.Node) { nodemark.SetDraining(n, time.Now()) }, []string{nodemark.AnnotationDeadline, corev1.LabelNodeExcludeBalancers}},
		"other taint": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}
		}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := stage.Marks(node(c.change)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
