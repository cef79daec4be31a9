package upgrade_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// scene is a World that a test changes by hand, for cases that the simulated cluster does not have: lost answers, and
// readings that are older than the last change.
type scene struct {
	upgrade.World
	t *testing.T
}

// newScene returns a group like an Auto Scaling group before its upgrade, with room for ten more nodes. One node may be
// unavailable, and there is no surge.
func newScene(t *testing.T, members ...nodegroup.Member) *scene {
	slices.SortFunc(members, func(a, b nodegroup.Member) int { return strings.Compare(a.Name(), b.Name()) })
	revision := nodegroup.Revision{ID: "2", Name: "workers:2"}
	return &scene{t: t, World: upgrade.World{
		Now: start,
		Request: record.Request{
			Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail,
			DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		},
		Group: nodegroup.Group{
			Name: "workers", Provider: "aws", Wanted: revision, Pointed: revision, Can: nodegroup.FullControl(), Observed: start,
			Desired: len(members), Max: len(members) + 10, Zones: []string{"a", "b", "c"}, WantedLabels: map[string]string{"image": "ami-2"},
		},
		Members: members,
		Open:    map[string]nodegroup.Attempt{},
	}}
}

// old returns an outdated node in service. Its zone is the middle of its name, as in old-a-1.
func old(name string, pods ...*corev1.Pod) nodegroup.Member { return member(name, true, pods) }

// current returns a node in service with the wanted revision.
func current(name string, pods ...*corev1.Pod) nodegroup.Member { return member(name, false, pods) }

func member(name string, outdated bool, pods []*corev1.Pod) nodegroup.Member {
	zone := strings.Split(name, "-")[1]
	for _, pod := range pods {
		pod.Spec.NodeName = name
	}
	m := nodegroup.Member{
		Node: build.Node(name, zone), Outdated: outdated, Pods: pods,
		Instance: nodegroup.Instance{ID: "i-" + name, Zone: zone, State: nodegroup.InstanceInService, Outdated: outdated},
	}
	if !outdated {
		m.Node.Labels["image"] = "ami-2"
	}
	return m
}

// booting returns the instance of a member before its node joins.
func booting(m nodegroup.Member) nodegroup.Member {
	m.Node, m.Instance.State = nil, nodegroup.InstancePending
	return m
}

// editBooks changes the ledger of the record.
func (s *scene) editBooks(change func(*ledger.Books)) {
	books := s.Record.Ledger.Books()
	change(&books)
	s.Record.Ledger = ledger.FromBooks(books)
}

// next takes a step, and keeps the stored record and the notes.
func (s *scene) next() upgrade.Step {
	s.t.Helper()
	step := upgrade.Next(s.World)
	s.Record, s.Notes = stored(s.t, step.Record), step.Notes
	return step
}

