package karpenter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane/programs"
)

// cluster is a control plane on which Karpenter's own controller runs, with its kwok provider.
type cluster struct {
	t                           *testing.T
	kubeconfig, kubectl, plugin string
}

// startCluster starts a control plane with Karpenter. Karpenter's static pools are an alpha feature, which is switched on.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	plane := controlplane.ForTest(t, controlplane.Options{})
	set, err := programs.Get(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, kubeconfig: plane.Kubeconfig(), kubectl: set.Path("kubectl")}
	if c.plugin, err = programs.Plugin(t.Context()); err != nil {
		t.Fatal(err)
	}
	source := goOutput(t, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter")
	c.must("apply", "--server-side", "-f", filepath.Join(source, "kwok/charts/crds"), "-f", filepath.Join(source, "kwok/apis/crds"))
	c.must("wait", "--for=condition=Established", "--all", "crd")
	c.startKarpenter(buildKarpenter(t))
	return c
}

// buildKarpenter builds Karpenter with its kwok provider and returns the path of the program.
func buildKarpenter(t *testing.T) string {
	t.Helper()
	root, err := programs.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, programs.Output, "karpenter")
	goOutput(t, "build", "-ldflags=-s -w", "-o", program, "sigs.k8s.io/karpenter/kwok")
	return program
}

func goOutput(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// startKarpenter runs the controller until the test ends. If the test fails, the end of its log is shown.
func (c *cluster) startKarpenter(program string) {
	c.t.Helper()
	log := &bytes.Buffer{}
	cmd := exec.CommandContext(c.t.Context(), program)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "DISABLE_LEADER_ELECTION=true", "METRICS_PORT=0", "HEALTH_PROBE_PORT=0", "SYSTEM_NAMESPACE=default", "FEATURE_GATES=StaticCapacity=true")
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Wait() // it was killed
		if text := log.String(); c.t.Failed() {
			c.t.Logf("the end of Karpenter's log:\n%s", text[max(0, len(text)-4000):])
		}
	})
}

// run runs a program with the cluster's kubeconfig and returns its output and exit code.
func (c *cluster) run(program, input string, args ...string) (output string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Env = strings.NewReader(input), append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		c.t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs kubectl and fails the test if kubectl fails.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	out, code := c.run(c.kubectl, "", args...)
	if code != 0 {
		c.t.Fatalf("kubectl %s: exit code %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}

// apply creates or changes objects.
func (c *cluster) apply(manifests string) {
	c.t.Helper()
	if out, code := c.run(c.kubectl, manifests, "apply", "-f", "-"); code != 0 {
		c.t.Fatalf("kubectl apply: exit code %d: %s\n%s", code, out, manifests)
	}
}

// status is the part of the document of status that the tests read.
type status struct {
	Run    string
	Result string
	Status struct {
		Total, Replaced, Outdated int
	}
	Blocked []struct {
		Node, Kind, Detail string
		Pod                struct{ Namespace, Name string }
		Budget             struct{ Namespace, Name string }
	}
	Remaining        struct{ Earliest, Latest string }
	RemainingUnknown string
	Pace             []struct {
		From  time.Time
		Nodes int
	}
}

// status returns the status of a NodePool, and the exit code with --exit-code.
func (c *cluster) status(pool string) (status, int) {
	c.t.Helper()
	out, code := c.run(c.plugin, "", "status", "karpenter/"+pool, "--exit-code", "-o", "json")
	var s status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		c.t.Fatalf("status of %s: exit code %d: %v\n%s", pool, code, err, out)
	}
	return s, code
}

// waitFor waits until ok returns true.
func (c *cluster) waitFor(what string, limit time.Duration, ok func() bool) {
	c.t.Helper()
	deadline, tick := time.After(limit), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("waiting %s for %s: it did not happen", limit, what)
		}
	}
}

// countNodes returns how many Ready nodes of the pool have the label image with the value.
func (c *cluster) countNodes(pool, image string) int {
	ready := c.must("get", "nodes", "-l", fmt.Sprintf("karpenter.sh/nodepool=%s,image=%s", pool, image), "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
	return strings.Count(ready, "True")
}
