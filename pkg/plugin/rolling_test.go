package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// slotsGroup returns a group of four outdated nodes that its cloud replaces one by one, and the record of its upgrade. The cloud drains
// n0 since the time, and has added a node for it.
func slotsGroup(since time.Duration) (*groupContext, record.Record) {
	g, rec := drainedGroup(0, true, map[string]time.Duration{"n0": since})
	g.group.Managed = &nodegroup.Managed{RollsInSlots: true, DeletesRest: true, PollInterval: time.Second, Operation: g.group.Managed.Operation}
	g.group.Desired = 5
	rec.Request.OnTimeout, rec.Request.Surge, rec.Request.MaxUnavailable = record.Force, 1, 0
	return g, rec
}

// TestTimeLeftOfSlotsContinuesDrain: the time for which the cloud has drained the node counts, and so does the node that it has added.
func TestTimeLeftOfSlotsContinuesDrain(t *testing.T) {
	left := func(since time.Duration) time.Duration {
		g, rec := slotsGroup(since)
		rest := (&session{}).forecastRest(t.Context(), *g, rec, loadNothing)
		if rest.RemainingUnknown != "" {
			t.Fatal(rest.RemainingUnknown)
		}
		return rest.Remaining.Earliest.Duration
	}
	early, late := left(time.Minute), left(10*time.Minute)
	if early-late != 9*time.Minute || late < 3*15*time.Minute {
		t.Errorf("%s remain after 1 minute of the first drain, and %s after 10", early, late)
	}
}

// TestRollbackOpensNodesOfEarlierRevision: only the nodes that the rollback keeps are uncordoned in its forecast.
func TestRollbackOpensNodesOfEarlierRevision(t *testing.T) {
	closed := func(name string, outdated bool) nodegroup.Member {
		n := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{nodemark.CordonTaint(), {Key: "gpu"}}}}
		n.Name = name
		return nodegroup.Member{Node: n, Outdated: outdated}
	}
	p := &planning{groupContext: &groupContext{observation: observation{members: []nodegroup.Member{closed("blue", false), closed("green", true), {}}}}}
	nodes := p.openCurrentNodes()
	if len(nodes) != 2 || nodes[0].Spec.Unschedulable || len(nodes[0].Spec.Taints) != 1 || !nodes[1].Spec.Unschedulable {
		t.Errorf("got %+v", nodes)
	}
	if blue := p.members[0].Node; !blue.Spec.Unschedulable || len(blue.Spec.Taints) != 2 {
		t.Error("the node itself was changed")
	}
}

func TestMachinesThatCloudDoesNotListTakeTimeToJoin(t *testing.T) {
	for name, c := range map[string]struct {
		managed *nodegroup.Managed
		lists   bool
		want    time.Duration
	}{
		"a cloud that lists machines":       {&nodegroup.Managed{}, true, 0},
		"a cloud that lists none":           {&nodegroup.Managed{}, false, assumedJoin},
		"nodes that this tool replaces":     {nil, true, 0},
		"nodes of users, without any cloud": {nil, false, 0},
	} {
		p := &planning{groupContext: &groupContext{observation: observation{group: nodegroup.Group{Managed: c.managed, Can: nodegroup.Capabilities{ListInstances: c.lists}}}}}
		if got := p.assumedJoinTime(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
