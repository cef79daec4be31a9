package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// edit changes the record of a node, as anyone can who may write ConfigMaps.
func (s *scene) edit(name string, change func(*record.NodeRecord)) {
	n := s.Record.Nodes[name]
	change(&n)
	s.Record.Nodes[name] = n
}

// S31: the record names another machine for a node than the group shows. The upgrade stops, and neither machine is
// terminated, whatever the node's recorded state.
func TestForeignInstanceIsNotTerminated(t *testing.T) {
	for _, state := range []record.NodeState{record.NodeDraining, record.NodeEmpty, record.NodeRemoving, record.NodeParked} {
		t.Run(string(state), func(t *testing.T) {
			s, _ := removing(t, true)
			s.edit("old-a-1", func(n *record.NodeRecord) { n.Instance, n.State = "i-database", state })
			s.crash()
			for range 5 {
				s.pass(time.Minute)
				if got := actionsOf(s.next(), "terminate"); len(got) > 0 {
					t.Fatalf("%v, by a record that names another machine", got)
				}
			}
			if s.Record.Result != record.Failed || !strings.Contains(s.Record.Message, "i-database") || !strings.Contains(s.Record.Message, "i-old-a-1") {
				t.Errorf("result %q: %s", s.Record.Result, s.Record.Message)
			}
		})
	}
}

// An abort ignores a machine in the record that is not the node's own.
func TestAbortIgnoresInstanceThatDoesNotBelongToNode(t *testing.T) {
	s, _ := removing(t, true)
	s.edit("old-a-1", func(n *record.NodeRecord) { n.Instance = "i-database" })
	s.crash()
	s.Record = s.Record.AsAborting()
	for range 10 {
		s.pass(time.Minute)
		step := s.next()
		if got := actionsOf(step, "terminate"); len(got) > 0 {
			t.Fatalf("%v, by a record that names another machine", got)
		}
		s.do(step.Actions...)
	}
	if s.Record.Result != record.Aborted || len(s.Record.Nodes) > 0 {
		t.Errorf("result %q (%s), nodes %v", s.Record.Result, s.Record.Message, s.Record.Nodes)
	}
}

// The machine that the group shows is terminated, even if it was not listed when the node was started.
func TestTerminationNamesTheObservedInstance(t *testing.T) {
	s := newScene(t, old("old-a-1"), current("cur-a-1"))
	s.Request.Settle = duration(0)
	own := s.at("old-a-1").Instance
	s.at("old-a-1").Instance = nodegroup.Instance{}
	for started(s.Record) == "" {
		s.do(s.next().Actions...)
	}
	s.at("old-a-1").Instance = own
	if got := action[nodegroup.Terminate](t, s.until(record.PhaseUpgrade)); got.Instance != own.ID {
		t.Errorf("instance %q is terminated, want %q", got.Instance, own.ID)
	}
}

// The record may say that a node is drained only if the node shows the drain too. A node that was never started, or
// that still has pods, is drained first.
func TestUndrainedNodeIsNotTerminated(t *testing.T) {
	cases := map[string]func(*scene){
		"never started": func(*scene) {},
		"not fenced":    func(s *scene) { unmark(s) },
		"still has pods": func(s *scene) {
			n := s.Record.Nodes["old-a-1"]
			n.State, n.Terminated = record.NodeRemoving, s.Now
			s.Record.Nodes["old-a-1"] = n
			delete(s.Record.Nodes, "old-b-1")
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := underWay(t)
			s.at("old-b-1").Pods = append(s.at("old-b-1").Pods, build.Pod("db-0"))
			s.Record.Nodes["old-b-1"] = record.NodeRecord{
				UID: s.at("old-b-1").Node.UID, Instance: "i-old-b-1", Zone: "b", State: record.NodeRemoving, Batch: 1, Began: s.Now, Deadline: s.Now.Add(time.Minute), Terminated: s.Now,
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
				if n.State == record.NodeRemoving {
					t.Errorf("node %s is %q still", node, n.State)
				}
			}
		})
	}
}

// A termination whose answer was lost is repeated if the node shows its drain.
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

