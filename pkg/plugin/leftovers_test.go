package plugin

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var noon = time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)

func TestAbandoned(t *testing.T) {
	resume := "run kubectl nodeupgrade resume workers to continue, or kubectl nodeupgrade abort workers to undo it"
	seen := leaseState{holder: "ann@host/7", renewed: noon.Add(-time.Hour), idle: time.Hour}
	cases := map[string]struct {
		record upgrade.Record
		lease  leaseState
		want   []report.Leftover
	}{
		"held":                   {begun(""), leaseState{holder: "ann", renewed: noon.Add(-30 * time.Second), idle: 30 * time.Second}, nil},
		"held by nobody":         {begun(""), leaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: resume}}},
		"not seen for long":      {begun(""), seen, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest (ann@host/7 was last seen at 2026-01-08T11:00:00Z)", Remedy: resume}}},
		"half-way back":          {begun("", rolledBack), leaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: "run kubectl nodeupgrade rollback workers to continue"}}},
		"half undone":            {begun("", undone), leaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: "run kubectl nodeupgrade abort workers to continue"}}},
		"stopped as it should":   {begun(upgrade.Interrupted), leaseState{}, nil},
		"done":                   {begun(upgrade.Succeeded), leaseState{}, nil},
		"never begun":            {upgrade.Record{}, leaseState{}, nil},
		"done, the lease stayed": {begun(upgrade.Succeeded), seen, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := abandoned("workers", &c.record, c.lease); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSuspended(t *testing.T) {
	ours := func(r *upgrade.Record) { r.Suspended = []string{"AZRebalance"} }
	cases := map[string]struct {
		record upgrade.Record
		now    []string
		remedy string
	}{
		"while it goes on":     {begun("", ours), []string{"AZRebalance"}, ""},
		"resumed meanwhile":    {begun(upgrade.Interrupted, ours), []string{"Launch"}, ""},
		"of one that stopped":  {begun(upgrade.Interrupted, ours), []string{"AZRebalance", "Launch"}, "kubectl nodeupgrade abort workers resumes them"},
		"of one that is over":  {begun(upgrade.Succeeded, ours), []string{"AZRebalance"}, "aws autoscaling resume-processes --auto-scaling-group-name workers --scaling-processes AZRebalance"},
		"suspended by another": {begun(upgrade.Succeeded), []string{"AZRebalance"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var want []report.Leftover
			if c.remedy != "" {
				want = []report.Leftover{{What: "group workers: run r1 suspended AZRebalance", Remedy: c.remedy}}
			}
			if got := suspended(&nodegroup.Group{Name: "workers", Provider: "aws", Suspended: c.now}, &c.record); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestStrays(t *testing.T) {
	fenced := build.Node("n1", "a")
	if err := nodemark.SetFence(fenced, "r1", nodegroup.FenceTaint("aws")); err != nil {
		t.Fatal(err)
	}
	drained := fenced.DeepCopy()
	nodemark.SetDraining(drained, noon)
	quarantined := func(r *upgrade.Record) {
		r.Nodes = map[string]upgrade.NodeRecord{"n1": {State: upgrade.NodeQuarantined}}
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
		record upgrade.Record
		remedy string
	}{
		"held by a run under way":     {held, begun(""), ""},
		"held by a run that is lost":  {held, upgrade.Record{}, unhold},
		"of a run under way":          {fenced, begun(""), ""},
		"of a run that stopped":       {fenced, begun(upgrade.Interrupted), ""},
		"of a run that is over":       {fenced, begun(upgrade.Succeeded), marks + notes},
		"of a run that was forgotten": {drained, upgrade.Record{}, marks + labels + all},
		"quarantined":                 {fenced, begun(upgrade.LeftBehind, quarantined), ""},
		"not ours":                    {build.Node("n1", "a"), upgrade.Record{}, ""},
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
			if got := strays([]*corev1.Node{c.node}, map[string]upgrade.Record{"workers": c.record}); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
