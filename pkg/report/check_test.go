package report

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/manifest"
)

// checkManifests returns the findings of the rules in the test manifests.
func checkManifests(t *testing.T, rules ...string) *CheckReport {
	t.Helper()
	var text []byte
	for _, rule := range rules {
		one, err := os.ReadFile(filepath.Join("../preflight/testdata/rules", rule+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text = slices.Concat(text, one, []byte("\n---\n"))
	}
	d, err := manifest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	w := &upgrade.World{Now: manifest.Start().Add(time.Hour), Snapshot: drain.Snapshot{Budgets: drain.NewBudgets(d.Budgets)}}
	w.Group = nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: []string{"a", "b"}}
	w.Request = record.Request{Strategy: record.Surge, Like: "eks", Window: 1, MaxUnavailable: 1, Surge: 2, DrainTimeout: length(15 * time.Minute), OnTimeout: record.Fail}
	r := &CheckReport{Context: "prod", Kind: "Auto Scaling group", Nodes: len(d.Nodes), Outdated: new(0)}
	r.TypeMeta, r.ObjectMeta = NewMeta("CheckReport", "workers")
	for _, node := range d.Nodes {
		m := nodegroup.Member{Node: node, Outdated: node.Labels["image"] != "v2"}
		for _, pod := range d.Pods {
			if pod.Spec.NodeName == node.Name {
				m.Pods = append(m.Pods, pod)
			}
		}
		if m.Outdated {
			*r.Outdated++
		}
		w.Members = append(w.Members, m)
	}
	d.Unread = []string{"ingresses"}
	scene := preflight.NewScene(w, preflight.Facts{ServerVersion: "v1.34.0"}, &d.Objects)
	r.Unread = d.DescribeUnread(d.Unread...)
	r.Workloads, r.Findings = len(scene.Workloads), preflight.Check(scene, preflight.Catalogue(), nil)
	return r
}

func TestCheckOutputEqualsGoldenFiles(t *testing.T) {
	rules := []string{"PDB001", "TERM001", "POD006", "SYS001"}
	cases := map[string]func(io.Writer) error{
		"check": func(w io.Writer) error { return WriteCheck(w, checkManifests(t, rules...), Options{Now: now}) },
		"check-wide": func(w io.Writer) error {
			return WriteCheck(w, checkManifests(t, rules...), Options{Now: now, Wide: true})
		},
		"check-markdown": func(w io.Writer) error {
			return WriteCheck(w, checkManifests(t, rules...), Options{Now: now, Style: Markdown})
		},
		"check-patch": func(w io.Writer) error {
			return WritePatches(w, []CheckReport{*checkManifests(t, rules...)}, []string{"--context=prod b"})
		},
		"check-nothing": func(w io.Writer) error {
			return WriteCheck(w, &CheckReport{Nodes: 3, Outdated: new(0)}, Options{Now: now})
		},
		"check-unknown": func(w io.Writer) error {
			return WriteCheck(w, &CheckReport{Nodes: 3, Unknown: "it is not known which labels current nodes have: pass --current KEY=VALUE"}, Options{Now: now})
		},
		"check-explain": func(w io.Writer) error {
			rule, _ := preflight.FindRule("term001")
			return WriteRule(w, &rule)
		},
	}
	for name, write := range cases {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", name+".golden"), got.Bytes())
		})
	}
}

