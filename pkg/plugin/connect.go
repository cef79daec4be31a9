package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
)

// gcPercent is the garbage collector's GOGC unless the user sets it. In a large cluster most memory holds objects that
// were read and stay in use. With 50 instead of 100 the heap grows less, for some more CPU.
const gcPercent = 50

// connection is a connection to a cluster, and the cluster's context in the kubeconfig.
type connection struct {
	cluster.Connection
	context string
	api     apiAccess
}

// apiAccess is how the kubeconfig reaches a cluster. A cloud may accept the same credentials and may have named the entries.
type apiAccess struct {
	config *rest.Config
	// names are the names of the kubeconfig's cluster entry and context.
	names []string
}

// connectCluster connects to the cluster that the flags and the kubeconfig name.
func (f *flags) connectCluster(ctx context.Context, warnings io.Writer) (*connection, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	config, err := f.kube.clientConfig().ClientConfig()
	if err != nil {
		return nil, usageError(fmt.Errorf("reading the kubeconfig: %w: check --kubeconfig and --context", err))
	}
	if f.namesNoCluster() {
		return nil, usageError(fmt.Errorf("reading the kubeconfig: no cluster is named in %s: set KUBECONFIG, or pass --kubeconfig",
			strings.Join(f.kube.clientConfig().ConfigAccess().GetLoadingPrecedence(), " or ")))
	}
	conn, err := cluster.Connect(ctx, config, makeUserAgent(), warnings)
	f.conn = &connection{conn, f.currentContext(), apiAccess{config, f.kubeconfigNames()}}
	return f.conn, err
}

// kubeconfigNames returns the names of the cluster entry and of the context that are used.
func (f *flags) kubeconfigNames() []string {
	names := []string{f.currentContext()}
	if entry := f.kube.overrides.Context.Cluster; entry != "" {
		return append([]string{entry}, names...)
	}
	if raw, err := f.kube.clientConfig().RawConfig(); err == nil && raw.Contexts[names[0]] != nil {
		return append([]string{raw.Contexts[names[0]].Cluster}, names...)
	}
	return names
}

// hasWritten reports whether the command has asked the API server to change anything. The cloud is changed only after
// the upgrade is recorded in the cluster.
func (f *flags) hasWritten() bool { return f.conn != nil && f.conn.HasWritten() }

// namesNoCluster reports whether neither flags nor a kubeconfig name a cluster. client-go would connect to
// localhost:8080.
func (f *flags) namesNoCluster() bool {
	loader := f.kube.clientConfig()
	raw, err := loader.RawConfig()
	if err != nil || len(raw.Clusters) > 0 || f.kube.overrides.ClusterInfo.Server != "" || os.Getenv("KUBERNETES_MASTER") != "" {
		return false
	}
	_, err = rest.InClusterConfig()
	return err != nil
}

func (f *flags) currentContext() string {
	if named := f.kube.overrides.CurrentContext; named != "" {
		return named
	}
	raw, err := f.kube.clientConfig().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// readNodePools reads Karpenter's NodePools and NodeClaims.
func (c *connection) readNodePools(ctx context.Context) ([]*nodepool.NodePool, []*nodepool.NodeClaim, error) {
	objects, err := cluster.ReadObjects(ctx, c.Client, inventory.ForNodePools)
	if err != nil {
		return nil, nil, cluster.AddAccessRemedy(err)
	}
	if why := objects.DescribeUnread("nodepools", "nodeclaims"); why != "" {
		return nil, nil, fmt.Errorf("%s of karpenter.sh: ask for a role with these rights (docs/permissions/kubernetes-read.yaml)", why)
	}
	return objects.NodePools, objects.NodeClaims, nil
}

// readView returns the View for lists and plans. It has no pods.
func (c *connection) readView(ctx context.Context) (drain.Snapshot, error) {
	view, err := cluster.ReadView(ctx, c.Client, c.Now)
	if err != nil {
		return drain.Snapshot{}, explainReadError(err)
	}
	return view, nil
}

// explainReadError adds the context and a remedy to an error from reading the cluster.
func explainReadError(err error) error {
	return fmt.Errorf("reading the cluster: %w", cluster.AddAccessRemedy(err))
}
