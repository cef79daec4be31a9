package preflight_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/manifest"
)

var update = flag.Bool("update", false, "Write what the rules find into testdata/rules")

// TestRulesFindExpectedFaultsInManifests applies each rule of the catalogue to realistic manifests. In testdata/rules/PDB001.yaml the
// lines "# finds: …" are the expected findings. testdata/rules/PDB001.pass.yaml has near misses without findings. More files of a rule
// have a word in between: PDB001.percent.yaml. Lines "# request: …" are settings of the upgrade; see readRequest.
func TestRulesFindExpectedFaultsInManifests(t *testing.T) {
	files, err := filepath.Glob("testdata/rules/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		base := filepath.Base(file)
		id, rest, _ := strings.Cut(base, ".")
		t.Run(strings.TrimSuffix(base, ".yaml"), func(t *testing.T) {
			rule, known := preflight.FindRule(id)
			if !known {
				t.Fatalf("there is no rule %s", id)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := preflight.Check(readScene(t, text), []preflight.Rule{rule}, nil)
			if nearMiss := strings.HasPrefix(rest, "pass"); nearMiss != (len(found) == 0) {
				t.Errorf("%s finds %d things: %v", id, len(found), found)
			}
			want, got := linesAfter(text, "# finds: "), describeFindings(found)
			if *update && !slices.Equal(want, got) {
				writeFindings(t, file, text, got)
			} else if !slices.Equal(want, got) {
				t.Errorf("%s finds\n%s\nand %s says\n%s", id, strings.Join(got, "\n"), file, strings.Join(want, "\n"))
			}
		})
	}
}

// TestEveryRuleHasManifests checks that each rule has a file with findings and a file with near misses.
func TestEveryRuleHasManifests(t *testing.T) {
	for _, rule := range preflight.Catalogue() {
		for _, pattern := range []string{rule.ID + "*.yaml", rule.ID + ".pass*.yaml"} {
			files, err := filepath.Glob("testdata/rules/" + pattern)
			files = slices.DeleteFunc(files, func(f string) bool { return !strings.Contains(pattern, "pass") && strings.Contains(f, ".pass") })
			if err != nil || len(files) == 0 {
				t.Errorf("rule %s has no testdata/rules/%s", rule.ID, pattern)
			}
		}
	}
}

// TestRulesReadKnownKinds checks that a check reads every kind that a rule names. A misspelled kind would otherwise count as
// read.
func TestRulesReadKnownKinds(t *testing.T) {
	for _, rule := range preflight.Catalogue() {
		for _, resource := range slices.Concat(rule.Reads, rule.More) {
			if kind := inventory.FindKind(resource); !kind.IsReadFor(inventory.ForChecks) {
				t.Errorf("rule %s reads %q, which no check reads", rule.ID, resource)
			}
		}
	}
}

func describeFindings(found []preflight.Finding) []string {
	var lines []string
	for _, f := range found {
		line := fmt.Sprintf("%s [%s] %s", f.Severity, f.Workload, f)
		if f.Fix != "" {
			line += " => " + f.Fix
		}
		if f.Skipped != "" {
			line += " (skipped: " + f.Skipped + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// linesAfter returns the rest of each line that begins with the prefix.
func linesAfter(text []byte, prefix string) []string {
	var rests []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			rests = append(rests, rest)
		}
	}
	return rests
}

func writeFindings(t *testing.T, file string, text []byte, found []string) {
	var b strings.Builder
	for _, line := range found {
		b.WriteString("# finds: " + line + "\n")
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "# finds: ") {
			b.WriteString(line)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readScene builds the cluster of the manifests. Nodes without the label image=v2 are outdated.
func readScene(t *testing.T, text []byte) *preflight.Scene {
	t.Helper()
	d, err := manifest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	w := &upgrade.World{Now: manifest.Start().Add(time.Hour), Snapshot: drain.Snapshot{Budgets: drain.NewBudgets(d.Budgets), EndingNamespaces: d.EndingNamespaces()}}
	w.Group = nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: []string{"a", "b"}, Desired: 4, Min: 1, Max: 10}
	w.Request = readRequest(t, text, w)
	w.Movable = drain.NewMovable(d.Deployments, d.Claims)
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range d.Pods {
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
	}
	for _, node := range d.Nodes {
		if node.Labels["pool"] == "workers" {
			w.Members = append(w.Members, nodegroup.Member{Node: node, Outdated: node.Labels["image"] != "v2", Pods: byNode[node.Name]})
		}
	}
	facts := preflight.Facts{ServerVersion: "v1.34.0", MissingRights: linesAfter(text, "# request: missing "), DeniedActions: linesAfter(text, "# request: denied "), UnverifiedActions: linesAfter(text, "# request: unverified ")}
	facts.DeniedReads, facts.Delays = linesAfter(text, "# request: denied-read "), map[string]time.Duration{}
	for _, line := range linesAfter(text, "# request: delay ") {
		group, delay, _ := strings.Cut(line, " ")
		if facts.Delays[group], err = time.ParseDuration(delay); err != nil {
			t.Fatal(err)
		}
	}
	return preflight.NewScene(w, facts, &d.Objects)
}

// readRequest reads the settings of the request: "# request: window 3", surge, drain-timeout, strategy. Settings like "# request:
// kubelet v1.35.0" change the group.
func readRequest(t *testing.T, text []byte, w *upgrade.World) record.Request {
	t.Helper()
	r := record.Request{Group: "workers", Strategy: record.Surge, Like: "eks", Window: 1, MaxUnavailable: 1, Surge: 2, DrainTimeout: record.Duration{Duration: 15 * time.Minute}, OnTimeout: record.Fail}
	for _, line := range linesAfter(text, "# request: ") {
		key, value, _ := strings.Cut(line, " ")
		number, notNumber := strconv.Atoi(value)
		took, notDuration := time.ParseDuration(value)
		var err error
		switch key {
		case "window":
			r.Window, r.MaxUnavailable, err = number, number, notNumber
		case "surge":
			r.Surge, err = number, notNumber
		case "drain-timeout":
			r.DrainTimeout.Duration, err = took, notDuration
		case "strategy":
			r.Strategy = record.Strategy(value)
		case "move":
			r.Move = record.Move(value)
		case "on-timeout":
			r.OnTimeout = record.OnTimeout(value)
		case "like":
			r.Like = value
		case "implicit-budgets":
			r.NoImplicitBudgets = value == "false"
		case "provider":
			w.Group.Provider = value
		case "kubelet":
			w.Group.Wanted.Kubernetes = value
		case "zones":
			w.Group.Zones = strings.Fields(value)
		case "missing", "denied", "denied-read", "unverified", "delay": // facts read these
		case "refusal":
			w.Group.Refusal = value
		default:
			err = fmt.Errorf("no setting is called %q", key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}
