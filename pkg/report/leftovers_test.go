package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stub"
)

// recordOf returns the record of an upgrade with the result.
func recordOf(result record.Result, change ...func(*record.Record)) record.Record {
	r := record.Record{Run: "r1", Phase: record.PhaseUpgrade, Result: result}
	for _, f := range change {
		f(&r)
	}
	return r
}

func TestScalingProcessesLeftSuspendedAreFound(t *testing.T) {
	ours := func(r *record.Record) { r.Suspended = []string{"AZRebalance"} }
	cases := map[string]struct {
		record record.Record
		now    []string
		remedy string
	}{
		"while it goes on":     {recordOf("", ours), []string{"AZRebalance"}, ""},
		"resumed meanwhile":    {recordOf(record.Interrupted, ours), []string{"Launch"}, ""},
		"of one that stopped":  {recordOf(record.Interrupted, ours), []string{"AZRebalance", "Launch"}, "kubectl nodeupgrade abort workers resumes them"},
		"of one that is over":  {recordOf(record.Succeeded, ours), []string{"AZRebalance"}, "aws autoscaling resume-processes --auto-scaling-group-name workers --scaling-processes AZRebalance"},
		"suspended by another": {recordOf(record.Succeeded), []string{"AZRebalance"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var want []report.Leftover
			if c.remedy != "" {
				want = []report.Leftover{{What: "group workers: run r1 suspended AZRebalance", Remedy: c.remedy}}
			}
			if got := report.FindSuspendedProcesses(&nodegroup.Group{Name: "workers", Provider: "aws", Suspended: c.now}, &c.record); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// If an upgrade is recorded in another namespace, the remedy is to look there before its marks are removed.
func TestRemedyForFencedNodeNamesNamespaceOfItsUpgrade(t *testing.T) {
	for namespace, says := range map[string]string{"kube-system": "no upgrade continues", "ops": "recorded in namespace ops"} {
		node := build.Node("n1", "a")
		if err := nodemark.SetFence(node, "r1", nodegroup.FenceTaint("aws")); err != nil {
			t.Fatal(err)
		}
		nodemark.SetOwner(node, nodemark.Owner{Namespace: namespace, Group: "workers"})
		got := report.FindOrphanedNodes([]*corev1.Node{node}, nil, "kube-system")
		if len(got) != 1 || !strings.Contains(got[0].What, says) || strings.Contains(got[0].Remedy, "--state-namespace=ops") != (namespace == "ops") {
			t.Errorf("%s: got %q", namespace, got)
		}
	}
}

// A node that became current after the end of its upgrade is still fenced, until a user releases it.
func TestCurrentNodesStillFencedAfterUpgradeAreFound(t *testing.T) {
	cases := map[string]struct {
		image  string
		result record.Result
		found  bool
	}{
		"current":                {"v2", record.Succeeded, true},
		"outdated still":         {"v1", record.Succeeded, false},
		"of one that may resume": {"v2", record.Interrupted, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := build.Node("n1", "a")
			node.Labels["image"] = c.image
			if err := nodemark.SetFence(node, "r1", nodegroup.FenceTaint("manual")); err != nil {
				t.Fatal(err)
			}
			rec := recordOf(c.result, func(r *record.Record) {
				r.Provider, r.Request.Current = "manual", map[string]string{"image": "v2"}
				r.Nodes = map[string]record.NodeRecord{"n1": {State: record.NodeDrained}}
			})
			var want []report.Leftover
			if c.found {
				want = []report.Leftover{{What: "node n1 is current but still fenced by run r1, which has ended", Remedy: "run kubectl nodeupgrade abort workers to allow pods on it again"}}
			}
			if got := report.FindOrphanedNodes([]*corev1.Node{node}, map[string]record.Record{"workers": rec}, "kube-system"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestCleanupCommandsQuoteNodeNames runs the printed commands in a real shell.
func TestCleanupCommandsQuoteNodeNames(t *testing.T) {
	for _, word := range stub.HostileWords() {
		node := build.Node(word, "a")
		if err := nodemark.SetFence(node, "r1", nodegroup.FenceTaint("aws")); err != nil {
			t.Fatal(err)
		}
		nodemark.SetHold(node, "r1")
		node.Labels[corev1.LabelNodeExcludeBalancers] = "true"
		got := report.FindOrphanedNodes([]*corev1.Node{node}, nil, "kube-system")
		if len(got) != 1 {
			t.Fatalf("%q: got %q", word, got)
		}
		calls := stub.RunCommands(t, got[0].Remedy)
		if len(calls) != 4 {
			t.Errorf("%q: %s ran %q, want 4 commands", word, got[0].Remedy, calls)
		}
		for _, call := range calls {
			operands := slices.DeleteFunc(slices.Clone(call[2:]), func(w string) bool { return w == "--" && word != "--" || w == "node" })
			if call[0] != "kubectl" || len(operands) == 0 || operands[0] != word {
				t.Errorf("%s ran %q, want it for node %q", got[0].Remedy, call, word)
			}
		}
	}
}

func TestMarkedNodesThatNoUpgradeContinuesAreFound(t *testing.T) {
	fenced := build.Node("n1", "a")
	if err := nodemark.SetFence(fenced, "r1", nodegroup.FenceTaint("aws")); err != nil {
		t.Fatal(err)
	}
	drained := fenced.DeepCopy()
	nodemark.SetDraining(drained, time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC))
	quarantined := func(r *record.Record) {
		r.Nodes = map[string]record.NodeRecord{"n1": {State: record.NodeQuarantined}}
	}
	const (
		marks  = "kubectl uncordon n1 && kubectl taint node n1 eks.amazonaws.com/nodegroup:NoSchedule-"
		labels = " && kubectl label node n1 node.kubernetes.io/exclude-from-external-load-balancers-"
		notes  = " && kubectl annotate node n1 kubectl-nodeupgrade/prev- kubectl-nodeupgrade/run-"
		all    = " && kubectl annotate node n1 kubectl-nodeupgrade/drain-deadline- kubectl-nodeupgrade/prev- kubectl-nodeupgrade/run-"
	)
	held := build.Node("n1", "a")
	nodemark.SetHold(held, "r1")
	const unhold = "kubectl annotate node n1 cluster-autoscaler.kubernetes.io/scale-down-disabled- kubectl-nodeupgrade/scale-down-disabled-"
	cases := map[string]struct {
		node   *corev1.Node
		record record.Record
		remedy string
	}{
		"held by a run under way":     {held, recordOf(""), ""},
		"held by a run that is lost":  {held, record.Record{}, unhold},
		"of a run under way":          {fenced, recordOf(""), ""},
		"of a run that stopped":       {fenced, recordOf(record.Interrupted), ""},
		"of a run that is over":       {fenced, recordOf(record.Succeeded), marks + notes},
		"of a run that was forgotten": {drained, record.Record{}, marks + labels + all},
		"quarantined":                 {fenced, recordOf(record.LeftBehind, quarantined), ""},
		"not ours":                    {build.Node("n1", "a"), record.Record{}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var want []report.Leftover
			if c.remedy != "" {
				what := "fenced"
				if c.node == held {
					what = "kept from autoscalers"
				}
				want = []report.Leftover{{What: "node n1 is " + what + " by run r1, which no upgrade continues", Remedy: c.remedy}}
			}
			if got := report.FindOrphanedNodes([]*corev1.Node{c.node}, map[string]record.Record{"workers": c.record}, "kube-system"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
