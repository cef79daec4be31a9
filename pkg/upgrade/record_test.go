package upgrade_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestResumable(t *testing.T) {
	cases := map[string]struct {
		record             upgrade.Record
		running, resumable bool
	}{
		"none":                 {upgrade.Record{}, false, false},
		"under way":            {upgrade.Record{Run: "r1"}, true, true},
		"interrupted":          {upgrade.Record{Run: "r1", Result: upgrade.Interrupted}, false, true},
		"paused":               {upgrade.Record{Run: "r1", Result: upgrade.Paused}, false, true},
		"target moved":         {upgrade.Record{Run: "r1", Result: upgrade.TargetMoved}, false, true},
		"E42 eviction failure": {upgrade.Record{Run: "r1", Result: upgrade.PodEvictionFailure}, false, true},
		"E33 creation failure": {upgrade.Record{Run: "r1", Result: upgrade.NodeCreationFailure}, false, true},
		"failed":               {upgrade.Record{Run: "r1", Result: upgrade.Failed}, false, true},
		"succeeded":            {upgrade.Record{Run: "r1", Result: upgrade.Succeeded}, false, false},
		"left behind":          {upgrade.Record{Run: "r1", Result: upgrade.LeftBehind}, false, false},
		"stopped before it":    {upgrade.Record{Result: upgrade.Interrupted}, false, false},
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
	nodes := map[string]upgrade.NodeRecord{
		"draining": {State: upgrade.NodeDraining, Deadline: deadline}, "forcing": {State: upgrade.NodeForcing, Deadline: deadline},
		"empty": {State: upgrade.NodeEmpty, Deadline: deadline}, "removing": {State: upgrade.NodeRemoving, Deadline: deadline},
	}
	cases := map[string]struct {
		record upgrade.Record
		anew   bool
	}{
		"interrupted":              {upgrade.Record{Result: upgrade.Interrupted, Message: "m", Ended: start}, false},
		"crashed while stopping":   {upgrade.Record{Stopping: upgrade.Interrupted}, false},
		"out of time":              {upgrade.Record{Result: upgrade.PodEvictionFailure, Message: "m", Ended: start}, true},
		"crashed when out of time": {upgrade.Record{Stopping: upgrade.PodEvictionFailure, Message: "m"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.record.Run, c.record.Phase, c.record.Nodes = "r1", upgrade.PhaseUpgrade, nodes
			got := c.record.Reopened()
			if !got.IsRunning() || got.Stopping != "" || got.Message != "" || !got.Ended.IsZero() || got.Phase != upgrade.PhaseUpgrade {
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
			if forcing := got.Nodes["forcing"].State == upgrade.NodeForcing; forcing == c.anew {
				t.Errorf("a node with its time anew is forced: %t", forcing)
			}
		})
	}
	t.Run("a crash is no stop", func(t *testing.T) {
		record := upgrade.Record{Run: "r1", Phase: upgrade.PhaseScaleUp, PhaseBegan: start}
		if got := record.Reopened(); !got.PhaseBegan.Equal(start) {
			t.Errorf("the phase began at %s, want %s", got.PhaseBegan, start)
		}
	})
}

func TestCloneSharesNothing(t *testing.T) {
	record := upgrade.Record{
		Nodes: map[string]upgrade.NodeRecord{"old-a-1": {State: upgrade.NodeDraining}}, Suspended: []string{"AZRebalance"},
		Ledger: ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"a": {Open: []ledger.Launch{{Serial: 1}}}}}),
	}
	before := stored(t, record)
	clone := record.Clone()
	clone.Nodes["old-a-1"] = upgrade.NodeRecord{}
	clone.Suspended[0] = ""
	clone.Ledger.BookReturn("a", start)
	if !reflect.DeepEqual(record, before) {
		t.Errorf("the record became %+v", record)
	}
}

func TestDuration(t *testing.T) {
	var d upgrade.Duration
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