// A finding that an annotation skips does not change the exit code, and its command is not printed.
func TestSkippedFindingsDoNotChangeExitCode(t *testing.T) {
	r := &CheckReport{Outdated: new(1), Findings: []preflight.Finding{
		{Rule: "PDB001", Severity: preflight.Block, Object: "PDB shop/cart", Message: "it needs every pod", Fix: "kubectl patch", Skipped: "it is scaled up on Sunday"},
		{Rule: "TSC001", Severity: preflight.Warn, Message: "nothing spreads its pods"},
	}}
	var text, patches strings.Builder
	if err := WriteCheck(&text, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := WritePatches(&patches, []CheckReport{*r}, nil); err != nil {
		t.Fatal(err)
	}
	if r.WorstSeverity() != preflight.Warn || strings.Contains(patches.String(), "kubectl patch") || strings.Contains(patches.String(), "PDB001") || !strings.Contains(text.String(), "does not count: it is scaled up on Sunday") || !strings.Contains(text.String(), "1 warning\n") {
		t.Errorf("the worst severity is %q, patches %q, in\n%s", r.WorstSeverity(), patches.String(), text.String())
	}
}

// The API server refuses new pods of a workload, so a rollout of the workload would not finish.
func TestPatchesDoNotRunRolloutOfRefusedPods(t *testing.T) {
	const quota, template = `kubectl patch resourcequota q -p '{"spec":{"hard":{"pods":"2"}}}'`, `kubectl patch deployment web -p '{"spec":{"template":{"spec":{}}}}'`
	for _, refusal := range []string{"NS001", "NS002", "WH001", ""} {
		r := CheckReport{Outdated: new(1), Findings: []preflight.Finding{
			{Rule: cmp.Or(refusal, "PRB001"), Severity: preflight.Error, Workload: "Deployment shop/web", Message: "first", Fix: quota},
			{Rule: "TSC001", Severity: preflight.Warn, Workload: "Deployment shop/web", Message: "nothing spreads its pods", Fix: template},
		}}
		var patches strings.Builder
		if err := WritePatches(&patches, []CheckReport{r}, nil); err != nil {
			t.Fatal(err)
		}
		runs := strings.Contains(patches.String(), "\n"+template)
		if runs != (refusal == "") || !strings.Contains(patches.String(), template) || !strings.Contains(patches.String(), "\n"+quota) {
			t.Errorf("%s: the rollout runs: %t, in\n%s", refusal, runs, patches.String())
		}
	}
}

// A script without commands says so and names each finding, so that nobody takes an empty output for success.
func TestPatchScriptWithoutCommandsNamesEachFinding(t *testing.T) {
	found := CheckReport{Outdated: new(1), Findings: []preflight.Finding{
		{Rule: "POD006", Severity: preflight.Error, Workload: "Deployment shop/web", Object: "pod shop/web-0", Message: "it is overdue\nrm -rf /"},
		{Rule: "POD006", Severity: preflight.Error, Workload: "Deployment shop/web", Object: "pod shop/web-1", Message: "it is overdue\nrm -rf /"},
		{Rule: "NG003", Severity: preflight.Warn, Node: "node-a", Message: "it has no zone"},
		{Rule: "TSC001", Severity: preflight.Warn, Workload: "Deployment shop/api", Message: "nothing spreads its pods", Skipped: "on purpose", Fix: "kubectl patch"},
	}}
	unknown := CheckReport{Unknown: "pass --current KEY=VALUE"}
	unknown.Name = "workers"
	for name, c := range map[string]struct {
		reports []CheckReport
		want    string
	}{
		"findings without a command": {[]CheckReport{found}, "# No command fixes these findings. kubectl nodeupgrade check shows what to do.\n" +
			"# POD006 pod shop/web-0 and 1 more: it is overdue rm -rf /\n# NG003 node-a: it has no zone\n"},
		"not checked":               {[]CheckReport{unknown}, "# Group workers was not checked: pass --current KEY=VALUE\n"},
		"no finding":                {[]CheckReport{{Outdated: new(1)}}, ""},
		"only one that is left out": {[]CheckReport{{Outdated: new(1), Findings: found.Findings[3:]}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			if err := WritePatches(&got, c.reports, []string{"--context=b"}); err != nil {
				t.Fatal(err)
			}
			if got.String() != c.want {
				t.Errorf("got\n%swant\n%s", got.String(), c.want)
			}
		})
	}
}

// The line about rollouts is printed only if a command patches a pod template.
func TestPatchesSayWhichCommandsStartARollout(t *testing.T) {
	for fix, want := range map[string]bool{
		`kubectl patch -n shop pdb web --type=merge -p '{"spec":{"maxUnavailable":1}}'`:                            false,
		`kubectl create pdb -n shop --max-unavailable=1 web`:                                                       false,
		`kubectl patch -n shop deployment web --type=strategic -p '{"spec":{"template":{"spec":{}}}}'`:             true,
		`kubectl patch -n shop statefulset web -p '{"spec":{"replicas":2,"template":{"spec":{"priority":null}}}}'`: true,
	} {
		r := CheckReport{Outdated: new(1), Findings: []preflight.Finding{{Rule: "PDB001", Severity: preflight.Block, Object: "PDB shop/web", Message: "it needs every pod", Fix: fix}}}
		var got strings.Builder
		if err := WritePatches(&got, []CheckReport{r}, nil); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.String(), "starts a rollout") != want || !strings.Contains(got.String(), fix) {
			t.Errorf("want a line about rollouts: %t, got\n%s", want, got.String())
		}
	}
}
