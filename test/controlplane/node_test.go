package controlplane

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestNodeObjectHasValuesOfItsSpec(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		spec        NodeSpec
		labels      map[string]string
		annotations map[string]string
		pods        string
	}{
		"defaults": {
			spec: NodeSpec{Name: "n"},
			labels: map[string]string{
				"kubernetes.io/hostname":           "n",
				"topology.kubernetes.io/zone":      "us-east-1a",
				"topology.kubernetes.io/region":    "us-east-1",
				"node.kubernetes.io/instance-type": "m5.xlarge",
			},
			pods: "110",
		},
		"a zone with a hyphen": {
			spec:   NodeSpec{Name: "n", Zone: "us-central1-b"},
			labels: map[string]string{"topology.kubernetes.io/region": "us-central1"},
			pods:   "110",
		},
		"own labels win": {
			spec:   NodeSpec{Name: "n", Labels: map[string]string{"node.kubernetes.io/instance-type": "c6g.large", "x": "y"}},
			labels: map[string]string{"node.kubernetes.io/instance-type": "c6g.large", "x": "y"},
			pods:   "110",
		},
		"a boot ends at a moment": {
			spec:        NodeSpec{Name: "n", BootAfter: 1500 * time.Millisecond, Annotations: map[string]string{"a": "b"}},
			annotations: map[string]string{"a": "b", AnnotationBootAfter: "2026-01-02T03:04:06.5Z"},
			pods:        "110",
		},
		"few pods": {spec: NodeSpec{Name: "n", Pods: "3"}, pods: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := test.spec.toNode(259, now)
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range test.labels {
				if got := node.Labels[key]; got != want {
					t.Errorf("label %s is %q, want %q", key, got, want)
				}
			}
			if !maps.Equal(node.Annotations, test.annotations) {
				t.Errorf("annotations are %v, want %v", node.Annotations, test.annotations)
			}
			if got := node.Status.Allocatable.Pods().String(); got != test.pods {
				t.Errorf("allocatable pods are %s, want %s", got, test.pods)
			}
			want := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.1.3"}
			if got := node.Status.Addresses[0]; got != want {
				t.Errorf("address of node number 259 is %v, want %v", got, want)
			}
		})
	}
}

func TestNodeWithMalformedQuantityIsRejected(t *testing.T) {
	if _, err := (NodeSpec{Name: "n", Memory: "much"}).toNode(1, time.Time{}); err == nil {
		t.Error("a node with much memory was accepted")
	}
}