// stored returns the record after storing and reading it.
func stored(t *testing.T, rec record.Record) record.Record {
	t.Helper()
	text, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	var back record.Record
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// crash forgets what only the process knows.
func (s *scene) crash() { s.Notes, s.Open = upgrade.Notes{}, map[string]nodegroup.Attempt{} }

// pass advances the time and reads the group again.
func (s *scene) pass(d time.Duration) {
	s.Now = s.Now.Add(d)
	s.Group.Observed = s.Now
}

// at returns the member with the name.
func (s *scene) at(name string) *nodegroup.Member {
	s.t.Helper()
	for i := range s.Members {
		if s.Members[i].Name() == name {
			return &s.Members[i]
		}
	}
	s.t.Fatalf("no member %q", name)
	return nil
}

func (s *scene) add(m nodegroup.Member) {
	i, _ := slices.BinarySearchFunc(s.Members, m.Name(), func(m nodegroup.Member, name string) int { return strings.Compare(m.Name(), name) })
	s.Members = slices.Insert(s.Members, i, m)
}

func (s *scene) remove(name string) {
	s.Members = slices.DeleteFunc(s.Members, func(m nodegroup.Member) bool { return m.Name() == name })
}

// empty removes all pods from a node.
func (s *scene) empty(name string) { s.at(name).Pods = nil }

// budgets sets the cluster's budgets.
func (s *scene) budgets(pdbs ...*policyv1.PodDisruptionBudget) { s.Budgets = drain.NewBudgets(pdbs) }

// begun puts an action in flight.
func (s *scene) begun(action nodegroup.Action) {
	tries := s.Open[action.Key()].Tries
	s.Open[action.Key()] = nodegroup.Attempt{Action: action, Begun: s.Now, InFlight: true, Tries: tries + 1}
}

// answer ends an action with the server's answer. After any other answer than success the next try is due in half a
// minute.
func (s *scene) answer(action nodegroup.Action, outcome nodegroup.Outcome, detail string) {
	s.begun(action)
	attempt := s.Open[action.Key()]
	attempt.InFlight, attempt.Ended, attempt.Outcome, attempt.Detail = false, s.Now, outcome, detail
	if outcome != nodegroup.OutcomeDone && outcome != nodegroup.OutcomeMoved {
		attempt.NotBefore = s.Now.Add(30 * time.Second)
	}
	s.Open[action.Key()] = attempt
}

// do applies actions successfully and makes them visible at once. The test adds new nodes.
func (s *scene) do(actions ...nodegroup.Action) {
	s.t.Helper()
	for _, action := range actions {
		s.effect(action)
		s.answer(action, nodegroup.OutcomeDone, "")
	}
}

func (s *scene) effect(action nodegroup.Action) {
	s.t.Helper()
	switch a := action.(type) {
	case nodemark.NodeAction:
		s.mark(a.Target().Node, func(n *corev1.Node) {
			if err := a.Apply(n, s.Record.Run, nodegroup.FenceTaint(s.Group.Provider)); err != nil {
				s.t.Fatal(err)
			}
		})
	case schedule.Eviction:
		s.end(a.Node, a.UID)
	case schedule.Deletion:
		s.end(a.Node, a.UID)
	case nodegroup.RaiseMax:
		s.Group.Max = a.Max
	case nodegroup.LowerMax:
		s.Group.Max = a.Max
	case nodegroup.Quiesce:
		s.Group.Suspended = append(slices.Clone(s.Group.Suspended), a.Processes...)
	case nodegroup.Resume:
		s.Group.Suspended = slices.DeleteFunc(slices.Clone(s.Group.Suspended), func(p string) bool { return slices.Contains(a.Processes, p) })
	case nodegroup.AddCapacity:
		s.Group.Desired += a.N
	case nodegroup.Terminate:
		s.terminate(a)
	}
}

func (s *scene) mark(name string, change func(*corev1.Node)) {
	m := s.at(name)
	m.Node = m.Node.DeepCopy()
	change(m.Node)
	m.Node.ResourceVersion += "+"
}

func (s *scene) end(node string, uid types.UID) {
	for _, pod := range s.at(node).Pods {
		if pod.UID == uid {
			pod.DeletionTimestamp = &metav1.Time{Time: s.Now.Add(30 * time.Second)}
		}
	}
}

func (s *scene) terminate(a nodegroup.Terminate) {
	for i := range s.Members {
		if s.Members[i].Instance.ID == a.Instance {
			s.Members[i].Instance.State = nodegroup.InstanceLeaving
		}
	}
	if a.Shrink {
		s.Group.Desired--
	}
}

// until takes steps and makes their actions succeed, up to the step that enters the phase. It returns that step, and
// leaves its actions to the test.
func (s *scene) until(phase record.Phase) upgrade.Step {
	s.t.Helper()
	for range 20 {
		step := s.next()
		if step.Record.Phase == phase {
			return step
		}
		s.do(step.Actions...)
	}
	s.t.Fatalf("phase %q is not reached; it is %q, waiting for %q", phase, s.Record.Phase, upgrade.Next(s.World).Status.Waiting)
	return upgrade.Step{}
}

// rest takes steps and applies their actions until a step has none.
func (s *scene) rest() upgrade.Step {
	s.t.Helper()
	for range 20 {
		step := s.next()
		if len(step.Actions) == 0 && (step.Finished || step.Wake.After(s.Now)) {
			return step
		}
		s.do(step.Actions...)
	}
	s.t.Fatal("no rest within 20 steps")
	return upgrade.Step{}
}

// wantActions checks that a step has exactly these actions, in any order. It ignores annotations for autoscalers,
// because nothing waits for them.
func wantActions(t *testing.T, step upgrade.Step, want ...string) {
	t.Helper()
	got := make([]string, 0, len(step.Actions))
	for _, action := range step.Actions {
		if _, hold := action.(nodemark.HoldNode); !hold {
			got = append(got, action.String())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("actions:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// action returns the only action of a kind in a step.
func action[A nodegroup.Action](t *testing.T, step upgrade.Step) A {
	t.Helper()
	var found []A
	for _, a := range step.Actions {
		if a, ok := a.(A); ok {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d actions of the kind %T in %v, want one", len(found), *new(A), step.Actions)
	}
	return found[0]
}

func wantState(t *testing.T, step upgrade.Step, node string, want record.NodeState) {
	t.Helper()
	got, _ := step.Status.FindNode(node)
	if got.State != want {
		t.Errorf("node %s is %q, want %q", node, got.State, want)
	}
}

// wantBlocked checks the step's obstacles, written as "node pod kind".
func wantBlocked(t *testing.T, step upgrade.Step, want ...string) {
	t.Helper()
	var got []string
	for _, b := range step.Blocked {
		got = append(got, fmt.Sprintf("%s %s %s", b.Node, b.Pod.Name, b.Kind))
	}
	if !slices.Equal(got, want) {
		t.Errorf("blocked: %q, want %q", got, want)
	}
}
