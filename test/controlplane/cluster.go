package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane/programs"
)

//go:embed stages.yaml
var stages string

//go:embed audit-policy.yaml
var auditPolicy string

const (
	startTimeout = 2 * time.Minute
	pollInterval = 20 * time.Millisecond
	portAttempts = 5
)

// Options are the options of a cluster. Most tests can use the zero value.
type Options struct {
	// Log gets the progress of building and starting. Nil means no output.
	Log io.Writer
	// Dir is an empty folder for the cluster's data, logs and kubeconfigs. [Cluster.Stop] keeps it. If it is "", a temporary
	// folder is used, which Stop removes.
	Dir string
	// AuditPolicy is the API server's audit policy, in YAML. The default is audit-policy.yaml.
	AuditPolicy string
	// NodeMonitorGrace is the time without a heartbeat after which a node is NotReady: at least 2 s, by default 10 s. Leases are
	// renewed five times in this time. Raise it for hundreds of nodes.
	NodeMonitorGrace time.Duration
	// ControllerQPS and ControllerBurst limit the requests per second of the controller manager and of the scheduler; defaults
	// 500 and 1000. Kubernetes' own defaults, 20 and 30, would determine how fast many pods move.
	ControllerQPS, ControllerBurst int
	// ReplicaSetSyncs is how many ReplicaSets the controller manager reconciles in parallel; default 20.
	ReplicaSetSyncs int
	// KWOKParallelism is how many pods, and how many nodes, KWOK changes in parallel; default 16.
	KWOKParallelism int
	// Seed, unless nil, fills etcd before the API server starts. This is faster than requests.
	Seed func(*Seed) error
	// OnlyAPIServer starts only etcd and the API server: no controllers, no scheduler and no kubelets.
	OnlyAPIServer bool
	// ServiceAccounts enables the admission plugin ServiceAccount: a pod needs its service account, and gets a volume with a token.
	// Without the plugin, pods can be created before a new namespace has its service account.
	ServiceAccounts bool
	// ports returns the API server's port. If it is nil, a free port is used.
	ports func() (int, error)
}

// withDefaults fills the empty fields.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.AuditPolicy = orDefault(o.AuditPolicy, auditPolicy)
	o.NodeMonitorGrace = orDefault(o.NodeMonitorGrace, 10*time.Second)
	o.ControllerQPS = orDefault(o.ControllerQPS, 500)
	o.ControllerBurst = orDefault(o.ControllerBurst, 1000)
	o.ReplicaSetSyncs = orDefault(o.ReplicaSetSyncs, 20)
	o.KWOKParallelism = orDefault(o.KWOKParallelism, 16)
	if o.ports == nil {
		o.ports = freePort
	}
	return o
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Cluster is a running control plane.
type Cluster struct {
	options   Options
	programs  programs.Set
	authority *authority
	dir       string
	port      int
	admin     *rest.Config
	client    kubernetes.Interface
	nodes     atomic.Int32 // number of nodes added so far
	stop      sync.Once
	stopping  chan struct{}
	processes []*process
	audit     auditLog
}

// Start builds the programs if necessary, and starts a control plane on a free port of the loopback interface. It returns when
// pods can be created in the namespace "default", or, with OnlyAPIServer, when the API server is ready. ctx limits only the start: the
// cluster runs until [Cluster.Stop], or until this process exits. On other systems than Linux, a killed process leaves the
// cluster running.
//
// Errors: those of [programs.Get]; a component exited, with the end of its log; the control plane was not ready when ctx ended or
// after two minutes.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options = options.withDefaults()
	if options.NodeMonitorGrace < 2*time.Second {
		return nil, fmt.Errorf("starting the control plane: the node monitor's grace is %s: it must be 2s or more", options.NodeMonitorGrace)
	}
	set, err := programs.Get(ctx, options.Log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()

	start := time.Now()
	c := &Cluster{stopping: make(chan struct{}), options: options, programs: set}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	fmt.Fprintf(options.Log, "control plane: ready in %s at %s, in %s\n",
		time.Since(start).Round(time.Millisecond), c.admin.Host, c.dir)
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.writeConfigFiles(); err != nil {
		return err
	}
	etcd, err := c.startComponent("etcd", etcdArgs())
	if err != nil {
		return err
	}
	ctx, cancel := cancelOnExit(ctx, etcd)
	defer cancel()
	if err := c.fillEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := writeKubeconfig(c.Kubeconfig(), c.admin, adminUser); err != nil || c.options.OnlyAPIServer {
		return err
	}
	if err := c.startClients(ctx); err != nil {
		return err
	}
	go c.restartDropped()
	return nil
}

