package upgrade_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// underWay returns an upgrade of two zones with two nodes each and a surge of one node per zone, at its first eviction.
func underWay(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2", build.Pod("web-1")), old("old-b-1"), old("old-b-2"))
	s.Request.Surge, s.Group.Max, s.Group.Quiesce = 2, 4, []string{"AZRebalance"}
	for s.Group.Desired < 6 {
		s.do(s.next().Actions...)
	}
	s.add(current("new-a-1"))
	s.add(current("new-b-1"))
	for started(s.Record) == "" || len(actionsOf(s.next(), "start draining")) > 0 {
		s.do(s.next().Actions...)
	}
	return s
}

// lose deletes the record, and runs the same command again a minute later.
func (s *scene) lose() (record.Record, error) {
	s.t.Helper()
	s.crash()
	s.Record, s.Request.Run = record.Record{}, ""
	s.pass(time.Minute)
	rec, err := upgrade.RebuildRecord(s.World)
	s.Record = stored(s.t, rec)
	s.Request = s.Record.Request
	return s.Record, err
}

// S2: after a record was lost, the marks on the nodes show the run, the nodes in drain, and their deadlines.
func TestLostRecordIsRebuiltFromNodeMarks(t *testing.T) {
	s := underWay(t)
	before := s.Record
	rec, err := s.lose()
	if err != nil {
		t.Fatal(err)
	}
	if rec.Run != before.Run || !slices.Equal(rec.Suspended, before.Suspended) || rec.Sizes.Desired != 4 || rec.Sizes.Max != 4 || !maps.Equal(rec.Sizes.Zones, before.Sizes.Zones) {
		t.Errorf("run %q, suspended %v, sizes %+v; want those of %q, %v, %+v", rec.Run, rec.Suspended, rec.Sizes, before.Run, before.Suspended, before.Sizes)
	}
	name := started(before)
	if n, want := rec.Nodes[name], before.Nodes[name]; len(rec.Nodes) != 1 || n.State != record.NodeDraining || !n.Deadline.Equal(want.Deadline) || n.UID != want.UID {
		t.Errorf("I8: nodes %+v, want %+v", rec.Nodes, before.Nodes)
	}
}

// A rebuilt record has the version that its strategy needs. Otherwise an older program would take it for a surge.
func TestRebuiltRecordHasVersionThatItsStrategyNeeds(t *testing.T) {
	for _, strategy := range []record.Strategy{record.Surge, record.ShortLived, record.AutoscaledBlueGreen} {
		s := underWay(t)
		s.Request.Strategy = strategy
		want := newRecordVersion(t, strategy)
		if rec, err := s.lose(); err != nil || rec.Version != want {
			t.Errorf("%s: version %d and error %v, want version %d", strategy, rec.Version, err, want)
		}
	}
}

// newRecordVersion returns the version of a new record for the strategy.
func newRecordVersion(t *testing.T, strategy record.Strategy) int {
	t.Helper()
	s := newScene(t, old("old-a-1"))
	s.Request.Strategy = strategy
	return s.next().Record.Version
}

// The ledger is rebuilt from a reading of the group that shows all that was done: no second surge is launched on top of
// the existing one.
func TestRebuiltRecordLaunchesNoSecondSurge(t *testing.T) {
	s := underWay(t)
	want := s.Record
	if _, err := s.lose(); err != nil {
		t.Fatal(err)
	}
	s.next()
	step := s.next()
	if step.Poll == 0 || len(step.Actions) > 0 || step.Record.Phase != record.PhaseSetup {
		t.Fatalf("%v in phase %q, by a reading that may be too old", step.Actions, step.Record.Phase)
	}
	s.pass(31 * time.Second)
	step = s.next()
	l := step.Record.Ledger.Books()
	for zone, z := range want.Ledger.Books().Zones {
		if got := l.Zones[zone]; got.Contribution() != z.Contribution() || got.Surge != z.Surge || got.Removed != z.Removed {
			t.Errorf("zone %s: %+v, want %+v", zone, got, z)
		}
	}
	if l.MaxFrom != 4 || l.MaxTo != 6 || len(l.Known) > 0 || step.Record.Total != 4 || step.Record.Replaced != 0 {
		t.Errorf("max from %d to %d, known %v, %d of %d", l.MaxFrom, l.MaxTo, l.Known, step.Record.Replaced, step.Record.Total)
	}
	if added := actionsOf(step, "add"); len(added) > 0 || s.Group.Desired != 6 {
		t.Errorf("a second surge: %v", added)
	}
	if step.Record.Phase != record.PhaseUpgrade {
		t.Errorf("phase %q", step.Record.Phase)
	}
}

