package runner

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// instanceOnlyCloud is a cloud whose group has only the nodes of its instances.
type instanceOnlyCloud struct{ siteCloud }

// Belongs implements cloud.Provider.
func (instanceOnlyCloud) Belongs(g *nodegroup.Group, node *corev1.Node) bool {
	return slices.ContainsFunc(g.Instances, func(i nodegroup.Instance) bool { return i.ID == "i-"+node.Name })
}

// TestMembersAreJoinedAgainWhenNodeCloudOrDrainChanges: a node whose drain has begun stays a member, whatever its labels are.
func TestMembersAreJoinedAgainWhenNodeCloudOrDrainChanges(t *testing.T) {
	fenced := func(s *site, name string) {
		s.mark(name, func(n *corev1.Node) error { return nodemark.SetFence(n, "r1", nodegroup.FenceTaint("aws")) })
	}
	cases := map[string]struct {
		happens func(*site, *run)
		want    int
	}{
		"nothing": {func(*site, *run) {}, 2},
		"a node comes": {func(s *site, r *run) {
			r.Group.Instances = append(r.Group.Instances, nodegroup.Instance{ID: "i-old-3"})
			s.addNode("old-3", true)
		}, 3},
		"the cloud is read": {func(s *site, r *run) { delete(s.instances, "i-old-2"); r.recordPoll(s.group(), nil) }, 1},
		"a drain is begun": {func(s *site, r *run) {
			delete(s.instances, "i-old-2")
			r.recordPoll(s.group(), nil)
			r.observeWorld()
			fenced(s, "old-2")
			nodes := map[string]record.NodeRecord{"old-2": {UID: s.nodes["old-2"].UID, State: record.NodeDraining}}
			r.adoptStep(&upgrade.Step{Record: record.Record{Run: "r1", Nodes: nodes}, Persist: true})
		}, 2},
		"a record names a node of another group": {func(s *site, r *run) {
			delete(s.instances, "i-old-2")
			r.recordPoll(s.group(), nil)
			r.observeWorld()
			nodes := map[string]record.NodeRecord{"old-2": {UID: s.nodes["old-2"].UID, State: record.NodeDraining}}
			r.adoptStep(&upgrade.Step{Record: record.Record{Run: "r1", Nodes: nodes}, Persist: true})
		}, 1},
		"a drain is over": {func(s *site, r *run) {
			delete(s.instances, "i-old-2")
			r.recordPoll(s.group(), nil)
			fenced(s, "old-2")
			r.Record.Run, r.Record.Nodes = "r1", map[string]record.NodeRecord{"old-2": {UID: s.nodes["old-2"].UID, State: record.NodeDraining}}
			if len(r.observeWorld().Members) != 2 {
				t.Error("the node in drain is no member")
			}
			r.adoptStep(&upgrade.Step{Persist: true})
		}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 2)
			r := &run{Runner: s.runner(), attempts: map[string]nodegroup.Attempt{}}
			r.Cloud = instanceOnlyCloud{siteCloud{s}}
			r.observeWorld()
			c.happens(s, r)
			if got := len(r.observeWorld().Members); got != c.want {
				t.Errorf("%d members, want %d", got, c.want)
			}
		})
	}
}

// TestWorkloadRestartsAreNotRepeated checks that a restart is not repeated while the pod that it moves stays for long.
func TestWorkloadRestartsAreNotRepeated(t *testing.T) {
	s := newSite(t, 1)
	long := time.Now().Add(-2 * attemptMemory)
	restart, evict := schedule.Restart{Pod: "web"}, schedule.Eviction{UID: "api"}
	r := &run{Runner: s.runner(), attempts: map[string]nodegroup.Attempt{
		restart.Key(): {Action: restart, Begun: long, Ended: long, Outcome: nodegroup.OutcomeDone},
		evict.Key():   {Action: evict, Begun: long, Ended: long, Outcome: nodegroup.OutcomeDone},
	}}
	open := r.observeWorld().Open
	if _, kept := open[restart.Key()]; !kept || len(open) != 1 {
		t.Errorf("it remembers %v, want the restart alone", open)
	}
}