func (c *Cluster) fillEtcd(ctx context.Context) error {
	if c.options.Seed == nil {
		return nil
	}
	seed := newSeed(ctx, c.dir)
	if err := poll(ctx, seed.ping); err != nil {
		return fmt.Errorf("waiting for etcd: %w", err)
	}
	if err := errors.Join(c.options.Seed(seed), seed.close()); err != nil {
		return fmt.Errorf("filling etcd: %w", err)
	}
	return nil
}

// writeConfigFiles writes the files that do not depend on the API server's port.
func (c *Cluster) writeConfigFiles() (err error) {
	if c.dir, err = clusterDir(c.options.Dir); err != nil {
		return err
	}
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	serving, err := c.authority.issueServerCert()
	if err != nil {
		return err
	}
	accountKey, err := newKey()
	if err != nil {
		return err
	}
	accountPEM, err := encodeKey(accountKey)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		caFile:          c.authority.pem,
		servingCertFile: serving.cert,
		servingKeyFile:  serving.key,
		accountKeyFile:  accountPEM,
		policyFile:      []byte(c.options.AuditPolicy),
		kwokFile:        []byte(kwokConfig(c.options, c.programs.Version)),
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing the configuration: %w", err)
		}
	}
	return nil
}

// clusterDir creates the cluster's folder, checks that it is empty and returns its absolute path.
func clusterDir(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "controlplane-")
		if err != nil {
			return "", fmt.Errorf("creating the cluster's folder: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the cluster's folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cluster's folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("reading the cluster's folder: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("using %s for a cluster: it is not empty: choose another folder", dir)
	}
	return dir, nil
}

func (c *Cluster) startComponent(name string, args []string) (*process, error) {
	p, err := startProcess(c.dir, c.programs.Path(name), args)
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return p, err
}

// startAPIServer starts the API server on a free port and waits until it is ready. The API server cannot inherit an open socket,
// so another process may use the port first. In that case, startAPIServer tries another port.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	admin, err := c.authority.issueClientCert(adminUser, adminGroup)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := c.tryAPIServer(ctx, admin)
		if err == nil || attempt == portAttempts || !isPortTaken(err) {
			return err
		}
		c.processes = c.processes[:len(c.processes)-1] // the process has exited
	}
}

func (c *Cluster) tryAPIServer(ctx context.Context, admin keyPair) (err error) {
	if c.port, err = c.options.ports(); err != nil {
		return fmt.Errorf("looking for a free port: %w", err)
	}
	c.admin = c.restConfigFor(admin)
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	server, err := c.startComponent("kube-apiserver", apiServerArgs(c.port, c.options))
	if err != nil {
		return err
	}
	return c.waitReady(ctx, server)
}

func (c *Cluster) waitReady(ctx context.Context, server *process) error {
	ctx, cancel := cancelOnExit(ctx, server)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// isPortTaken reports whether the API server exited because its port was in use.
func isPortTaken(err error) bool {
	return strings.Contains(err.Error(), "address already in use")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// startClients starts the controller manager, the scheduler and KWOK, and waits until pods can be created.
func (c *Cluster) startClients(ctx context.Context) error {
	var clients []*process
	for _, component := range []struct {
		name, user string
		args       []string
	}{
		{"kube-controller-manager", controllerManagerUser, controllerManagerArgs(c.options)},
		{"kube-scheduler", schedulerUser, schedulerArgs(c.options)},
		{"kwok", kwokUser, kwokArgs(c.options)},
	} {
		if _, err := c.KubeconfigFor(component.user, adminGroup); err != nil {
			return err
		}
		p, err := c.startComponent(component.name, component.args)
		if err != nil {
			return err
		}
		clients = append(clients, p)
	}
	ctx, cancel := cancelOnExit(ctx, clients...)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// poll calls ready until it returns nil. If ctx ends first, it returns the last error of ready and the cause of ctx.
func poll(ctx context.Context, ready func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		last = ready(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", last, context.Cause(ctx))
}

// Stop kills the cluster's processes and waits until they have exited. It removes the cluster's folder if [Options] did not name it.
// Further calls do nothing.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		close(c.stopping)
		killAll(c.processes)
		if c.options.Dir == "" && c.dir != "" {
			// A remaining file in the temporary folder must not fail a test.
			_ = os.RemoveAll(c.dir)
		}
	})
}

// Kubeconfig returns the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, adminFile) }

// Kubectl returns the path of a kubectl with the control plane's version.
func (c *Cluster) Kubectl() string { return c.programs.Path("kubectl") }

// AuditLog returns the path of the API server's audit log, one JSON object a line; see [Cluster.AuditEvents].
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, auditFile) }

// RESTConfig returns an administrator's configuration for the API server. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Client returns an administrator's client. All callers share it.
func (c *Cluster) Client() kubernetes.Interface { return c.client }
