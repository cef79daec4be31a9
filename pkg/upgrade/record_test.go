package upgrade_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestResumable(t *testing.T) {
	cases := map[string]struct {
		record             record.Record
		running, resumable bool
	}{
		"none":                 {record.Record{}, false, false},
		"under way":            {record.Record{Run: "r1"}, true, true},
		"interrupted":          {record.Record{Run: "r1", Result: record.Interrupted}, false, true},
		"paused":               {record.Record{Run: "r1", Result: record.Paused}, false, true},
		"target moved":         {record.Record{Run: "r1", Result: record.TargetMoved}, false, true},
		"E42 eviction failure": {record.Record{Run: "r1", Result: record.PodEvictionFailure}, false, true},
		"E33 creation failure": {record.Record{Run: "r1", Result: record.NodeCreationFailure}, false, true},
		"failed":               {record.Record{Run: "r1", Result: record.Failed}, false, true},
		"succeeded":            {record.Record{Run: "r1", Result: record.Succeeded}, false, false},
		"left behind":          {record.Record{Run: "r1", Result: record.LeftBehind}, false, false},
		"stopped before it":    {record.Record{Result: record.Interrupted}, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.record.IsRunning(); got != c.running {
				t.Errorf("running %t, want %t", got, c.running)
			}
			if got := c.record.IsResumable(); got != c.resumable {
				t.Errorf("resumable %t, want %t", got, c.resumable)
			}
		})
	}
}

// I8: a stop adds no time to a node's limit, unless the limit was why it stopped.
func TestReopened(t *testing.T) {
	deadline := start.Add(15 * time.Minute)
	nodes := map[string]record.NodeRecord{
		"draining": {State: record.NodeDraining, Deadline: deadline}, "forcing": {State: record.NodeForcing, Deadline: deadline},
		"empty": {State: record.NodeEmpty, Deadline: deadline}, "removing": {State: record.NodeRemoving, Deadline: deadline},
	}
	cases := map[string]struct {
		record record.Record
		anew   bool
	}{
		"interrupted":              {record.Record{Result: record.Interrupted, Message: "m", Ended: start}, false},
		"crashed while stopping":   {record.Record{Stopping: record.Interrupted}, false},
		"out of time":              {record.Record{Result: record.PodEvictionFailure, Message: "m", Ended: start}, true},
		"crashed when out of time": {record.Record{Stopping: record.PodEvictionFailure, Message: "m"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.record.Run, c.record.Phase, c.record.Nodes = "r1", record.PhaseUpgrade, nodes
			got := c.record.Reopened()
			if !got.IsRunning() || got.Stopping != "" || got.Message != "" || !got.Ended.IsZero() || got.Phase != record.PhaseUpgrade {
				t.Errorf("it is not under way in its phase: %+v", got)
			}
			for _, name := range []string{"draining", "forcing"} {
				if anew := got.Nodes[name].Deadline.IsZero(); anew != c.anew {
					t.Errorf("node %s has its time anew: %t, want %t", name, anew, c.anew)
				}
			}
			if !reflect.DeepEqual(got.Nodes["removing"], nodes["removing"]) || !reflect.DeepEqual(got.Nodes["empty"], nodes["empty"]) {
				t.Errorf("nodes past their drain changed: %+v", got.Nodes)
			}
			if forcing := got.Nodes["forcing"].State == record.NodeForcing; forcing == c.anew {
				t.Errorf("a node with its time anew is forced: %t", forcing)
			}
		})
	}
	t.Run("a crash is no stop", func(t *testing.T) {
		record := record.Record{Run: "r1", Phase: record.PhaseScaleUp, PhaseBegan: start}
		if got := record.Reopened(); !got.PhaseBegan.Equal(start) {
			t.Errorf("the phase began at %s, want %s", got.PhaseBegan, start)
		}
	})
}

func TestCloneSharesNothing(t *testing.T) {
	rec := record.Record{
		Nodes: map[string]record.NodeRecord{"old-a-1": {State: record.NodeDraining}}, Suspended: []string{"AZRebalance"},
		Ledger: ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"a": {Open: []ledger.Launch{{Serial: 1}}}}}),
	}
	before := stored(t, rec)
	clone := rec.Clone()
	clone.Nodes["old-a-1"] = record.NodeRecord{}
	clone.Suspended[0] = ""
	clone.Ledger.BookReturn("a", start)
	if !reflect.DeepEqual(rec, before) {
		t.Errorf("the record became %+v", rec)
	}
}

func TestDuration(t *testing.T) {
	var d record.Duration
	if err := d.UnmarshalText([]byte("15m")); err != nil || d.Duration != 15*time.Minute {
		t.Errorf("got %s, %v", d, err)
	}
	if text, err := d.MarshalText(); err != nil || string(text) != "15m0s" {
		t.Errorf("got %q, %v", text, err)
	}
	checkError(t, d.UnmarshalText([]byte("soon")), `reading duration "soon"`)
}

func TestJoin(t *testing.T) {
	node := func(name, provider string) *corev1.Node {
		return build.Node(name, "a", func(n *corev1.Node) { n.Spec.ProviderID = provider })
	}
	instance := nodegroup.Instance{ID: "i-1", Zone: "b", Outdated: true}
	byLabel := func(n *corev1.Node) bool { return n.Name == "labelled" }
	type row struct {
		name, instance, zone string
		outdated             bool
	}
	cases := map[string]struct {
		instances []nodegroup.Instance
		nodes     []*corev1.Node
		want      []row
	}{
		"a node and its instance":        {[]nodegroup.Instance{instance}, []*corev1.Node{node("n", "aws:///us-east-1b/i-1")}, []row{{"n", "i-1", "b", true}}},
		"an instance without a node":     {[]nodegroup.Instance{instance}, nil, []row{{"i-1", "i-1", "b", true}}},
		"a node the cloud does not list": {nil, []*corev1.Node{node("n", "aws:///us-east-1b/i-1"), node("labelled", "")}, []row{{"labelled", "", "a", true}, {"n", "", "a", false}}},
		"the instance's word counts":     {[]nodegroup.Instance{{ID: "i-1"}}, []*corev1.Node{node("labelled", "aws:///us-east-1b/i-1")}, []row{{"labelled", "i-1", "a", false}}},
		"by name":                        {[]nodegroup.Instance{{ID: "i-2"}, {ID: "i-1"}}, []*corev1.Node{node("b", "x/i-2"), node("a", "x/i-3")}, []row{{"a", "", "a", false}, {"b", "i-2", "a", false}, {"i-1", "i-1", "", false}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []row
			for _, m := range nodegroup.JoinMembers(nodegroup.Group{Instances: c.instances}, c.nodes, byLabel) {
				got = append(got, row{m.Name(), m.Instance.ID, m.Zone(), m.Outdated})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
