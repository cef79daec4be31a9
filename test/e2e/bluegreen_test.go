package e2e

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestBlueGreenKeepsOutdatedNodesUntilSoakEnds checks GKE G40–G56.
func TestBlueGreenKeepsOutdatedNodesUntilSoakEnds(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"from start to end":                testBlueGreenFromStartToEnd,
		"a budget that never opens":        testBlueGreenWithBlockedPod,
		"a soak that outlives the process": testExitDuringLongSoak,
		"paused in the soak":               testPauseInSoak,
		"rolled back out of the soak":      testRollbackInSoak,
		"aborted in the soak":              testAbortInSoak,
		"verbs in the drain":               testVerbsInBlueGreenDrain,
		"run by Jobs":                      testBlueGreenInJobs,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// recordedSoak returns the recorded soak.
func (s *testCase) recordedSoak() record.Soak {
	s.t.Helper()
	record, err := cluster.NewStore(s.Cluster.Client(), metav1.NamespaceSystem, s.group).LoadRecord(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return record.Soak
}

// openBlueGreen adds a group with three nodes in two zones. A blue-green upgrade adds a new node for each of them.
func openBlueGreen(t *testing.T, shared *fixture.Fixture, name string, extra ...fixture.Workload) *testCase {
	t.Helper()
	s := openCase(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}}, extra...)
	s.surge, s.unavailable = 3, 0
	return s
}

// blueGreenFlags returns the flags of a blue-green upgrade.
func blueGreenFlags(flags ...string) []string {
	return append([]string{"--strategy=blue-green"}, flags...)
}

func testBlueGreenFromStartToEnd(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "colours")
	c := s.start(blueGreenFlags("--batch=2", "--batch-soak=1s", "--soak=3s")...)
	c.awaitEvent("the soak", phaseBegan(string(record.PhaseSoak)))
	if suspended := s.cloudGroup().Suspended; !slices.Equal(suspended, []string{rebalance, "AlarmNotification", "ScheduledActions"}) {
		t.Errorf("in the soak %v are suspended", suspended)
	}
	if nodes := len(s.nodes()); nodes != 6 {
		t.Errorf("in the soak there are %d nodes, want both the 3 outdated and the 3 new ones", nodes)
	}
	c.awaitExit(0)
	s.checkUpgraded()
}

// testBlueGreenWithBlockedPod checks that a pod with a blocking budget stays during the soak. It may be deleted only when its node is
// deleted (GKE G44, G53).
func testBlueGreenWithBlockedPod(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "wedged", stubbornWorkload())
	s.mayBreak = true
	c := s.start(blueGreenFlags("--batch=3", "--soak=2s", ampleDrainTimeout)...)
	c.awaitEvent("the soak", phaseBegan(string(record.PhaseSoak)))
	if on := s.nodeOf("stubborn"); !slices.Contains(s.startedNodes(), on) {
		t.Errorf("in the soak the blocked pod is on node %s, which is not outdated", on)
	}
	c.awaitExit(0)
	s.checkAllReplaced()
}

// testExitDuringLongSoak checks that the command exits when a long soak begins. During the soak, the same command must only read the
// record, and complete must end the soak (GKE G52).
func testExitDuringLongSoak(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "leaves")
	s.runUpgrade(6, blueGreenFlags("--batch=3", "--soak=24h")...).checkOutput("soaks until ", "kubectl nodeupgrade complete leaves")
	noCloud := []string{"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_MAX_ATTEMPTS=1"} // a command that calls the cloud fails
	for _, args := range [][]string{s.upgradeArgs(blueGreenFlags("--batch=3", "--soak=24h")...), {"nodeupgrade", "resume", s.group, "--yes"}} {
		again := startWithEnv(t, s.Fixture, noCloud, args...)
		again.awaitExit(6)
		again.checkOutput("soaks until ")
	}
	s.runVerb(0, "status").checkOutput("Waits for   the soak", "it soaks until ", "Remaining   ")
	s.runVerb(0, "complete", "--yes", "--parallel-groups").checkOutput("nodegroup/leaves upgraded")
	s.checkUpgraded()
}

// testPauseInSoak pauses the upgrade in the soak. The record must keep the rest of the soak. Then it resumes the upgrade, and ends
// the soak with complete while the resumed process runs (GKE G52, G54).
func testPauseInSoak(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "rests")
	c := s.start(blueGreenFlags("--batch=3", "--soak=24h", "--wait")...)
	c.awaitEvent("the soak", phaseBegan(string(record.PhaseSoak)))
	s.runVerb(0, "pause").checkOutput("paused by ")
	c.awaitExit(5)
	c.checkOutput("the outdated and the new nodes both stay")
	left := s.recordedSoak().Left.Hours()
	if left < 23 || left > 24 {
		t.Errorf("of the soak %.1f hours are left", left)
	}
	c = s.startVerb("resume", "--yes", "--parallel-groups", "--wait")
	s.waitFor("the soak to continue", func() bool { return !s.recordedSoak().Until.IsZero() })
	s.runVerb(0, "complete", "--yes").checkOutput("the soak has ended")
	c.awaitExit(0)
	s.checkUpgraded()
}

// testRollbackInSoak rolls back during the soak. The outdated nodes must accept pods again, and the new nodes must be removed (GKE
// G56).
func testRollbackInSoak(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "returns")
	s.runUpgrade(6, blueGreenFlags("--batch=3", "--soak=24h")...)
	s.runVerb(0, "rollback", "--yes", "--parallel-groups").checkOutput("rolled back to returns:1")
	s.checkNothingLeft(true)
}

// testAbortInSoak aborts during the soak. The outdated and the new nodes must both stay. The dry run must name the command that
// removes the new nodes (GKE G56).
func testAbortInSoak(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "remains")
	s.runUpgrade(6, blueGreenFlags("--batch=3", "--soak=24h")...)
	s.runVerb(0, "abort", "--dry-run").checkOutput("run kubectl nodeupgrade rollback remains to remove the new nodes instead")
	s.runVerb(0, "abort", "--yes").checkOutput("the group keeps 3 more nodes than before")
}

// testVerbsInBlueGreenDrain checks that complete is refused outside the soak, that Ctrl-C leaves the outdated nodes fenced and the new
// ones not, and that the upgrade can be continued and rolled back (GKE G54, G56).
func testVerbsInBlueGreenDrain(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "batches", stubbornWorkload())
	c := s.start(blueGreenFlags("--batch=1", "--soak=24h")...)
	awaitDrainBlockedBy("stubborn")(s, c)
	s.startVerb("complete").checkRefusal(`it is in phase "drain blue", which does not allow complete`)
	c.interrupt()
	c.awaitExit(130)
	group := s.cloudGroup()
	for _, node := range s.nodes() {
		if old := !s.isCurrent(&node, group); old != node.Spec.Unschedulable {
			t.Errorf("after Ctrl-C node %s is outdated: %t, and fenced: %t", node.Name, old, node.Spec.Unschedulable)
		}
	}
	again := s.start(blueGreenFlags("--batch=1", "--soak=24h")...)
	awaitDrainBlockedBy("stubborn")(s, again)
	back := s.startVerb("rollback", "--yes", "--parallel-groups")
	again.awaitExit(5)
	back.awaitExit(0)
	s.checkNothingLeft(true)
}
