package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// A user is examining an instance on Standby: it is neither fenced nor drained, it is not counted, and it is named at
// the end.
func TestStandbyIsLeftAlone(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Request.Settle = duration(0)
	standby := s.at("old-a-2")
	standby.Instance.State, standby.Outdated = nodegroup.InstanceStandby, false
	s.Group.Desired, s.Group.Max = 1, 1
	for range 20 {
		step := s.next()
		for _, action := range step.Actions {
			if strings.Contains(action.String(), "old-a-2") {
				t.Errorf("something is done to the node on Standby: %s", action)
			}
		}
		if step.Finished {
			break
		}
		s.do(step.Actions...)
		if s.at("old-a-1").Instance.State == nodegroup.InstanceLeaving && !strings.Contains(started(step.Record), "new") {
			s.remove("old-a-1")
			s.add(current("new-a-1"))
		}
		s.pass(time.Minute)
		if len(s.Members) == 2 && s.Members[0].Name() == "new-a-1" {
			break
		}
	}
	step := s.rest()
	if want := "kept, because they are on Standby: i-old-a-2 (node old-a-2)"; step.Record.Result != record.Succeeded || !strings.Contains(step.Record.Message, want) {
		t.Errorf("it ends %q: %q, want %q in it", step.Record.Result, step.Record.Message, want)
	}
}

// An abort gives new nodes back and leaves the instance on Standby alone, because it existed before.
func TestAbortLeavesStandbyAlone(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("aside-a-2"))
	s.Group.Can.NameZone, s.Request.Surge = false, 1
	standby := s.at("aside-a-2")
	standby.Instance.State, standby.Outdated = nodegroup.InstanceStandby, false
	s.Group.Desired, s.Group.Max = 1, 5
	s.do(s.next().Actions...)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.crash()
	s.Record = s.Record.AsAborting()
	var ended []string
	for range 5 {
		s.pass(time.Minute)
		step := s.next()
		for _, action := range step.Actions {
			if end, ends := action.(nodegroup.Terminate); ends {
				ended = append(ended, end.Instance)
			}
		}
		s.do(step.Actions...)
	}
	if len(ended) != 1 || ended[0] != "i-new-a-1" {
		t.Errorf("the abort terminates %v, want the new node alone", ended)
	}
}

// A node whose instance is on Standby is not outdated, whatever its revision.
func TestInstanceOnStandbyIsNotOutdated(t *testing.T) {
	m := old("old-a-1")
	m.Instance.State = nodegroup.InstanceStandby
	group := nodegroup.Group{Provider: "aws", Instances: []nodegroup.Instance{m.Instance}}
	if got := nodegroup.JoinMembers(group, nil, nil); len(got) != 1 || got[0].Outdated {
		t.Errorf("got %+v, want one member that is not outdated", got)
	}
}

// The upgrade waits for a machine that a lifecycle hook keeps as long as for a new one, and names it at the end.
func TestUpgradeStopsWaitingForInstanceThatDoesNotTerminate(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Request.Settle = duration(0)
	for range 6 {
		s.do(s.next().Actions...)
	}
	if got := inState(s.Record, record.NodeRemoving); len(got) != 1 {
		t.Fatalf("no node is terminating: %v", s.Record.Nodes)
	}
	s.Group.Desired = 1
	s.add(current("new-a-1"))
	s.pass(10 * time.Minute)
	if step := s.rest(); step.Finished {
		t.Fatalf("it ends %q after ten minutes", step.Record.Result)
	}
	s.pass(11 * time.Minute)
	step := s.rest()
	if want := "i-old-a-1 (node old-a-1): still terminating after 20m0s, and no longer waited for"; step.Record.Result != record.Succeeded || !strings.Contains(step.Record.Message, want) {
		t.Errorf("it ends %q: %q, want %q in it", step.Record.Result, step.Record.Message, want)
	}
}

// A reading from before a machine's time was over does not prove that the machine is still ending. A Node object that
// outlives its machine is deleted before the end.
func TestTerminationIsOverdueOnlyIfNewReadingShowsInstance(t *testing.T) {
	for name, gone := range map[string]bool{"the group was not read since": false, "only its Node object is left": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Request.Settle = duration(0)
			for range 6 {
				s.do(s.next().Actions...)
			}
			s.Group.Desired = 1
			s.add(current("new-a-1"))
			if gone {
				s.at("old-a-1").Instance = nodegroup.Instance{}
				s.mark("old-a-1", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
			}
			observed := s.Now
			s.pass(21 * time.Minute)
			if !gone {
				s.Group.Observed = observed
			}
			step := s.next()
			if step.Finished {
				t.Errorf("it ends %q: %q", step.Record.Result, step.Record.Message)
			}
			if gone {
				action[nodemark.DeleteNode](t, step)
			}
		})
	}
}

// A node that another process removes before its turn is named at the end.
func TestNodesThatVanishAreNamed(t *testing.T) {
	s := newManualScene(t, "n-a-1", "n-a-2", "n-a-3")
	s.rest()
	s.remove("n-a-3")
	for range 2 {
		s.rest()
		drained := inState(s.Record, record.NodeDrained)
		if len(drained) != 1 {
			t.Fatalf("drained are %v", drained)
		}
		s.renew(drained[0])
	}
	step := s.rest()
	if want := "removed by a user or another process before the upgrade reached them: n-a-3"; step.Record.Result != record.Succeeded || step.Record.Message != want {
		t.Errorf("it ends %q: %q, want %q", step.Record.Result, step.Record.Message, want)
	}
}
