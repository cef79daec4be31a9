package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var now = time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func length(d time.Duration) record.Duration { return record.Duration{Duration: d} }

func span(early, late time.Duration) simulate.Span {
	return simulate.Span{Earliest: length(early), Latest: length(late)}
}

func TestTextsForUsersEqualGoldenFiles(t *testing.T) {
	plain, wide, markdown := Options{Now: now}, Options{Now: now, Wide: true}, Options{Now: now, Style: Markdown}
	groups := func(list *NodeGroupList, o Options) func(io.Writer) error {
		return func(w io.Writer) error { return WriteGroups(w, list, o) }
	}
	plan := func(p *Plan, o Options) func(io.Writer) error {
		return func(w io.Writer) error { return WritePlan(w, p, o) }
	}
	status := func(s *UpgradeStatus) func(io.Writer) error {
		return func(w io.Writer) error { return WriteStatus(w, s, plain) }
	}
	cases := map[string]func(io.Writer) error{
		"groups":              groups(someGroups(), plain),
		"groups-wide":         groups(someGroups(), wide),
		"groups-markdown":     groups(someGroups(), markdown),
		"groups-none":         groups(&NodeGroupList{}, plain),
		"groups-hostile":      groups(hostileGroups(), wide),
		"groups-hostile-md":   groups(hostileGroups(), Options{Now: now, Wide: true, Style: Markdown}),
		"plan":                plan(surgePlan(), plain),
		"plan-wide":           plan(surgePlan(), wide),
		"plan-markdown":       plan(surgePlan(), markdown),
		"plan-nothing":        plan(nothingPlan(), plain),
		"plan-unknown":        plan(unknownPlan(), plain),
		"plan-refused":        plan(refusedPlan(), plain),
		"plan-blocked":        plan(blockedPlan(), plain),
		"plan-blocked-wide":   plan(blockedPlan(), wide),
		"plan-resumes":        plan(resumedPlan(), plain),
		"plan-only-clean-up":  plan(cleanUpPlan(), plain),
		"plan-probes":         plan(probedPlan(), plain),
		"plan-manual":         plan(manualPlan(), plain),
		"status":              status(runningStatus()),
		"status-ended":        status(endedStatus()),
		"status-never":        status(neverStatus()),
		"status-nothing-left": status(doneStatus()),
		"status-leftovers":    status(leftStatus()),
		"status-unknown":      status(&UpgradeStatus{ObjectMeta: neverStatus().ObjectMeta, Unknown: "pass --current KEY=VALUE, a label of current nodes"}),
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

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got:\n%s\nwant, by %s (go test ./pkg/report -update renews it):\n%s", got, file, want)
	}
}

// TestGoldenFilesAreClean checks that golden files are plain text, without blanks at the ends of lines and
// without control characters.
func TestGoldenFilesAreClean(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.TrimRight(line, " ") != line || strings.ContainsAny(line, "\x1b\t\r\u202e") {
				t.Errorf("%s has a line that ends in blanks or steers a terminal: %q", file, line)
			}
		}
	}
}

func count(n int) *int { return &n }

func someGroups() *NodeGroupList {
	list := &NodeGroupList{Items: []NodeGroup{
		{Provider: "aws", Kind: "Auto Scaling group", Nodes: 7, Outdated: count(4), Wanted: "workers:7", Phase: "upgrade", Created: ago(75 * 24 * time.Hour)},
		{Provider: "aws", Kind: "EKS managed node group", Nodes: 1, Outdated: count(0), Wanted: "spot:2", Created: ago(90 * time.Second), Refusal: "EKS upgrades it: run aws eks update-nodegroup-version"},
		{Provider: "manual", Kind: "labelled nodes", Nodes: 120},
	}}
	for i, name := range []string{"workers", "spot-arm64", "pool=x"} {
		list.Items[i].TypeMeta, list.Items[i].ObjectMeta = NewMeta("NodeGroup", name)
	}
	return list
}

