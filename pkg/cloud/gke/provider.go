package gke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Provider implements cloud.Provider for the node pools of one GKE cluster.
type Provider struct {
	client  *container.Client
	options Options
	cluster container.ClusterName

	mu sync.Mutex
	// nodes are the nodes that New got, until the first reading of the cluster shows that it has them.
	nodes []*corev1.Node
	// targets has the target versions of operations: those that this process started, and those that GKE reported.
	targets map[string]string
}

var _ cloud.Provider = (*Provider)(nil)

// Options configure a Provider.
type Options struct {
	// Config is the kubeconfig's connection to the cluster. If its user runs gke-gcloud-auth-plugin, the plugin's token is also sent to
	// GKE's API.
	Config *rest.Config
	// KubeconfigNames are the names of the kubeconfig's cluster entry and context. gcloud writes GKE's name of the cluster there.
	KubeconfigNames []string
	// ClusterName is the user's name for the cluster, "" if the kubeconfig or the nodes show it.
	ClusterName string
	// UserAgent is sent with each request.
	UserAgent string
}

// New returns the provider for the cluster of the nodes. If neither the user nor the kubeconfig names the cluster in GKE, New sends one
// request to find it. It returns an error if there are no credentials or if the cluster is not found. The error, or that of the first
// reading, is cloud.ErrOtherCluster if the cluster with that name does not have the nodes.
func New(ctx context.Context, nodes []*corev1.Node, o Options) (*Provider, error) {
	token, err := container.FindToken(context.WithoutCancel(ctx), o.Config) // it is renewed during the whole upgrade
	if err != nil {
		return nil, fmt.Errorf("%w, or use node labels with --provider=manual", err)
	}
	client, err := container.New(container.Options{Token: token, UserAgent: o.UserAgent})
	if err != nil {
		return nil, err
	}
	p := &Provider{client: client, options: o, nodes: nodes, targets: map[string]string{}}
	p.cluster, err = p.findCluster(ctx, nodes)
	return p, err
}

// Name implements cloud.Provider.
func (p *Provider) Name() string { return providerName }

// Account implements cloud.Provider.
func (p *Provider) Account(context.Context) (string, error) {
	return fmt.Sprintf("project %s, %s, GKE cluster %s", p.cluster.Project, p.cluster.Location, p.cluster.Cluster), nil
}

// Groups implements cloud.Provider. It returns the pools that have nodes, with the control plane's version as their target.
func (p *Provider) Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	began := time.Now()
	cluster, err := p.readCluster(ctx)
	if err != nil {
		return nil, err
	}
	operations, unread, err := p.readOperations(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var groups []nodegroup.Group
	for _, name := range poolsOf(nodes) {
		i := slices.IndexFunc(cluster.NodePools, func(pool container.NodePool) bool { return pool.Name == name })
		if i < 0 {
			continue // GKE deletes the pool, and the API does not list it any more
		}
		group, err := p.describe(ctx, cluster, &cluster.NodePools[i], "", operations)
		if err != nil {
			return nil, err
		}
		group.Observed, group.Unread = began, append(group.Unread, unread...)
		groups = append(groups, group)
	}
	return groups, nil
}

// Observe implements cloud.Provider.
func (p *Provider) Observe(ctx context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	began := time.Now()
	cluster, err := p.readCluster(ctx)
	if err != nil {
		return nodegroup.Group{}, err
	}
	i := slices.IndexFunc(cluster.NodePools, func(pool container.NodePool) bool { return pool.Name == ref.Name })
	if i < 0 {
		return nodegroup.Group{}, fmt.Errorf("reading node pool %q of %s: %w: list the pools with kubectl nodeupgrade", ref.Name, p.cluster, cloud.ErrNotFound)
	}
	operations, unread, err := p.readOperations(ctx, cluster)
	if err != nil {
		return nodegroup.Group{}, err
	}
	group, err := p.describe(ctx, cluster, &cluster.NodePools[i], ref.To, operations)
	group.Observed, group.Unread = began, append(group.Unread, unread...)
	return group, err
}

func (p *Provider) readCluster(ctx context.Context) (*container.Cluster, error) {
	cluster, err := p.client.GetCluster(ctx, p.cluster)
	if container.ClassOf(err) == container.ClassNotFound {
		return nil, fmt.Errorf("%w: pass --cluster-name=projects/PROJECT/locations/LOCATION/clusters/CLUSTER", err)
	}
	if err != nil {
		return nil, err
	}
	return cluster, p.checkOwner(cluster)
}

// checkOwner returns an error if the first reading shows that the cluster has none of the nodes: another cluster of the region may have
// pools of the same names. Later readings are not checked, because an upgrade replaces the nodes.
func (p *Provider) checkOwner(cluster *container.Cluster) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owns, known := ownsMachines(cluster, p.nodes); known && !owns {
		return fmt.Errorf("reading cluster %s: %w: none of its instance groups has a machine of the nodes: pass --cluster-name=projects/PROJECT/locations/LOCATION/clusters/CLUSTER, or check --context",
			p.cluster, cloud.ErrOtherCluster)
	}
	p.nodes = nil
	return nil
}

