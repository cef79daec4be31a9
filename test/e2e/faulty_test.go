package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestCheckFindsFaultsAndItsCommandsFixThem runs check on ten groups with one fault each, which testdata/faulty/RULE.yaml contains.
// check must find the fault. If the fault blocks upgrades, an upgrade must be refused. After the commands that check prints were run,
// check must not find the fault, and the upgrade must succeed. The tool has only the rights of docs/permissions.
func TestCheckFindsFaultsAndItsCommandsFixThem(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	operator := allowOperator(t, shared)
	files, err := filepath.Glob("testdata/faulty/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("testdata/faulty has %d files, want at least 10: %v", len(files), err)
	}
	for _, file := range files {
		rule := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(rule, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			s := openEmptyCase(t, shared, fixture.Group{Name: "faulty-" + strings.ToLower(rule), Zones: []string{"us-east-1a", "us-east-1b"}, Counts: []int{1, 1}, Max: 6})
			s.applyManifest(file)
			s.startObserving()
			c := &operatorCase{testCase: s, kubeconfig: operator}
			found := c.check(rule)
			if len(found) == 0 {
				t.Fatalf("check does not find %s", rule)
			}
			if found[0].Severity == preflight.Block {
				result := c.run(s.group, "--yes", "--parallel-groups", "--progress=json")
				if result.Code != 3 || !strings.Contains(result.Stderr, "--skip-check="+rule) || len(s.nodes()) != 2 {
					t.Errorf("the upgrade ends with exit code %d and %d nodes: %s", result.Code, len(s.nodes()), result.Stderr)
				}
			}
			c.runPrintedCommands()
			s.settle()
			if found = c.check(rule); len(found) > 0 {
				t.Fatalf("after the printed commands were run, check still finds %v", found)
			}
			if result := c.run(s.group, "--yes", "--parallel-groups", "--progress=json", "--settle=1s"); result.Code != 0 {
				t.Errorf("the upgrade ends with exit code %d: %s", result.Code, result.Stderr)
			}
		})
	}
}

// applyManifest creates the objects of a manifest file in the case's namespace. It replaces GROUP with the name of the case's group.
func (s *testCase) applyManifest(file string) {
	s.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	placed := filepath.Join(s.t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(placed, bytes.ReplaceAll(text, []byte("GROUP"), []byte(s.group)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if result, err := s.Kubectl(s.t.Context(), "apply", "-n", s.Namespace, "-f", placed); err != nil || result.Code != 0 {
		s.t.Fatalf("%v: %s", err, result.Stderr)
	}
}

// allowOperator gives the published roles to the user "operator", and returns the user's kubeconfig.
func allowOperator(t *testing.T, s *fixture.Fixture) (kubeconfig string) {
	t.Helper()
	kubeconfig, err := s.Cluster.KubeconfigFor("operator")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		applyRoles,
		{"create", "clusterrolebinding", "operator-reads", "--clusterrole=nodeupgrade-read", "--user=operator"},
		{"create", "clusterrolebinding", "operator-operates", "--clusterrole=nodeupgrade-operate", "--user=operator"},
		{"create", "rolebinding", "operator-reads", "--role=nodeupgrade-read", "--user=operator", "-n", "kube-system"},
		{"create", "rolebinding", "operator-operates", "--role=nodeupgrade-operate", "--user=operator", "-n", "kube-system"},
	} {
		if result, err := s.Kubectl(t.Context(), args...); err != nil || result.Code != 0 {
			t.Fatalf("%v: %v: %s", args, err, result.Stderr)
		}
	}
	return kubeconfig
}

// operatorCase is a case in which the tool runs with a user's kubeconfig.
type operatorCase struct {
	*testCase
	kubeconfig string
}

// run runs the tool and waits until it exits.
func (s *operatorCase) run(args ...string) fixture.Result {
	s.t.Helper()
	var out, errOut bytes.Buffer
	code, err := s.Start(s.t.Context(), &out, &errOut, []string{"KUBECONFIG=" + s.kubeconfig}, append([]string{"nodeupgrade"}, args...)...).Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	return fixture.Result{Stdout: out.String(), Stderr: errOut.String(), Code: code}
}

// check runs the command check and returns its findings of the rule.
func (s *operatorCase) check(rule string) []preflight.Finding {
	s.t.Helper()
	result := s.run("check", s.group, "-o", "json")
	var r report.CheckReport
	if err := json.Unmarshal([]byte(result.Stdout), &r); err != nil {
		s.t.Fatalf("%v: %s", err, result.Stderr)
	}
	if i := slices.IndexFunc(r.Findings, func(f preflight.Finding) bool { return f.Rule == "RBAC001" || f.Severity == preflight.Unknown }); i >= 0 {
		s.t.Errorf("with the published roles check cannot read everything: %s", r.Findings[i])
	}
	if worst := r.WorstSeverity(); (result.Code == 3) != worst.IsAtLeast(preflight.Error) {
		s.t.Errorf("exit code %d, and the worst finding is of severity %q", result.Code, worst)
	}
	return slices.DeleteFunc(r.Findings, func(f preflight.Finding) bool { return f.Rule != rule })
}

// runPrintedCommands runs the commands that "check -o patch" prints, unchanged, as an administrator.
func (s *operatorCase) runPrintedCommands() {
	s.t.Helper()
	result := s.run("check", s.group, "-o", "patch", "--fail-on=never")
	if result.Code != 0 || !strings.Contains(result.Stdout, "kubectl ") {
		s.t.Fatalf("exit code %d: %s%s", result.Code, result.Stdout, result.Stderr)
	}
	cmd := exec.CommandContext(s.t.Context(), "sh", "-e")
	cmd.Env, cmd.Stdin = s.Env(), strings.NewReader(result.Stdout)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatal(fmt.Errorf("running\n%s\n%w: %s", result.Stdout, err, out))
	}
}