// hostileGroups returns groups whose cells try to break a table, a terminal and Markdown.
func hostileGroups() *NodeGroupList {
	list := &NodeGroupList{Items: []NodeGroup{
		{Provider: "a|b", Kind: "one\ntwo\tthree\r", Wanted: "\x1b[31mred\x1b[0m \x07\u009b31m", Phase: `\|`, Refusal: "text \u202eesrever"},
		{Provider: "提供者", Kind: "ノードグループ", Wanted: "版本七", Phase: "업그레이드", Refusal: "<!-- not shown"},
		{Provider: "plain", Kind: "kind", Wanted: "wanted", Phase: "phase", Refusal: "refusal"},
	}}
	for i, name := range []string{"x\x00y", "工作节点", "workers"} {
		list.Items[i].Name = name
	}
	return list
}

func examplePlan(name string) *Plan {
	p := &Plan{
		Context: "prod", Account: "account 123456789012, us-east-1", Provider: "aws", Kind: "Auto Scaling group",
		Current: new(0),
		From:    nodegroup.Revision{ID: "lt:7", Name: name + ":7"}, To: nodegroup.Revision{ID: "lt:7", Name: name + ":7", Image: "ami-0bbb", Kubernetes: "v1.33.4"},
		Request: record.Request{
			Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail,
			DrainTimeout: length(15 * time.Minute), Settle: length(time.Minute),
		},
	}
	p.TypeMeta, p.ObjectMeta = NewMeta("Plan", name)
	return p
}

// surgePlan returns a plan with nodes in two zones and with another template than the group points at.
func surgePlan() *Plan {
	p := examplePlan("workers")
	p.From = nodegroup.Revision{ID: "lt:6", Name: "workers:6"}
	p.Request.Surge, p.Request.Window = 3, 2
	p.Sizes, p.Peak = nodegroup.Sizes{Desired: 4, Min: 1, Max: 5}, 7
	p.Surge = map[string]int{"us-east-1b": 1, "us-east-1a": 2}
	p.Suspends, p.Current = []string{"AZRebalance"}, new(1)
	p.Nodes = []PlanNode{
		{
			Batch: 1, Name: "ip-10-0-1-7", Zone: "us-east-1a", From: "workers:6", To: "workers:7", Pods: 12, Staying: 3,
			Start: new(span(2*time.Minute, 2*time.Minute)), End: span(4*time.Minute, 9*time.Minute), Why: "template version 6, wanted 7",
		},
		{
			Batch: 1, Name: "ip-10-0-2-9", Zone: "us-east-1b", From: "workers:6", To: "workers:7", Pods: 1, Staying: 3,
			Start: new(span(4*time.Minute, 9*time.Minute)), End: span(6*time.Minute, 16*time.Minute), WaitsFor: "PDB shop/cart", Waits: length(95 * time.Second), Why: "template version 6, wanted 7",
		},
		{Batch: 2, Name: "i-0abc", Zone: "us-east-1a", From: "workers:6", To: "workers:7", Start: new(span(7*time.Minute, 17*time.Minute)), End: span(8*time.Minute, 18*time.Minute), Why: "image ami-0aaa, wanted ami-0bbb"},
	}
	p.Duration, p.Evictions, p.ExtraInstanceHours = span(8*time.Minute, 18*time.Minute), new(13), new(0.74)
	p.Ends = &PlanEnds{Fast: simulate.Ending{Result: record.Succeeded, After: length(8 * time.Minute)}, Slow: simulate.Ending{Result: record.Succeeded, After: length(18 * time.Minute)}}
	p.Room = simulate.Room{Moves: amount("3500m", "6Gi", 13), Nodes: 1, Free: amount("1", "2Gi", 40), Added: amount("12", "48Gi", 330)}
	p.Assumptions = []string{"a new node is Ready in 2m", "a pod is ready in 10s"}
	return p
}

func amount(cpu, memory string, pods int) simulate.Amount {
	return simulate.Amount{CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory), Pods: pods}
}