// Nodes beyond the group's earlier size count as the run's only as far as outdated nodes are left to give them back
// with. Missing nodes are launched again.
func TestRebuiltRecordCountsAddedNodesByZone(t *testing.T) {
	cases := map[string]struct {
		change       func(*scene)
		ours         map[string]int // by zone
		removed      int
		total, known int
	}{
		"as it was":                  {func(*scene) {}, map[string]int{"a": 1, "b": 1}, 0, 4, 0},
		"an autoscaler grew it":      {func(s *scene) { s.add(current("cas-a-1")); s.add(current("cas-a-2")); s.Group.Desired += 2 }, map[string]int{"a": 1, "b": 1}, 0, 4, 2},
		"one is replaced":            {func(s *scene) { s.remove("old-b-1"); s.add(held("new-b-2")) }, map[string]int{"a": 1, "b": 1}, 1, 4, 0},
		"one is not yet launched":    {func(s *scene) { s.remove("old-b-1") }, map[string]int{"a": 1, "b": 0}, 1, 4, 0},
		"one was current from first": {func(s *scene) { s.remove("old-b-1"); s.add(current("cur-b-1")) }, map[string]int{"a": 1, "b": 1}, 0, 3, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := underWay(t)
			for _, n := range []string{"new-a-1", "new-b-1"} {
				s.mark(n, func(n *corev1.Node) { nodemark.SetHold(n, "r1") })
			}
			c.change(s)
			if _, err := s.lose(); err != nil {
				t.Fatal(err)
			}
			s.next()
			s.pass(31 * time.Second)
			s.Group.Quiesce = []string{"none, to see the books before they are used"}
			rec := s.next().Record
			removed := 0
			for zone, z := range rec.Ledger.Books().Zones {
				removed += z.Removed
				if z.Contribution() != c.ours[zone] {
					t.Errorf("zone %s: %d are ours, want %d", zone, z.Contribution(), c.ours[zone])
				}
			}
			if removed != c.removed || rec.Total != c.total || len(rec.Ledger.Books().Known) != c.known {
				t.Errorf("%d removed, %d in all, known %v", removed, rec.Total, rec.Ledger.Books().Known)
			}
		})
	}
}

// held returns a current node with the run's mark that keeps autoscalers from removing it.
func held(name string) nodegroup.Member {
	m := current(name)
	nodemark.SetHold(m.Node, "r1")
	return m
}

// A run whose record was lost continues to its end, and restores the sizes that the group had before the run.
func TestRunWithLostRecordEndsAndRestoresSizes(t *testing.T) {
	s := underWay(t)
	if _, err := s.lose(); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		step := s.next()
		if step.Finished {
			break
		}
		for _, a := range step.Actions {
			s.do(a)
			if add, ok := a.(nodegroup.AddCapacity); ok {
				s.add(current("new-" + add.Zone + "-" + add.Token[len(add.Token)-2:]))
			}
		}
		for _, m := range slices.Clone(s.Members) {
			switch m.Instance.State {
			case nodegroup.InstanceLeaving:
				s.remove(m.Name())
			default:
				if len(m.Pods) > 0 && m.Pods[0].DeletionTimestamp != nil {
					s.empty(m.Name())
				}
			}
		}
		s.pass(time.Minute)
	}
	if s.Record.Result != record.Succeeded || s.Group.Desired != 4 || s.Group.Max != 4 || len(s.Group.Suspended) > 0 {
		t.Errorf("%q (%s), desired %d, max %d, suspended %v", s.Record.Result, s.Record.Message, s.Group.Desired, s.Group.Max, s.Group.Suspended)
	}
	for _, m := range s.Members {
		if m.Outdated || len(m.Node.Annotations) > 0 {
			t.Errorf("node %s: outdated %t, %v", m.Name(), m.Outdated, m.Node.Annotations)
		}
	}
}