// readOperations lists the operations of the cluster's location. If the user may not list them and GKE is changing no pool, unread
// says so instead of an error.
func (p *Provider) readOperations(ctx context.Context, cluster *container.Cluster) (operations []container.Operation, unread []string, err error) {
	list, err := p.client.ListOperations(ctx, p.cluster.Parent())
	switch changing := slices.ContainsFunc(cluster.NodePools, isChanging); {
	case err == nil && len(list.MissingZones) > 0 && changing:
		return nil, nil, fmt.Errorf("listing the operations of %s: zone %s did not answer: run the command again", p.cluster, list.MissingZones[0])
	case err == nil && len(list.MissingZones) > 0:
		return list.Operations, []string{fmt.Sprintf("how the last upgrade ended may not be known: zone %s did not answer", list.MissingZones[0])}, nil
	case err == nil:
		return list.Operations, nil, nil
	case container.ClassOf(err) == container.ClassDenied && !changing:
		return nil, []string{fmt.Sprintf("how the last upgrade ended is not known: %v", err)}, nil
	}
	return nil, nil, err
}

// isChanging reports whether GKE may be changing the pool.
func isChanging(pool container.NodePool) bool {
	return pool.Status != container.PoolRunning && pool.Status != container.PoolRunningWithError
}

// describe returns the group of a pool. to is the user's --to, "" for the version of the control plane.
func (p *Provider) describe(ctx context.Context, cluster *container.Cluster, pool *container.NodePool, to string, operations []container.Operation) (nodegroup.Group, error) {
	name := container.PoolName{ClusterName: p.cluster, Pool: pool.Name}
	op := chooseOperation(name, operations)
	operation, err := p.describeNewest(ctx, name, pool, op)
	if err != nil {
		return nodegroup.Group{}, err
	}
	now := time.Now()
	operation.Stage = describeStage(op, pool, now)
	setSoak(&operation, pool)
	wanted, refused, err := p.findWanted(ctx, cluster, to)
	if err != nil {
		return nodegroup.Group{}, err
	}
	group := describePool(name, pool, wanted, operation)
	group.Managed.Maintenance = describeMaintenance(cluster, pool, now)
	for _, reason := range []string{refuseCluster(cluster), refused.reason, refuseStrategy(name, pool), refuseOtherOperation(name, &operation)} {
		if group.Refusal == "" {
			group.Refusal = reason
		}
	}
	group.AbsentTarget = refused.absent
	return group, nil
}

// findWanted returns the version that the user wants. If the pool cannot get it, wanted is the version of the control plane and refused
// has the reason.
func (p *Provider) findWanted(ctx context.Context, cluster *container.Cluster, to string) (wanted string, refused refusedError, err error) {
	if to == "" || to == cluster.CurrentMasterVersion {
		return cluster.CurrentMasterVersion, refused, nil
	}
	valid, err := p.client.GetServerConfig(ctx, p.cluster.Parent())
	if err != nil {
		return "", refused, err
	}
	wanted, err = resolveTarget(to, cluster.CurrentMasterVersion, validVersions(cluster, valid))
	if errors.As(err, &refused) {
		return cluster.CurrentMasterVersion, refused, nil
	}
	return wanted, refused, err
}

// validVersions returns the node versions that GKE offers to the cluster: those of its release channel and those without a channel.
func validVersions(cluster *container.Cluster, config *container.ServerConfig) []string {
	versions := slices.Clone(config.ValidNodeVersions)
	for _, channel := range config.Channels {
		if cluster.ReleaseChannel != nil && channel.Channel == cluster.ReleaseChannel.Channel {
			versions = append(versions, channel.ValidVersions...)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// describeNewest describes the pool's newest operation. If its target is not known, it asks GKE for it.
func (p *Provider) describeNewest(ctx context.Context, name container.PoolName, pool *container.NodePool, op *container.Operation) (nodegroup.Operation, error) {
	if op == nil || !isUpgradeOfPool(op) {
		return describeOperation(name, op, ""), nil
	}
	target := p.knownTarget(op.Name)
	if target == "" {
		target = findTarget(op, pool, nil)
	}
	if target == "" {
		info, err := p.client.FetchNodePoolUpgradeInfo(ctx, name)
		switch {
		case err == nil:
			target = findTarget(op, pool, info.UpgradeDetails)
		case isOver(op): // the pool's version is that of its last upgrade
		case container.ClassOf(err) == container.ClassDenied, container.ClassOf(err) == container.ClassNotFound, container.ClassOf(err) == container.ClassInvalid:
		default:
			return nodegroup.Operation{}, err
		}
	}
	if target == "" {
		target = pool.Version // new nodes of a pool get this version
	} else {
		p.rememberTarget(op.Name, target)
	}
	return describeOperation(name, op, target), nil
}

func (p *Provider) knownTarget(operation string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets[operation]
}

func (p *Provider) rememberTarget(operation, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets[operation] = version
}

// Belongs implements cloud.Provider. It goes by the node's label and its provider ID.
func (p *Provider) Belongs(group *nodegroup.Group, node *corev1.Node) bool {
	machine, known := container.ParseProviderID(node.Spec.ProviderID)
	return known && contains(p.cluster, machine) && container.PoolOf(node.Labels) == group.Name
}

// Outdated implements cloud.Provider: a node is outdated if its kubelet does not have the wanted version.
func (p *Provider) Outdated(group *nodegroup.Group, node *corev1.Node) bool {
	return node.Status.NodeInfo.KubeletVersion != group.Wanted.Kubernetes
}
