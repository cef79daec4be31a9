package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// closedBudget returns a server with two groups. Group blue has a pod under a budget that never allows an eviction.
func closedBudget() *apiServer {
	s := twoGroups()
	s.pods = []corev1.Pod{*build.Pod("web-0", build.App("web"), build.On("b1")), *build.Pod("web-1", build.App("web"), build.On("b1"))}
	s.budgets = []policyv1.PodDisruptionBudget{*build.Budget("web", build.Selecting(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}), build.Counts(2, 2, 2))}
	return s
}

func TestCheckPrintsFindingsAndSetsExitCode(t *testing.T) {
	const current = "--current=image=v3"
	cases := map[string]struct {
		args   []string
		change func(*apiServer)
		code   int
		stdout []string
		stderr string
	}{
		"a budget that blocks":         {[]string{"check", "blue", current}, nil, 3, []string{"Group       blue", "block", "PDB001", "pod shop/web-0 and 1 more", "PDB shop/web", "--explain PDB001"}, ""},
		"which does not count":         {[]string{"check", "blue", current, "--skip-check=pdb001"}, nil, 0, []string{"No rule found anything"}, ""},
		"which an annotation explains": {[]string{"check", "blue", current}, annotateFinding, 0, []string{"does not count: it is scaled up on Sunday"}, ""},
		"never":                        {[]string{"check", "blue", current, "--fail-on=never"}, nil, 0, []string{"PDB001"}, ""},
		"from warnings on":             {[]string{"check", "blue", current, "--skip-check=PDB001", "--fail-on=info"}, mayOnlyRead, 3, []string{"RBAC001", "you may not watch nodes"}, ""},
		"what mends it":                {[]string{"check", "blue", current, "-o", "patch", "--fail-on=never"}, nil, 0, []string{"# PDB001 ", "kubectl patch -n shop pdb web --type=merge -p '{"}, ""},
		"all groups":                   {[]string{"check", "-A", "--current=image=v3"}, nil, 3, []string{"Group       blue", "Group       green"}, ""},
		"all groups and one":           {[]string{"check", "blue", "-A", current}, nil, 2, nil, "-A and a group: use either"},
		"no group that is known":       {[]string{"check", "bleu", current}, nil, 2, nil, `no node group "bleu"`},
		"no node is outdated":          {[]string{"check", "green", "--current=image=v2"}, nil, 0, []string{"No node is outdated", "--all-nodes"}, ""},
		"as if all were":               {[]string{"check", "blue", "--current=image=v1", "--all-nodes"}, nil, 3, []string{"PDB001"}, ""},
		"a severity that is none":      {[]string{"check", "blue", "--fail-on=bad"}, nil, 2, nil, "use block, error, warning, info or never"},
		"a rule that is none":          {[]string{"check", "blue", "--skip-check=PDBX"}, nil, 2, nil, "--skip-check=PDBX: there is no such rule: use one of CAP001, "},
		"a rule that refuses":          {[]string{"check", "blue", "--skip-check=NG002"}, nil, 2, nil, "--skip-check=NG002: this rule cannot be skipped"},
		"a rule to explain":            {[]string{"check", "--explain", "pdb001"}, nil, 0, []string{"PDB001 (block)", "Source: ", "--skip-check=PDB001"}, ""},
		"a refusal to explain":         {[]string{"check", "--explain=VER001"}, nil, 0, []string{"VER001 (refuse)", "cannot be skipped"}, ""},
		"a rule of plans to explain":   {[]string{"check", "--explain=ng004"}, nil, 0, []string{"NG004 (warning)", "Only a plan (--dry-run) checks this rule"}, ""},
		"nothing to explain":           {[]string{"check", "--explain=X"}, nil, 2, nil, "--explain=X: there is no such rule"},
		"kinds that may not be listed": {[]string{"check", "blue", current, "-o", "wide"}, forbiddingKind("ingresses"), 3, []string{"not checked: you may not list ingresses"}, ""},
		"pods that may not be listed":  {[]string{"check", "blue", current}, forbiddingKind("pods"), 1, nil, "ask for a role that allows it"},
		"a folder":                     {[]string{"check", "-f", "testdata"}, nil, 2, nil, "reading the dump: testdata is a directory: pass a file; write one with kubectl get nodes,namespaces,"},
		"a dump that is not there":     {[]string{"check", "-f", "none.json"}, nil, 2, nil, "write one with kubectl get nodes,namespaces,"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := closedBudget()
			if c.change != nil {
				c.change(s)
			}
			s.serve(t)
			stdout, stderr, code := invoke(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.stderr) || (code == exitUsage) != (stdout == "" && stderr != "") && code != exitError {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q", code, c.code, stdout, stderr)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("the output lacks %q:\n%s%s", want, stdout, stderr)
				}
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("requests for changes were sent: %v", s.sentRequests())
			}
		})
	}
}

