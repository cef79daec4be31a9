package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/deadline"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// requestsPerSecond is the client's own limit. client-go's default of 5 would be felt on every
// node; what protects the API server is its priority and fairness, not a guess made here.
const requestsPerSecond = 200

// gcPercent is how much garbage there may be beside what is kept, in percent, unless GOGC says
// otherwise. Of a large cluster most of what is kept is what was read, and stays: half of it again
// is memory enough, for some more CPU.
const gcPercent = 50

// connection is a cluster one can talk to.
type connection struct {
	client  kubernetes.Interface
	context string
	server  string
	// version is the API server's, e.g. "v1.36.3".
	version string
	clock   *serverClock
}

// connect logs in to the cluster and asks for its version, so that a server that cannot be reached
// is told at once.
func (o *options) connect(ctx context.Context) (*connection, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, usage(fmt.Errorf("reading the kubeconfig: %w: check --kubeconfig and --context", err))
	}
	if o.unconfigured() {
		return nil, usage(fmt.Errorf("reading the kubeconfig: no cluster is named in %s: set KUBECONFIG, or pass --kubeconfig",
			strings.Join(o.config.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence(), " or ")))
	}
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent()
	config.QPS, config.Burst = requestsPerSecond, 2*requestsPerSecond
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clock := &serverClock{}
	config.Wrap(deadline.Transport)
	config.Wrap(clock.follow)
	config.Wrap(retryReads)
	config.WarningHandler = rest.NewWarningWriter(o.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	info, err := discovery.ToDiscoveryInterfaceWithContext(client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("reaching the API server at %s: %w: check --context and the network", config.Host, err)
	}
	return &connection{client: client, context: o.contextName(), server: config.Host, version: info.GitVersion, clock: clock}, nil
}

// unconfigured reports whether nothing names a cluster. The library takes the port 8080 of this
// machine then.
func (o *options) unconfigured() bool {
	loader := o.config.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil || len(raw.Clusters) > 0 || *o.config.APIServer != "" || os.Getenv("KUBERNETES_MASTER") != "" {
		return false
	}
	_, err = rest.InClusterConfig()
	return err != nil
}

func (o *options) contextName() string {
	if o.config.Context != nil && *o.config.Context != "" {
		return *o.config.Context
	}
	raw, err := o.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// read takes the View that lists and plans rest on, but for its pods.
func (c *connection) read(ctx context.Context) (upgrade.View, error) {
	view, err := cluster.Read(ctx, c.client)
	if err != nil {
		return upgrade.View{}, unreadable(err)
	}
	return view, nil
}

// unreadable is the error of a cluster that was not read.
func unreadable(err error) error {
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: ask for a role that allows it (see Permissions in the README)", err)
	}
	return fmt.Errorf("reading the cluster: %w", err)
}

// session is a cluster as it was read, and the provider of its nodes.
type session struct {
	*connection
	provider cloud.Provider
	view     upgrade.View
	// narrow sessions need no forecast, for which pods of all nodes count, and read those of their
	// group alone.
	narrow bool
	// background is read with the first plan.
	background *cluster.Background
	// account is whose cloud credentials are used, for people.
	account string
}

// readPods fills in the pods of the view: of the whole cluster once, or of the group's outdated
// nodes.
func (s *session) readPods(ctx context.Context, members []nodegroup.Member) error {
	var err error
	switch {
	case s.narrow:
		s.view.Pods, err = cluster.PodsOn(ctx, s.client, outdatedNodes(members))
	case len(s.view.Pods) == 0:
		s.view.Pods, err = cluster.Pods(ctx, s.client)
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}

// outdatedNodes names the nodes that would be drained.
func outdatedNodes(members []nodegroup.Member) []string {
	var names []string
	for i := range members {
		if node := members[i].Node; node != nil && members[i].Outdated {
			names = append(names, node.Name)
		}
	}
	return names
}

// open reads the cluster and chooses the provider.
func (o *options) open(ctx context.Context, conn *connection) (*session, error) {
	view, err := conn.read(ctx)
	if err != nil {
		return nil, err
	}
	provider, err := o.providerFor(ctx, view.Nodes)
	if err != nil {
		return nil, err
	}
	return &session{connection: conn, provider: provider, view: view}, nil
}

// errNoNode is a --node that is not in the cluster.
var errNoNode = errors.New("no such node")