// S30: if nothing shows the group's size before the run, the run cannot continue: a second surge could be added on top
// of the first.
func TestRebuildFailsWithoutGroupSizeFromBeforeUpgrade(t *testing.T) {
	bare := func(s *scene) {
		for i := range s.Members {
			if s.Members[i].Node.Annotations != nil {
				s.mark(s.Members[i].Name(), func(n *corev1.Node) { delete(n.Annotations, nodemark.AnnotationGroupBaseline) })
			}
		}
	}
	garbled := func(s *scene) {
		for i := range s.Members {
			s.mark(s.Members[i].Name(), func(n *corev1.Node) { nodemark.SetGroupBaseline(n, "{") })
		}
	}
	cases := map[string]struct {
		change func(*scene)
		run    string
		lost   bool
	}{
		"all is told": {func(*scene) {}, "r1", false},
		"one node tells, the others do not": {func(s *scene) {
			text := s.at("old-a-1").Node.Annotations[nodemark.AnnotationGroupBaseline]
			bare(s)
			s.mark("old-b-1", func(n *corev1.Node) { nodemark.SetGroupBaseline(n, text) })
		}, "r1", true},
		"one node tells something else": {func(s *scene) {
			s.mark("old-b-1", func(n *corev1.Node) { nodemark.SetGroupBaseline(n, `{"desired":1,"min":0,"max":1}`) })
		}, "r1", true},
		"a node that is not fenced tells something else": {func(s *scene) {
			s.mark("new-b-1", func(n *corev1.Node) {
				nodemark.SetHold(n, "r1")
				nodemark.SetGroupBaseline(n, `{"desired":1,"min":0,"max":1}`)
			})
		}, "r1", false},
		"a fenced node names another run": {func(s *scene) {
			s.mark("old-b-1", func(n *corev1.Node) { n.Annotations[nodemark.AnnotationRun] = "evil" })
		}, "", true},
		"a node that is not fenced names another run": {func(s *scene) {
			s.mark("new-b-1", func(n *corev1.Node) { n.Annotations = map[string]string{nodemark.AnnotationRun: "evil"} })
		}, "r1", false},
		"nothing is told":  {bare, "r1", true},
		"it is not JSON":   {garbled, "r1", true},
		"it has no size":   {func(s *scene) { bare(s); s.Group.Can = nodegroup.Capabilities{} }, "r1", false},
		"there is no mark": {func(s *scene) { unmark(s) }, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := underWay(t)
			c.change(s)
			rec, err := s.lose()
			if rec.Run != c.run || errors.Is(err, upgrade.ErrBaselineLost) != c.lost || (err != nil) != c.lost {
				t.Errorf("run %q and error %v", rec.Run, err)
			}
		})
	}
}

// S30: a rebuilt record counts no more nodes as the run's own than its request can have added, whatever the marks say
// about the group: a kubelet may write annotations on its own node.
func TestRebuiltRecordCountsNoMoreAddedNodesThanRequested(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"), old("old-a-4"), old("old-b-1"), old("old-b-2"), old("old-b-3"), old("old-b-4"))
	s.Request.Surge, s.Group.Max = 1, 20
	s.Group.Quiesce, s.Group.Suspended = []string{"AZRebalance"}, []string{"AZRebalance", "Launch"}
	s.mark("old-a-1", func(n *corev1.Node) {
		nodemark.SetHold(n, "evil")
		nodemark.SetGroupBaseline(n, `{"desired":1,"min":0,"max":1,"zones":{"a":1},"suspended":["AZRebalance","Launch"]}`)
	})
	rec, err := s.lose()
	if err != nil || rec.Run != "evil" || upgrade.CountFencedByRun(&s.World, rec.Run) != 0 {
		t.Fatalf("run %q with %d witnesses and error %v", rec.Run, upgrade.CountFencedByRun(&s.World, rec.Run), err)
	}
	if !slices.Equal(rec.Suspended, []string{"AZRebalance"}) {
		t.Errorf("processes %v would be resumed, and an upgrade suspends AZRebalance alone", rec.Suspended)
	}
	s.next()
	s.pass(31 * time.Second)
	s.Group.Quiesce = []string{"none, to see the books before they are used"}
	l := s.next().Record.Ledger
	if books := l.Books(); l.Contribution() > 1 || books.MaxFrom < 19 {
		t.Errorf("%d nodes count as the run's, the max is lowered to %d; its surge is 1", l.Contribution(), books.MaxFrom)
	}
}

// Only fenced nodes are recorded as draining, and their drain timeout is limited to the request's.
func TestRebuiltRecordContainsOnlyDrainsOfFencedNodes(t *testing.T) {
	s := underWay(t)
	in := started(s.Record)
	s.mark(in, func(n *corev1.Node) {
		n.Annotations[nodemark.AnnotationDeadline] = nodemark.FormatTime(s.Now.Add(1000 * time.Hour))
	})
	s.mark("old-b-2", func(n *corev1.Node) {
		n.Spec.Taints, n.Spec.Unschedulable = nil, false
		n.Annotations[nodemark.AnnotationDeadline] = nodemark.FormatTime(s.Now)
	})
	rec, err := s.lose()
	if err != nil {
		t.Fatal(err)
	}
	if n := rec.Nodes[in]; len(rec.Nodes) != 1 || n.Deadline.After(s.Now.Add(rec.Request.DrainTimeout.Duration)) {
		t.Errorf("nodes %+v at %s", rec.Nodes, s.Now)
	}
}

// unmark removes all our annotations.
func unmark(s *scene) {
	for i := range s.Members {
		s.mark(s.Members[i].Name(), func(n *corev1.Node) {
			maps.DeleteFunc(n.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, nodemark.Domain) })
		})
	}
}
