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
)

// gcPercent is how much garbage there may be beside what is kept, in percent, unless GOGC says
// otherwise. Of a large cluster most of what is kept is what was read, and stays: half of it again
// is memory enough, for some more CPU.
const gcPercent = 50

// connection is a cluster one can talk to, and the kubeconfig's name of it.
type connection struct {
	cluster.Connection
	context string
}

// connectCluster logs in to the cluster that the flags name.
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
	f.conn = &connection{conn, f.currentContext()}
	return f.conn, err
}

// hasWritten reports whether the command has asked the API server to change anything. A cloud is changed only after the upgrade is
// recorded there.
func (f *flags) hasWritten() bool { return f.conn != nil && f.conn.HasWritten() }

// namesNoCluster reports whether nothing names a cluster. The library takes the port 8080 of this
// machine then.
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

// readView takes the View that lists and plans rest on, but for its pods.
func (c *connection) readView(ctx context.Context) (drain.Snapshot, error) {
	view, err := cluster.ReadView(ctx, c.Client, c.Now)
	if err != nil {
		return drain.Snapshot{}, explainReadError(err)
	}
	return view, nil
}

// explainReadError is the error of a cluster that was not read.
func explainReadError(err error) error {
	return fmt.Errorf("reading the cluster: %w", cluster.AdviseDenied(err))
}
