package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// edit changes the record of a node as another actor could who may write ConfigMaps.
func (s *scene) edit(name string, change func(*upgrade.NodeRecord)) {
	n := s.Record.Nodes[name]
	change(&n)
	s.Record.Nodes[name] = n
}

// S31: A record that names another machine than the group shows for the node stops the upgrade: neither
// machine is terminated, whatever state the record says that the node is in.
func TestForeignInstanceIsNotTerminated(t *testing.T) {
	for _, state := range []upgrade.NodeState{upgrade.NodeDraining, upgrade.NodeEmpty, upgrade.NodeRemoving, upgrade.NodeParked} {
		t.Run(string(state), func(t *testing.T) {
			s, _ := removing(t, true)
			s.edit("old-a-1", func(n *upgrade.NodeRecord) { n.Instance, n.State = "i-database", state })
			s.crash()
			for range 5 {
				s.pass(time.Minute)
				if got := actionsOf(s.next(), "terminate"); len(got) > 0 {
					t.Fatalf("%v, by a record that names another machine", got)
				}
			}
			if s.Record.Result != upgrade.Failed || !strings.Contains(s.Record.Message, "i-database") || !strings.Contains(s.Record.Message, "i-old-a-1") {
				t.Errorf("result %q: %s", s.Record.Result, s.Record.Message)
			}
		})
	}
}

// An abort forgets what the record says of another machine.
func TestAbortForgetsForeignInstance(t *testing.T) {
	s, _ := removing(t, true)
	s.edit("old-a-1", func(n *upgrade.NodeRecord) { n.Instance = "i-database" })
	s.crash()
	s.Record = s.Record.Aborting()
	for range 10 {
		s.pass(time.Minute)
		step := s.next()
		if got := actionsOf(step, "terminate"); len(got) > 0 {
			t.Fatalf("%v, by a record that names another machine", got)
		}
		s.do(step.Actions...)
	}
	if s.Record.Result != upgrade.Aborted || len(s.Record.Nodes) > 0 {
		t.Errorf("result %q (%s), nodes %v", s.Record.Result, s.Record.Message, s.Record.Nodes)
	}
}

// The machine that is terminated is the one that the group shows, also where it was not listed when
// the node was started.
func TestTerminationNamesTheObservedInstance(t *testing.T) {
	s := newScene(t, old("old-a-1"), current("cur-a-1"))
	s.Request.Settle = duration(0)
	own := s.at("old-a-1").Instance
	s.at("old-a-1").Instance = nodegroup.Instance{}
	for started(s.Record) == "" {
		s.do(s.next().Actions...)
	}
	s.at("old-a-1").Instance = own
	if got := action[nodegroup.Terminate](t, s.until(upgrade.PhaseUpgrade)); got.Instance != own.ID {
		t.Errorf("instance %q is terminated, want %q", got.Instance, own.ID)
	}
}

// A record that says of a node that it is drained is believed only where the node shows the drain: a
// node that was never started, or that still has pods, is drained first.
func TestUndrainedNodeIsNotTerminated(t *testing.T) {
	cases := map[string]func(*scene){
		"never started": func(*scene) {},
		"not fenced":    func(s *scene) { unmark(s) },
		"still has pods": func(s *scene) {
			n := s.Record.Nodes["old-a-1"]
			n.State, n.Terminated = upgrade.NodeRemoving, s.Now
			s.Record.Nodes["old-a-1"] = n
			delete(s.Record.Nodes, "old-b-1")
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := underWay(t)
			s.at("old-b-1").Pods = append(s.at("old-b-1").Pods, build.Pod("db-0"))
			s.Record.Nodes["old-b-1"] = upgrade.NodeRecord{
				UID: s.at("old-b-1").Node.UID, Instance: "i-old-b-1", Zone: "b", State: upgrade.NodeRemoving, Batch: 1, Began: s.Now, Deadline: s.Now.Add(time.Minute), Terminated: s.Now,
			}
			change(s)
			s.crash()
			for range 5 {
				s.pass(time.Minute)
				step := s.next()
				if got := actionsOf(step, "terminate"); len(got) > 0 {
					t.Fatalf("%v, and its pods were not evicted", got)
				}
				s.do(step.Actions...)
			}
			for node, n := range s.Record.Nodes {
				if n.State == upgrade.NodeRemoving {
					t.Errorf("node %s is %q still", node, n.State)
				}
			}
		})
	}
}

// A termination whose answer was lost is asked for again where the node shows its drain.
func TestDrainedNodeIsTerminatedAfterACrash(t *testing.T) {
	s, _ := removing(t, true)
	if s.at("old-a-1").Node.Annotations[nodemark.AnnotationDeadline] == "" {
		t.Fatal("the drain's deadline is not on the node")
	}
	s.crash()
	s.next()
	s.pass(time.Minute)
	if got := action[nodegroup.Terminate](t, s.next()); got.Instance != "i-old-a-1" {
		t.Errorf("instance %q", got.Instance)
	}
}