// TestDrainedNodeThatAUserUncordonsIsStillReplaced: a user makes a drained node schedulable whose termination was delayed. The node does not show
// its drain any more, and the upgrade does not end without replacing it.
func TestDrainedNodeThatAUserUncordonsIsStillReplaced(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Request.Surge, s.Request.Settle = 1, duration(0)
	s.do(s.next().Actions...)
	s.do(s.next().Actions...)
	s.Group.Desired = 2
	s.add(current("new-a-1"))
	s.until(record.PhaseUpgrade)
	for range 5 {
		step := s.next()
		if ends := actionsOf(step, "terminate"); len(ends) == 1 {
			s.answer(ends[0], nodegroup.OutcomeLater, "rate exceeded")
			break
		}
		s.do(step.Actions...)
	}
	if len(inState(s.Record, record.NodeRemoving)) != 1 {
		t.Fatalf("nothing is terminated: %v", s.Record.Nodes)
	}
	s.pass(time.Second)
	unmark(s)
	step := s.next()
	if step.Record.Phase != record.PhaseUpgrade || step.Record.Result != "" {
		t.Errorf("in phase %q it ends %q, and old-a-1 is outdated", step.Record.Phase, step.Record.Result)
	}
}

// S32: TestNodeMarksOfForeignUpgradeAreFound: the foreign upgrade has another group name, or is recorded in another namespace.
func TestNodeMarksOfForeignUpgradeAreFound(t *testing.T) {
	own := nodemark.Owner{Namespace: "kube-system", Group: "workers"}
	running, over := record.Record{Run: "r9", Phase: record.PhaseUpgrade}, record.Record{Run: "r9", Phase: record.PhaseUpgrade, Result: record.Succeeded}
	cases := map[string]struct {
		run, held string
		owner     *nodemark.Owner
		record    *record.Record // of group "other" in the same namespace
		want      string         // the foreign upgrade, "" for none
	}{
		"no marks":                                       {owner: &nodemark.Owner{Namespace: "ops", Group: "workers"}},
		"its own run":                                    {run: "r1", owner: &own},
		"another run of its own":                         {run: "r9", owner: &own},
		"in another namespace":                           {run: "r9", owner: &nodemark.Owner{Namespace: "ops", Group: "workers"}, want: "ops/workers"},
		"in another namespace, held":                     {held: "r9", owner: &nodemark.Owner{Namespace: "ops", Group: "workers"}, want: "ops/workers"},
		"under another name":                             {run: "r9", owner: &nodemark.Owner{Namespace: "kube-system", Group: "team=x"}, want: "kube-system/team=x"},
		"of an older version, recorded":                  {run: "r9", record: &running, want: "kube-system/other"},
		"of an older version, whose upgrade is over":     {run: "r9", record: &over},
		"of an older version, recorded nowhere":          {run: "r9"},
		"of an older version, and another is under way":  {run: "r8", record: &running},
		"of an older version, under its own run's name":  {run: "r1", record: &running},
		"of another owner, who has the same name of run": {run: "r1", owner: &nodemark.Owner{Namespace: "ops", Group: "workers"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := old("old-a-1")
			m.Node.Annotations = map[string]string{}
			for key, value := range map[string]string{nodemark.AnnotationRun: c.run, nodemark.AnnotationHeld: c.held} {
				if value != "" {
					m.Node.Annotations[key] = value
				}
			}
			if c.owner != nil {
				nodemark.SetOwner(m.Node, *c.owner)
			}
			records := map[string]record.Record{}
			if c.record != nil {
				records["other"] = *c.record
			}
			bare := old("old-a-2")
			bare.Node = nil
			got := ""
			if foreign, found := upgrade.FindForeignRun([]nodegroup.Member{bare, m}, own, "r1", records); found {
				if got = foreign.Owner.Namespace + "/" + foreign.Owner.Group; foreign.Node != "old-a-1" || foreign.Run != "r9" {
					t.Errorf("node %q of run %q", foreign.Node, foreign.Run)
				}
			}
			if got != c.want {
				t.Errorf("it is part of %q, want %q", got, c.want)
			}
		})
	}
}