func nothingPlan() *Plan {
	p := examplePlan("workers")
	p.Sizes, p.Current, p.Nodes = nodegroup.Sizes{Desired: 3, Min: 1, Max: 5}, new(3), []PlanNode{}
	return p
}

// unknownPlan returns the plan of a group whose target is not known, from a dump without budgets.
func unknownPlan() *Plan {
	p := examplePlan("workers")
	p.To, p.From, p.Current, p.Nodes = nodegroup.Revision{}, nodegroup.Revision{}, nil, []PlanNode{}
	p.Findings = []preflight.Finding{{Rule: "NG002", Severity: preflight.Refuse, Message: "it is not known which labels current nodes have", Remedy: "pass --current KEY=VALUE"}}
	p.Unread = []string{"no PodDisruptionBudget covers a pod: the dump has no poddisruptionbudgets"}
	return p
}

// refusedPlan returns the plan of a group that has no outdated nodes and must not be upgraded.
func refusedPlan() *Plan {
	p := nothingPlan()
	p.Findings = []preflight.Finding{{Rule: "NG002", Severity: preflight.Refuse, Message: "an instance refresh is under way"}}
	return p
}

func blockedPlan() *Plan {
	p := examplePlan("workers")
	p.Sizes, p.Peak = nodegroup.Sizes{Desired: 1, Min: 1, Max: 1}, 1
	p.Nodes = []PlanNode{{Batch: 1, Name: "ip-10-0-1-7", From: "workers:6", To: "workers:7", Pods: 4, Start: new(simulate.Span{}), BlockedBy: []string{"PDB shop/cart", "pod shop/seed (unmanaged)"}}}
	p.LeftOut = []string{"you may not list events: the upgrade cannot show why the pods of a workload are not created: ask for the roles of docs/permissions"}
	never := "PDB shop/cart can never allow a disruption: it needs every pod that it covers (needs 3 healthy, has 3)"
	p.Findings = []preflight.Finding{
		{Rule: "VER001", Severity: preflight.Refuse, Message: "the target runs kubelet v1.34.0, newer than the control plane's v1.33.4", Remedy: "upgrade the control plane first"},
		{Rule: "PDB001", Severity: preflight.Block, Node: "ip-10-0-1-7", Object: "pod shop/cart-0", Message: never, Remedy: "raise its replicas"},
		{Rule: "PDB001", Severity: preflight.Block, Node: "ip-10-0-1-7", Object: "pod shop/cart-1", Message: never, Remedy: "raise its replicas"},
		{Rule: "POD001", Severity: preflight.Block, Node: "ip-10-0-1-7", Object: "pod shop/seed", Message: "it has no controller\nthat would bring it back \x1b[2J", Remedy: "delete it"},
		{Rule: "POD012", Severity: preflight.Warn, Object: "DaemonSet kube-system/agent", Message: "does not tolerate the fence's taint"},
	}
	return p
}

func resumedPlan() *Plan {
	p := surgePlan()
	p.From, p.Resumes, p.Nodes = p.To, "x7k2m9qa", p.Nodes[2:]
	return p
}

// cleanUpPlan returns the plan of an upgrade that only has to remove its added nodes.
func cleanUpPlan() *Plan {
	p := nothingPlan()
	p.Resumes = "x7k2m9qa"
	return p
}

func probedPlan() *Plan {
	p := examplePlan("workers")
	p.Nodes = []PlanNode{{Batch: 1, Start: new(simulate.Span{}), Name: "a", From: "workers:6", To: "workers:7", Pods: 2}}
	p.Probes = []Probe{
		{Pod: "shop/cart-0", Budget: "shop/cart", Answer: "may be evicted now"},
		{Pod: "shop/web-0", Answer: "admission webhook \"x\" denied the request:\nnot today\x1b[1m"},
		{Pod: "shop/cart-0", Workload: "StatefulSet shop/cart", Answer: "may be created now"},
		{Pod: "shop/web-0", Workload: "Deployment shop/web", Answer: "refused: pods \"web-x\" is forbidden: violates PodSecurity", Refused: true},
	}
	return p
}

