package gke

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
)

// parseClusterName parses the user's --cluster-name: gke_PROJECT_LOCATION_CLUSTER or projects/PROJECT/locations/LOCATION/clusters/CLUSTER.
// ok is false for other texts, which may be the short name of a cluster.
func parseClusterName(text string) (name container.ClusterName, ok bool) {
	if name, ok = container.ParseContext(text); ok {
		return name, true
	}
	parts := strings.Split(text, "/")
	if len(parts) != 6 || parts[0] != "projects" || parts[2] != "locations" || parts[4] != "clusters" {
		return container.ClusterName{}, false
	}
	return container.ClusterName{Project: parts[1], Location: parts[3], Cluster: parts[5]}, true
}

// findCluster returns GKE's name of the cluster. It takes the name from the user, from the kubeconfig or, if both are silent, from a
// list of the clusters in the project of the nodes.
func (p *Provider) findCluster(ctx context.Context, nodes []*corev1.Node) (container.ClusterName, error) {
	machine, known := machineOf(nodes)
	name, named := parseClusterName(p.options.ClusterName)
	for _, entry := range p.options.KubeconfigNames {
		if !named && p.options.ClusterName == "" {
			name, named = container.ParseContext(entry)
		}
	}
	switch {
	case named && known && !contains(name, machine):
		return container.ClusterName{}, fmt.Errorf("finding the cluster in GKE: %s cannot have the nodes, which are in zone %s of project %s: %w: pass --cluster-name=projects/PROJECT/locations/LOCATION/clusters/CLUSTER, or check --context",
			name, machine.Zone, machine.Project, cloud.ErrOtherCluster)
	case named:
		return name, nil
	case !known:
		return container.ClusterName{}, errors.New("finding the cluster in GKE: no node has a provider ID of Compute Engine: pass --cluster-name=projects/PROJECT/locations/LOCATION/clusters/CLUSTER")
	}
	list, err := p.client.ListClusters(ctx, container.LocationName{Project: machine.Project, Location: "-"})
	if err != nil {
		return container.ClusterName{}, fmt.Errorf("%w; or pass --cluster-name=projects/PROJECT/locations/LOCATION/clusters/CLUSTER", err)
	}
	return chooseCluster(list, nodes, p.options)
}

// chooseCluster returns the cluster of the list that has the API server of the kubeconfig or the machines of the nodes. If none has,
// it returns the only one that may have the nodes, by its region and its pools.
func chooseCluster(list *container.ListClustersResponse, nodes []*corev1.Node, o Options) (container.ClusterName, error) {
	machine, _ := machineOf(nodes)
	pools := poolsOf(nodes)
	var fits []container.ClusterName
	host := ""
	if o.Config != nil {
		if server, err := url.Parse(o.Config.Host); err == nil {
			host = server.Hostname()
		}
	}
	for _, c := range list.Clusters {
		name := container.ClusterName{Project: machine.Project, Location: c.Location, Cluster: c.Name}
		owns, known := ownsMachines(&c, nodes)
		switch named := o.ClusterName == "" || o.ClusterName == c.Name; {
		case !named || !contains(name, machine):
		case c.Endpoint != "" && c.Endpoint == host, owns:
			return name, nil
		case !known && !slices.ContainsFunc(pools, func(pool string) bool { return !hasPool(&c, pool) }):
			fits = append(fits, name)
		}
	}
	const remedy = "pass --cluster-name=projects/PROJECT/locations/LOCATION/clusters/CLUSTER"
	silent := slices.IndexFunc(list.MissingZones, func(zone string) bool { return regionOf(zone) == machine.Region() })
	switch {
	case silent >= 0: // it may have another cluster with these pools
		return container.ClusterName{}, fmt.Errorf("finding the cluster in GKE: zone %s did not answer, and no other is certain to have the cluster of these nodes: %s", list.MissingZones[silent], remedy)
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) > 1:
		return container.ClusterName{}, fmt.Errorf("finding the cluster in GKE: clusters %s and %s both have the node pools %s: %s", fits[0], fits[1], strings.Join(pools, ", "), remedy)
	}
	return container.ClusterName{}, fmt.Errorf("finding the cluster in GKE: project %s has no cluster with the pools of these nodes: %s", machine.Project, remedy)
}

// ownsMachines reports whether an instance group of the cluster has a machine of the nodes. Compute Engine names machines after their
// group: gke-main-workers-1f2e-x9z0 is of gke-main-workers-1f2e-grp. known is false if GKE lists no group or no machine is known.
func ownsMachines(c *container.Cluster, nodes []*corev1.Node) (owns, known bool) {
	for _, pool := range c.NodePools {
		for _, link := range pool.InstanceGroupURLs {
			base, named := strings.CutSuffix(path.Base(link), "-grp")
			for _, node := range nodes {
				machine, isMachine := container.ParseProviderID(node.Spec.ProviderID)
				known = known || named && isMachine
				if named && isMachine && strings.HasPrefix(machine.Name, base+"-") {
					return true, true
				}
			}
		}
	}
	return false, known
}

// contains reports whether the machine may belong to the cluster: it is in the cluster's project and in its zone or region. A
// cluster's project may also be given by its number, which cannot be compared.
func contains(name container.ClusterName, machine container.Instance) bool {
	project := name.Project == machine.Project || strings.Trim(name.Project, "0123456789") == ""
	return project && machine.Region() == regionOf(name.Location)
}

// regionOf returns the region of a zone, or the region itself. A zonal cluster may have nodes in other zones of its region. A region's
// name ends with a digit, and a zone's with a letter.
func regionOf(location string) string {
	last := strings.LastIndexByte(location, '-')
	if last < 0 || strings.TrimRight(location, "0123456789") != location {
		return location
	}
	return location[:last]
}

// machineOf returns the machine of the first node that is one of Compute Engine.
func machineOf(nodes []*corev1.Node) (machine container.Instance, known bool) {
	for _, node := range nodes {
		if machine, known = container.ParseProviderID(node.Spec.ProviderID); known {
			return machine, true
		}
	}
	return machine, false
}

// poolsOf returns the names of the nodes' pools, sorted.
func poolsOf(nodes []*corev1.Node) []string {
	var pools []string
	for _, node := range nodes {
		if name := container.PoolOf(node.Labels); name != "" && !slices.Contains(pools, name) {
			pools = append(pools, name)
		}
	}
	slices.Sort(pools)
	return pools
}

func hasPool(c *container.Cluster, pool string) bool {
	return slices.ContainsFunc(c.NodePools, func(p container.NodePool) bool { return p.Name == pool })
}
