package nodegroup_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// TestOwnersOfNodesAreRecognized checks nodes of each owner, and similar nodes without an owner (NG001).
func TestOwnersOfNodesAreRecognized(t *testing.T) {
	type strings = map[string]string
	cases := map[string]struct {
		name                string
		labels, annotations strings
		taints              []corev1.Taint
		owner, group        string
	}{
		"no one's":      {labels: strings{"eks.amazonaws.com/nodegroup": "workers"}},
		"Karpenter's":   {labels: strings{"karpenter.sh/nodepool": "default"}, owner: "Karpenter", group: "karpenter.sh/nodepool=default"},
		"EKS Auto Mode": {labels: strings{"karpenter.sh/nodepool": "system", "eks.amazonaws.com/compute-type": "auto"}, owner: "EKS Auto Mode", group: "karpenter.sh/nodepool=system"},
		"AKS's": {
			labels: strings{"karpenter.sh/nodepool": "default", "karpenter.azure.com/aksnodeclass": "default"},
			owner:  "AKS node auto-provisioning", group: "karpenter.sh/nodepool=default",
		},
		"Fargate's":           {labels: strings{"eks.amazonaws.com/compute-type": "fargate"}, owner: "Fargate", group: "eks.amazonaws.com/compute-type=fargate"},
		"Fargate's, by name":  {name: "fargate-ip-10-0-1-2.ec2.internal", owner: "Fargate", group: "eks.amazonaws.com/compute-type=fargate"},
		"Cluster API's Label": {labels: strings{"cluster.x-k8s.io/deployment-name": "md-0"}, owner: "Cluster API", group: "cluster.x-k8s.io/deployment-name=md-0"},
		"Cluster API's": {
			annotations: strings{"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/machine": "md-0-5c8fx-abcde", "cluster.x-k8s.io/owner-kind": "MachineSet", "cluster.x-k8s.io/owner-name": "md-0-5c8fx"},
			owner:       "Cluster API", group: "cluster.x-k8s.io/owner-name=md-0-5c8fx",
		},
		"Cluster API's without a name":    {annotations: strings{"cluster.x-k8s.io/owner-kind": "MachinePool"}, owner: "Cluster API", group: "cluster.x-k8s.io/owner-kind=MachinePool"},
		"a label of Cluster API's drains": {labels: strings{"cluster.x-k8s.io/drain": "skip"}},
		"OpenShift's": {
			annotations: strings{"machine.openshift.io/machine": "openshift-machine-api/c-xk2v8-worker-us-east-1a-9wqzp"},
			owner:       "OpenShift's Machine API", group: "machine.openshift.io/cluster-api-machineset=c-xk2v8-worker-us-east-1a",
		},
		"Autopilot's":                  {name: "gk3-c-pool-2-22ae7c65-3ohs", labels: strings{"cloud.google.com/gke-nodepool": "pool-2"}, owner: "GKE Autopilot", group: "cloud.google.com/gke-nodepool=pool-2"},
		"GKE's, and not named as gke-": {name: "n0", labels: strings{"cloud.google.com/gke-nodepool": "p", "cloud.google.com/gke-provisioning": "standard"}, owner: "GKE Autopilot", group: "cloud.google.com/gke-nodepool=p"},
		"GKE Standard":                 {name: "gke-c-pool-1-22ae7c65-3ohs", labels: strings{"cloud.google.com/gke-nodepool": "pool-1", "cloud.google.com/gke-provisioning": "standard"}},
		"GKE Standard, older":          {name: "gke-c-pool-1-22ae7c65-3ohs", labels: strings{"cloud.google.com/gke-nodepool": "pool-1"}},
		"Flex Start's": {
			name: "gke-c-gpu-22ae7c65-3ohs", labels: strings{"cloud.google.com/gke-nodepool": "gpu", "cloud.google.com/gke-flex-start": "true"},
			owner: "GKE Flex Start", group: "cloud.google.com/gke-nodepool=gpu",
		},
		"queued": {
			name: "gke-c-gpu-22ae7c65-3ohs", labels: strings{"cloud.google.com/gke-nodepool": "gpu"},
			taints: []corev1.Taint{{Key: "cloud.google.com/gke-queued", Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			owner:  "GKE Flex Start", group: "cloud.google.com/gke-nodepool=gpu",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: c.labels, Annotations: c.annotations}, Spec: corev1.NodeSpec{Taints: c.taints}}
			owner, owned := nodegroup.OwnerOf(node)
			if owner.Name != c.owner || owned != (c.owner != "") {
				t.Errorf("the owner is %q (%t), want %q", owner.Name, owned, c.owner)
			}
			if got := nodegroup.GroupOfOwner(node); got != c.group {
				t.Errorf("the group is %q, want %q", got, c.group)
			}
			if owned && (owner.Kind == "" || owner.Does == "" || owner.Remedy == "") {
				t.Errorf("the owner lacks a text: %+v", owner)
			}
		})
	}
}

func TestGroupHasOwnerOnlyIfAllNodesHaveIt(t *testing.T) {
	member := func(labels map[string]string) nodegroup.Member {
		return nodegroup.Member{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}
	}
	fargate, karpenter, none := member(map[string]string{"eks.amazonaws.com/compute-type": "fargate"}), member(map[string]string{"karpenter.sh/nodepool": "p"}), member(nil)
	cases := map[string]struct {
		members []nodegroup.Member
		want    string
	}{
		"none":                       {nil, ""},
		"one owner":                  {[]nodegroup.Member{fargate, {}, fargate}, "Fargate"},
		"two owners":                 {[]nodegroup.Member{fargate, karpenter}, ""},
		"some without an owner":      {[]nodegroup.Member{fargate, none}, ""},
		"an instance without a node": {[]nodegroup.Member{{}}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, owned := nodegroup.OwnerOfAll(c.members); got.Name != c.want || owned != (c.want != "") {
				t.Errorf("got %q, %t", got.Name, owned)
			}
		})
	}
}