// manualPlan returns the plan of a group without a size, an image or an account.
func manualPlan() *Plan {
	p := examplePlan("pool=x")
	p.Context, p.Account, p.Provider, p.Kind = "", "", "manual", "labelled nodes"
	p.To = nodegroup.Revision{ID: "image=v2", Name: "image=v2"}
	p.From = p.To
	p.Nodes = []PlanNode{{Batch: 1, Start: new(simulate.Span{}), Name: "n1", To: "image=v2", Pods: 1, Staying: 1}, {Name: "n2", To: "image=v2", BlockedBy: []string{"not reached"}}}
	return p
}

func neverStatus() *UpgradeStatus {
	s := &UpgradeStatus{Outdated: new(3)}
	s.TypeMeta, s.ObjectMeta = NewMeta("UpgradeStatus", "workers")
	return s
}

func runningStatus() *UpgradeStatus {
	s := neverStatus()
	cart := types.NamespacedName{Namespace: "shop", Name: "cart"}
	pod := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	spent := drain.Obstacle{Kind: drain.BudgetSpent, Budget: cart, Need: 3, Have: 3}
	s.Run, s.Target, s.Started, s.Holder = "x7k2m9qa", nodegroup.Revision{Name: "workers:7"}, ago(26*time.Minute), "ann@laptop/4711-abcde"
	s.Status = record.Status{
		Group: "workers", Phase: record.PhaseUpgrade, Since: ago(20 * time.Minute), Total: 7, Replaced: 4, Outdated: 2, Owed: 1, Waiting: "a replacement to be ready",
		Nodes: []record.NodeStatus{
			{Name: "ip-10-0-1-7", Zone: "us-east-1a", State: record.NodeDraining, Batch: 5, Pods: 3, Staying: 4},
			{Name: "ip-10-0-1-8", Zone: "us-east-1a", State: record.NodeFenced},
			{Name: "ip-10-0-1-9", State: record.NodeQuarantined, Batch: 2, Pods: 1},
		},
	}
	s.Blocked = []drain.Blocked{
		{Node: "ip-10-0-1-7", Pod: pod("cart-0"), Obstacle: spent, Since: ago(252 * time.Second)},
		{Node: "ip-10-0-1-7", Pod: pod("cart-1"), Obstacle: spent, Since: ago(time.Second)},
		{Node: "ip-10-0-1-7", Pod: pod("seed"), Obstacle: drain.Obstacle{Kind: drain.Denied, Detail: "denied:\nnot \x1b[31mnow"}, Since: now},
	}
	s.Suspended, s.TimeLeft = []string{"AZRebalance"}, TimeLeft{Remaining: span(6*time.Minute, 15*time.Minute), RemainingAsOf: ago(20 * time.Second)}
	return s
}

func endedStatus() *UpgradeStatus {
	s := runningStatus()
	s.Result, s.Message, s.Holder, s.Blocked, s.Suspended = record.PodEvictionFailure, "draining node \"ip-10-0-1-7\": it still has pods after 15m0s", "", nil, nil
	s.Status.Waiting, s.Status.Owed, s.TimeLeft = "", 2, TimeLeft{}
	return s
}

func leftStatus() *UpgradeStatus {
	s := neverStatus()
	s.Leftovers = []Leftover{
		{What: "run x7k2m9qa of group workers stopped unexpectedly", Remedy: "run kubectl nodeupgrade abort workers to continue"},
		{What: "node a\x1b[2J is fenced by run r1, which no upgrade continues", Remedy: "kubectl uncordon a"},
	}
	return s
}

func doneStatus() *UpgradeStatus {
	s := endedStatus()
	s.Result, s.Message = record.Succeeded, ""
	s.Status.Nodes, s.Status.Owed, s.Status.Outdated, s.Status.Replaced = nil, 0, 0, 7
	return s
}
