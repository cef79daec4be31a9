package stage

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane/programs"
)

// Stage is a cluster with a cloud behind it, and the plugin in front.
type Stage struct {
	Cluster *controlplane.Cluster
	Cloud   *awscloud.Cloud
	// Dir holds the plugin and the logs.
	Dir string
	// Namespace is where workloads go, and all that the evidence is about.
	Namespace string
}

// Options of a stage. The zero value is good for tests.
type Options struct {
	// Log is told what is being built and started; nil for no one.
	Log io.Writer
	// Cloud are the stand-in's times; Nodes and EKS.Drainer are filled in.
	Cloud awscloud.Options
	// Cluster are the control plane's options.
	Cluster controlplane.Options
}

// New builds what has to be built and starts it. The stage runs until Close.
func New(ctx context.Context, o Options) (*Stage, error) {
	dir, err := os.MkdirTemp("", "nodeupgrade-stage-")
	if err != nil {
		return nil, fmt.Errorf("making the stage's folder: %w", err)
	}
	s := &Stage{Dir: dir, Namespace: metav1.NamespaceDefault}
	if err := s.start(ctx, o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) start(ctx context.Context, o Options) error {
	if err := copyPlugin(ctx, filepath.Join(s.Dir, "kubectl-nodeupgrade")); err != nil {
		return err
	}
	root, err := programs.Root(ctx)
	if err != nil {
		return err
	}
	o.Cluster.Log = o.Log
	if s.Cluster, err = controlplane.Start(ctx, o.Cluster); err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	for name, path := range map[string]string{
		"kubectl": s.Cluster.Kubectl(), completion: filepath.Join(root, completion),
	} {
		if err := os.Symlink(path, filepath.Join(s.Dir, name)); err != nil {
			return fmt.Errorf("putting %s on the stage's path: %w", name, err)
		}
	}
	o.Cloud.Nodes = awscloud.KubeNodes(s.Cluster.Client())
	o.Cloud.EKS.Drainer = awscloud.KubectlDrainer(s.Cluster.Client(), s.Cluster.Kubectl(), s.Cluster.Kubeconfig())
	if s.Cloud, err = awscloud.Start(o.Cloud); err != nil {
		return fmt.Errorf("starting the cloud: %w", err)
	}
	who, err := Published(ctx, "aws-read.json", "aws-operate.json")
	if err != nil {
		return err
	}
	return s.Cloud.SetCaller(awscloud.AccessKey, who)
}

// Published returns a caller with policies of docs/permissions, filled in for all groups, templates and clusters. The
// plugin has those for upgrades, unless a test gives it another access key: what it does beyond them is refused.
func Published(ctx context.Context, policies ...string) (awscloud.Caller, error) {
	var who awscloud.Caller
	root, err := programs.Root(ctx)
	if err != nil {
		return who, err
	}
	fill := strings.NewReplacer("/GROUP\"", "/*\"", "/TEMPLATE\"", "/*\"", "/CLUSTER/", "/*/")
	for _, file := range policies {
		text, err := os.ReadFile(filepath.Join(root, "docs/permissions", file))
		if err != nil {
			return who, fmt.Errorf("reading what the plugin may do: %w", err)
		}
		who.Policies = append(who.Policies, []byte(fill.Replace(string(text))))
	}
	return who, nil
}

// completion is the script that kubectl completes our arguments with.
const completion = "kubectl_complete-nodeupgrade"

// Close stops everything and removes the stage's folder.
func (s *Stage) Close() {
	if s.Cloud != nil {
		s.Cloud.Stop()
	}
	if s.Cluster != nil {
		s.Cluster.Stop()
	}
	os.RemoveAll(s.Dir)
}

// In is the stage with another namespace, which it creates. It ends with the stage that it comes from.
func (s *Stage) In(ctx context.Context, namespace string) (*Stage, error) {
	client := s.Cluster.Client().CoreV1()
	_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating namespace %q: %w", namespace, err)
	}
	// Pods are refused until the namespace has its service account.
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, StartupLimit, true, func(ctx context.Context) (bool, error) {
		_, err := client.ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignore(apierrors.IsNotFound, err)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the service account of namespace %q: %w", namespace, err)
	}
	other := *s
	other.Namespace = namespace
	return &other, nil
}

func ignore(expected func(error) bool, err error) error {
	if expected(err) {
		return nil
	}
	return err
}

// ForTest is New for as long as the test runs; it skips the test under -short.
func ForTest(t testing.TB, o Options) *Stage {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// copyPlugin builds the plugin and copies it, so that a later build does not change the plugin of this stage.
func copyPlugin(ctx context.Context, to string) error {
	path, err := programs.Plugin(ctx)
	if err != nil {
		return fmt.Errorf("building the plugin: %w", err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("copying the plugin: %w", err)
	}
	return os.WriteFile(to, binary, 0o755)
}

// StartupLimit is how long the cluster may take to settle before anything is measured, or after all was done: longer than the
// two minutes for which the disruption controller holds a pod to be disrupted that it has not seen go.
const StartupLimit = 3 * time.Minute