func annotateFinding(s *apiServer) {
	s.budgets[0].Annotations = map[string]string{preflight.AnnotationSkip + "PDB001": "it is scaled up on Sunday"}
}

func mayOnlyRead(s *apiServer) { s.readOnly = true }

func forbiddingKind(kind string) func(*apiServer) {
	return func(s *apiServer) { s.refuse = forbidding(kind) }
}

// writeDump writes the server's objects to a file, as kubectl get would.
func (s *apiServer) writeDump(t *testing.T) (file string) {
	t.Helper()
	var items []any
	for i := range s.nodes {
		s.nodes[i].TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
		items = append(items, s.nodes[i])
	}
	for i := range s.pods {
		s.pods[i].TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		items = append(items, s.pods[i])
	}
	for i := range s.services {
		s.services[i].TypeMeta = metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}
		items = append(items, s.services[i])
	}
	for i := range s.budgets {
		s.budgets[i].TypeMeta = metav1.TypeMeta{Kind: "PodDisruptionBudget", APIVersion: "policy/v1"}
		items = append(items, s.budgets[i])
	}
	text, err := json.Marshal(map[string]any{"kind": "List", "apiVersion": "v1", "items": items})
	file = filepath.Join(t.TempDir(), "dump.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCheckOfDumpEqualsCheckOfCluster checks that a dump of the cluster has the same findings.
func TestCheckOfDumpEqualsCheckOfCluster(t *testing.T) {
	stdout, stderr, code := invoke(t, "check", "blue", "-f", closedBudget().writeDump(t), "-o", "json")
	var r report.CheckReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	if code != exitStructural || r.Kind == "" || r.WorstSeverity() != preflight.Block || r.Workloads != 1 {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

// TestSimulateNamesServicesThatLoseTraffic checks that a simulation finds LB006, although it keeps fewer fields of a
// dump than check does.
func TestSimulateNamesServicesThatLoseTraffic(t *testing.T) {
	s := twoGroups()
	s.pods = []corev1.Pod{*build.Pod("web-0", build.App("web"), build.On("b1")), *build.Pod("web-1", build.App("web"), build.On("b2"))}
	s.services = []corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal},
	}}
	stdout, stderr, code := invoke(t, "simulate", "blue", "-f", s.writeDump(t), "--max-unavailable=2")
	if want := "Service shop/web: with externalTrafficPolicy: Local"; code != exitDone || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, no %q in %s%s", code, want, stdout, stderr)
	}
}

// TestBlockedUpgradeDoesNotBegin checks that an upgrade with a budget that can never open changes nothing.
func TestBlockedUpgradeDoesNotBegin(t *testing.T) {
	s := closedBudget()
	s.serve(t)
	_, stderr, code := invoke(t, "blue", "--current=image=v3", "--yes")
	if code != exitStructural || !strings.Contains(stderr, "nothing was touched. If you accept this, pass --skip-check=PDB001") || len(s.sentRequests()) > 0 {
		t.Errorf("exit code %d, %q, changes %v", code, stderr, s.sentRequests())
	}
}

// TestPatchesUseContextOfCheck checks that the script of -o patch runs kubectl with the --context of the check.
func TestPatchesUseContextOfCheck(t *testing.T) {
	closedBudget().serve(t)
	for flag, want := range map[string]string{"--context=test": `kubectl() { command kubectl --context=test "$@"; }` + "\n", "--all-nodes=false": "# "} {
		stdout, stderr, _ := invoke(t, "check", "blue", "--current=image=v3", "-o", "patch", flag)
		if !strings.HasPrefix(stdout, want) || !strings.Contains(stdout, "kubectl patch -n shop pdb web") {
			t.Errorf("%s: the script is %q, %s", flag, stdout, stderr)
		}
	}
}
