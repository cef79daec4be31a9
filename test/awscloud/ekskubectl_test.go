package awscloud_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

func TestEKSUpdateCordonsOrTaintsANode(t *testing.T) {
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	eks := corev1.Taint{Key: "eks.amazonaws.com/nodegroup", Value: "unschedulable", Effect: corev1.TaintEffectNoSchedule}
	for name, taint := range map[string]bool{"cordon": false, "taint (EKS E30)": true} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirs}},
			})
			d := awscloud.KubectlDrainer(client, "kubectl", "kubeconfig")
			node := func() *corev1.Node {
				return must(client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}))(t)
			}
			for range 2 {
				if err := d.Fence(t.Context(), "n", taint); err != nil {
					t.Fatal(err)
				}
			}
			want := []corev1.Taint{theirs}
			if taint {
				want = append(want, eks)
			}
			equal(t, "taints", node().Spec.Taints, want)
			equal(t, "cordon", node().Spec.Unschedulable, !taint)
			equal(t, "labels (EKS E46)", node().Labels, map[string]string{"a": "b", corev1.LabelNodeExcludeBalancers: "true"})

			if err := d.Unfence(t.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			equal(t, "taints", node().Spec.Taints, []corev1.Taint{theirs})
			equal(t, "cordon", node().Spec.Unschedulable, false)
			equal(t, "labels", node().Labels, map[string]string{"a": "b"})

			if err := d.Fence(t.Context(), "gone", taint); err != nil {
				t.Errorf("a node that is gone: %v", err)
			}
		})
	}
}

func TestNodeIsReadyWithItsLabels(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	d := awscloud.KubectlDrainer(client, "kubectl", "kubeconfig")
	for node, labels := range map[string]map[string]string{"n": {"a": "b"}, "gone": {}} {
		equal(t, node, must(d.IsReady(t.Context(), node, labels))(t), node == "n")
	}
	equal(t, "another label", must(d.IsReady(t.Context(), "n", map[string]string{"a": "c"}))(t), false)
}

// TestDrainIsRepeatedIfKubectlExitsEarly checks that a drain is repeated when kubectl exits before the time limit.
func TestDrainIsRepeatedIfKubectlExitsEarly(t *testing.T) {
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	const once = "#!/bin/sh\nif [ -e $0.ran ]; then exit 0; fi\n: >$0.ran\necho connection refused >&2\nexit 1\n"
	if err := os.WriteFile(kubectl, []byte(once), 0o755); err != nil {
		t.Fatal(err)
	}
	d := awscloud.KubectlDrainer(fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), kubectl, "kubeconfig")
	if err := d.Drain(t.Context(), "n", time.Millisecond); err == nil {
		t.Error("the drain reached its time limit without an error")
	}
	if err := os.Remove(kubectl + ".ran"); err != nil {
		t.Fatal(err)
	}
	if err := d.Drain(t.Context(), "n", time.Minute); err != nil {
		t.Error(err)
	}
}
