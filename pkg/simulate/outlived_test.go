package simulate_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// An upgrade was stopped when only the Node of a machine was left. In the forecast of the rest, that Node is removed,
// too.
func TestNodeWithoutMachineIsRemoved(t *testing.T) {
	spec, req := twoNodes(), request()
	spec.Group.Instances = slices.DeleteFunc(spec.Group.Instances, func(i nodegroup.Instance) bool { return i.ID == "i-old-a-1" })
	ready := build.Node("new-a-1", "a", func(n *corev1.Node) { n.Spec.ProviderID, n.Labels["image"] = "sim:///a/i-new-a-1", "ami-2" })
	spec.Nodes = append(spec.Nodes, ready)
	spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-new-a-1", Zone: "a", State: nodegroup.InstanceInService})
	began := start.Add(-10 * time.Second)
	spec.Record = record.Record{
		Version: record.Version, Run: "r1", Request: req, Started: began, Phase: record.PhaseUpgrade, PhaseBegan: began,
		Target: spec.Group.Wanted, Previous: spec.Group.Wanted, Total: 1, Begun: 1,
		Nodes: map[string]record.NodeRecord{"old-a-1": {
			UID: "old-a-1", Instance: "i-old-a-1", Zone: "a", State: record.NodeRemoving, Batch: 1, Began: began,
			Shrink: true, Terminated: start.Add(-time.Second),
		}},
		Ledger: ledger.FromBooks(ledger.Books{Zonal: true, Known: []string{"cur-b-1"}, Zones: map[string]ledger.Zone{"a": {Shrunk: 1, Launched: 1, Removed: 1}}}),
	}
	if f, err := simulate.Predict(t.Context(), spec, req); err != nil || f.Slow.Result != record.Succeeded {
		t.Errorf("ends %q: %v", f.Slow.Result, err)
	}
}
