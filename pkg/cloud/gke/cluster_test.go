package gke

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
)

func node(providerID, pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{container.PoolLabel: pool}}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// TestClusterIsNamedByUserOrKubeconfig: the names need no request.
func TestClusterIsNamedByUserOrKubeconfig(t *testing.T) {
	nodes := []*corev1.Node{node("aws:///us-east-1a/i-1", ""), node("gce://acme/us-central1-b/gke-1", "workers")}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"by the cluster entry":                            {Options{KubeconfigNames: []string{"gke_acme_us-central1_main", "prod"}}, "projects/acme/locations/us-central1/clusters/main"},
		"by the context":                                  {Options{KubeconfigNames: []string{"renamed", "gke_acme_us-central1-b_main"}}, "projects/acme/locations/us-central1-b/clusters/main"},
		"by the user":                                     {Options{ClusterName: "projects/acme/locations/us-central1/clusters/blue", KubeconfigNames: []string{"gke_acme_us-central1_main"}}, "projects/acme/locations/us-central1/clusters/blue"},
		"by the user, as gcloud does":                     {Options{ClusterName: "gke_acme_us-central1_blue"}, "projects/acme/locations/us-central1/clusters/blue"},
		"by a project's number":                           {Options{ClusterName: "projects/512345678901/locations/us-central1/clusters/blue"}, "projects/512345678901/locations/us-central1/clusters/blue"},
		"a zonal cluster whose nodes are in another zone": {Options{ClusterName: "gke_acme_us-central1-a_main"}, "projects/acme/locations/us-central1-a/clusters/main"},
	} {
		got, err := (&Provider{options: c.options}).findCluster(t.Context(), nodes)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
	}
	for _, other := range []string{"gke_acme_europe-west1_main", "gke_other_us-central1_main"} {
		if _, err := (&Provider{options: Options{ClusterName: other}}).findCluster(t.Context(), nodes); !errors.Is(err, cloud.ErrOtherCluster) {
			t.Errorf("%s: %v, want another cluster", other, err)
		}
	}
	if _, err := (&Provider{}).findCluster(t.Context(), nodes[:1]); err == nil || !strings.Contains(err.Error(), "--cluster-name") {
		t.Errorf("without a node of Compute Engine: %v", err)
	}
}

// nodesOf returns one node for each of the pools. All nodes belong to the cluster "main".
func nodesOf(pools ...string) (nodes []*corev1.Node) {
	for _, pool := range pools {
		nodes = append(nodes, node("gce://acme/us-central1-b/gke-main-"+pool+"-1f2e-x9z0", pool))
	}
	return nodes
}

func pools(names ...string) (pools []container.NodePool) {
	for _, name := range names {
		pools = append(pools, container.NodePool{Name: name})
	}
	return pools
}

// withGroups returns a pool "workers" for each instance group.
func withGroups(names ...string) (pools []container.NodePool) {
	for _, name := range names {
		pools = append(pools, container.NodePool{Name: "workers", InstanceGroupURLs: []string{"https://www.googleapis.com/compute/v1/projects/acme/zones/us-central1-b/instanceGroupManagers/" + name}})
	}
	return pools
}

// TestClusterIsChosenByServerMachinesOrPools: the first of them that is known decides.
func TestClusterIsChosenByServerMachinesOrPools(t *testing.T) {
	all := []container.Cluster{
		{Name: "far", Location: "europe-west1", NodePools: pools("workers", "db")},
		{Name: "small", Location: "us-central1", NodePools: pools("workers")},
		{Name: "main", Location: "us-central1", Endpoint: "34.1.2.3", NodePools: pools("workers", "db")},
		{Name: "twin", Location: "us-central1-b", NodePools: pools("workers", "db")},
	}
	owned := []container.Cluster{
		{Name: "twin", Location: "us-central1", NodePools: withGroups("gke-twin-workers-3a4b-grp")},
		{Name: "main", Location: "us-central1", NodePools: withGroups("gke-main-workers-9c8d-grp", "gke-main-workers-1f2e-grp")},
	}
	for name, c := range map[string]struct {
		list    container.ListClustersResponse
		nodes   []*corev1.Node
		options Options
		// want is the name of the cluster, or a part of the error.
		want, says string
	}{
		"by the server":                       {container.ListClustersResponse{Clusters: all}, nodesOf("db", "workers"), Options{Config: &rest.Config{Host: "https://34.1.2.3"}}, "main", ""},
		"by its short name":                   {container.ListClustersResponse{Clusters: all}, nodesOf("db", "workers"), Options{ClusterName: "twin"}, "twin", ""},
		"two clusters":                        {container.ListClustersResponse{Clusters: all}, nodesOf("db", "workers"), Options{}, "", "clusters/main and projects/acme/locations/us-central1-b/clusters/twin both have the node pools db, workers: pass --cluster-name="},
		"no cluster":                          {container.ListClustersResponse{Clusters: all}, nodesOf("gpu"), Options{}, "", "project acme has no cluster with the pools"},
		"by the machines":                     {container.ListClustersResponse{Clusters: owned}, nodesOf("workers"), Options{}, "main", ""},
		"the pool's name, but other machines": {container.ListClustersResponse{Clusters: owned[:1]}, nodesOf("workers"), Options{}, "", "has no cluster"},
		"a zone that does not answer":         {container.ListClustersResponse{Clusters: all[3:], MissingZones: []string{"us-central1-f"}}, nodesOf("gpu"), Options{}, "", "zone us-central1-f did not answer"},
		"the pool's name, and a silent zone":  {container.ListClustersResponse{Clusters: all[3:], MissingZones: []string{"us-central1-f"}}, nodesOf("workers"), Options{}, "", "zone us-central1-f did not answer"},
		"a silent zone that is far":           {container.ListClustersResponse{Clusters: all[3:], MissingZones: []string{"europe-west1-b"}}, nodesOf("workers"), Options{}, "twin", ""},
	} {
		got, err := chooseCluster(&c.list, c.nodes, c.options)
		if got.Cluster != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// TestMachineBelongsToClusterOfItsRegion includes zones for AI, and regions whose names have three parts.
func TestMachineBelongsToClusterOfItsRegion(t *testing.T) {
	for _, c := range []struct {
		location, zone string
		want           bool
	}{
		{"us-central1", "us-central1-a", true},
		{"us-central1-b", "us-central1-a", true},
		{"us-central1", "us-central1-ai1a", true},
		{"us-central1-ai1a", "us-central1-a", true},
		{"u-france-east1", "u-france-east1-b", true},
		{"u-france-east1", "u-france-west1-b", false},
		{"us-central1", "us-central12-a", false},
		{"us-central2-a", "us-central1-a", false},
	} {
		name := container.ClusterName{Project: "acme", Location: c.location, Cluster: "main"}
		if got := contains(name, container.Instance{Project: "acme", Zone: c.zone}); got != c.want {
			t.Errorf("a machine in %s and a cluster in %s: %t", c.zone, c.location, got)
		}
	}
}
