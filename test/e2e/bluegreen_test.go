package e2e

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestBlueGreen keeps outdated nodes beside the new ones until a soak is over (GKE G40–G56).
func TestBlueGreen(t *testing.T) {
	t.Parallel()
	shared := common.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"from start to end":                blueGreen,
		"a budget that never opens":        blueGreenBlocked,
		"a soak that outlives the process": blueGreenLeaves,
		"paused in the soak":               blueGreenPaused,
		"rolled back out of the soak":      blueGreenBack,
		"aborted in the soak":              blueGreenAborted,
		"verbs in the drain":               blueGreenDraining,
		"carried out by Jobs":              blueGreenScheduled,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			inSample(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// soak returns the recorded soak.
func (s *testCase) soak() record.Soak {
	s.t.Helper()
	record, err := cluster.NewStore(s.Cluster.Client(), metav1.NamespaceSystem, s.group).LoadRecord(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return record.Soak
}

// openColours begins a case with three nodes in two zones. The upgrade adds a new node for each of them.
func openColours(t *testing.T, shared *fixture.Fixture, name string, extra ...fixture.Workload) *testCase {
	t.Helper()
	s := open(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}}, extra...)
	s.surge, s.unavailable = 3, 0
	return s
}

// inColours returns the flags of a blue-green upgrade.
func inColours(flags ...string) []string { return append([]string{"--strategy=blue-green"}, flags...) }

func blueGreen(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "colours")
	c := s.start(inColours("--batch=2", "--batch-soak=1s", "--soak=3s")...)
	c.until("the soak", phase(string(record.PhaseSoak)))
	if suspended := s.cloudGroup().Suspended; !slices.Equal(suspended, []string{rebalance, "AlarmNotification", "ScheduledActions"}) {
		t.Errorf("in the soak %v are suspended", suspended)
	}
	if nodes := len(s.nodes()); nodes != 6 {
		t.Errorf("in the soak there are %d nodes, want both the 3 outdated and the 3 new ones", nodes)
	}
	c.end(0)
	s.checkDone()
}

// blueGreenBlocked checks that a pod is deleted against its budget only when its node is deleted (GKE G44, G53).
func blueGreenBlocked(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "wedged", stubborn())
	s.mayBreak = true
	c := s.start(inColours("--batch=3", "--soak=2s", ampleTime)...)
	c.until("the soak", phase(string(record.PhaseSoak)))
	if on := s.nodeOf("stubborn"); !slices.Contains(s.started(), on) {
		t.Errorf("in the soak the pod that is kept is on node %s, which is not an outdated one", on)
	}
	c.end(0)
	s.checkReplaced()
}

// blueGreenLeaves exits at a long soak. During the soak, a repeated command only reads the record, and complete ends the soak
// (GKE G52).
func blueGreenLeaves(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "leaves")
	s.upgrade(6, inColours("--batch=3", "--soak=24h")...).says("soaks until ", "kubectl nodeupgrade complete leaves")
	noCloud := []string{"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_MAX_ATTEMPTS=1"} // a command that calls the cloud fails
	for _, args := range [][]string{s.args(inColours("--batch=3", "--soak=24h")...), {"nodeupgrade", "resume", s.group, "--yes"}} {
		again := startIn(t, s.Fixture, noCloud, args...)
		again.end(6)
		again.says("soaks until ")
	}
	s.asked(0, "status").says("Waits for   the soak", "it soaks until ", "Remaining   ")
	s.asked(0, "complete", "--yes", "--parallel-groups").says("nodegroup/leaves upgraded")
	s.checkDone()
}

// blueGreenPaused pauses in the soak, and the rest of the soak is kept. Then it completes the soak of an upgrade that another
// process runs (GKE G52, G54).
func blueGreenPaused(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "rests")
	c := s.start(inColours("--batch=3", "--soak=24h", "--wait")...)
	c.until("the soak", phase(string(record.PhaseSoak)))
	s.asked(0, "pause").says("paused by ")
	c.end(5)
	c.says("the outdated and the new nodes both stay")
	left := s.soak().Left.Hours()
	if left < 23 || left > 24 {
		t.Errorf("of the soak %.1f hours are left", left)
	}
	c = s.asking("resume", "--yes", "--parallel-groups", "--wait")
	s.waitFor("the soak to continue", func() bool { return !s.soak().Until.IsZero() })
	s.asked(0, "complete", "--yes").says("the soak has ended")
	c.end(0)
	s.checkDone()
}

// blueGreenBack rolls back during the soak: the outdated nodes accept pods again, and the new nodes are removed (GKE G56).
func blueGreenBack(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "returns")
	s.upgrade(6, inColours("--batch=3", "--soak=24h")...)
	s.asked(0, "rollback", "--yes", "--parallel-groups").says("rolled back to returns:1")
	s.checkUndone(true)
}

// blueGreenAborted aborts and keeps the nodes of both colours. The dry run names the command that removes the new nodes (GKE
// G56).
func blueGreenAborted(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "remains")
	s.upgrade(6, inColours("--batch=3", "--soak=24h")...)
	s.asked(0, "abort", "--dry-run").says("run kubectl nodeupgrade rollback remains to remove the new nodes instead")
	s.asked(0, "abort", "--yes").says("the group keeps 3 more nodes than before")
}

// blueGreenDraining pauses between two batches, refuses complete outside the soak, continues after Ctrl-C without a change of
// both colours, and rolls back (GKE G54, G56).
func blueGreenDraining(t *testing.T, shared *fixture.Fixture) {
	s := openColours(t, shared, "batches", stubborn())
	c := s.start(inColours("--batch=1", "--soak=24h")...)
	blockedBy("stubborn")(s, c)
	s.asking("complete").refuses(`it is in phase "drain blue", which does not allow complete`)
	c.interrupt()
	c.end(130)
	group := s.cloudGroup()
	for _, node := range s.nodes() {
		if old := !s.current(&node, group); old != node.Spec.Unschedulable {
			t.Errorf("after Ctrl-C node %s is outdated: %t, and fenced: %t", node.Name, old, node.Spec.Unschedulable)
		}
	}
	again := s.start(inColours("--batch=1", "--soak=24h")...)
	blockedBy("stubborn")(s, again)
	back := s.asking("rollback", "--yes", "--parallel-groups")
	again.end(5)
	back.end(0)
	s.checkUndone(true)
}
