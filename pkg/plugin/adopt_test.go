package plugin

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestLostRecordIsRebuiltOnlyByUpgrade checks that only an upgrade, and no verb, rebuilds a deleted record from the
// marks on nodes.
func TestLostRecordIsRebuiltOnlyByUpgrade(t *testing.T) {
	const before = `{"desired":2,"min":1,"max":2,"zones":{"a":2}}`
	cases := map[string]struct {
		before string
		mode   mode
		sized  bool
		run    string
		says   string // text of the error, "" for none
	}{
		"its marks tell all":        {before, modeUpgrade, true, "r1", ""},
		"nothing tells its sizes":   {"", modeUpgrade, true, "", "the commands that kubectl nodeupgrade status workers lists"},
		"it has no size":            {"", modeUpgrade, false, "r1", ""},
		"somebody only looks at it": {before, modeStatus, true, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := build.Node("n1", "a")
			if err := nodemark.SetFence(node, "r1", nodegroup.FenceTaint("aws")); err != nil {
				t.Fatal(err)
			}
			nodemark.SetGroupBaseline(node, c.before)
			o := &observation{
				group: nodegroup.Group{Name: "workers", Provider: "aws", Can: map[bool]nodegroup.Capabilities{true: nodegroup.FullControl()}[c.sized]}, now: noon,
				members: []nodegroup.Member{{Node: node, Outdated: true}}, cluster: &clusterReading{},
			}
			got, err := o.adoptRecord(&commandLine{choices: choices{stateNamespace: "kube-system"}, typed: noFlagTyped}, c.mode, record.Request{Run: "r2"})
			switch {
			case c.says != "":
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "run r1") {
					t.Errorf("got error %v", err)
				}
			case err != nil:
				t.Error(err)
			case got.record.Run != c.run || (c.run != "" && got.request.Run != c.run):
				t.Errorf("run %q, requested run %q", got.record.Run, got.request.Run)
			}
		})
	}
}

func TestRebuiltRecordIsDescribedWithNodesAndSize(t *testing.T) {
	sized := record.Record{Run: "r1", Sizes: nodegroup.Sizes{Desired: 6, Max: 7}, Nodes: map[string]record.NodeRecord{"b": {}, "a": {}}}
	cases := map[string]struct {
		record record.Record
		says   string
		not    string
	}{
		"of a group with a size": {sized, "draining: a, b; the group had 6 nodes and a max of 7 before the run", "XX"},
		"of one without":         {record.Record{Run: "r1"}, "the record of run r1 is gone", ";"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := describeRebuiltRecord(&c.record, 2); !strings.Contains(got, c.says) || strings.Contains(got, c.not) {
				t.Errorf("got %q", got)
			}
		})
	}
}
