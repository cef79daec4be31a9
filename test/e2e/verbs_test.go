package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// moment runs an upgrade until a phase in which another user sends it a verb. It returns the running command, or nil if none runs.
type moment func(*testCase) *command

// moments returns the moments at which each verb is sent, by name.
func moments() map[string]moment {
	return map[string]moment{
		"scale up": func(s *testCase) *command {
			c := s.start()
			c.awaitEvent("the scale up", phaseBegan(string(record.PhaseScaleUp)))
			s.waitForCloudGroup("an instance to boot", func(g awscloud.GroupStatus) bool {
				return slices.ContainsFunc(g.Instances, func(i awscloud.InstanceStatus) bool { return i.State == at.LifecycleStatePending })
			})
			return c
		},
		"draining": func(s *testCase) *command {
			c := s.start()
			awaitDrainBlockedBy("stubborn")(s, c)
			return c
		},
		"scale down": func(s *testCase) *command {
			s.deleteBudget("stubborn")
			c := s.start()
			c.awaitEvent("the scale down", phaseBegan(string(record.PhaseScaleDown)))
			c.interrupt()
			c.awaitExit(130)
			return nil
		},
		"paused": func(s *testCase) *command {
			c := s.interruptDuringDrain()
			s.runVerb(0, "pause")
			return c
		},
		"interrupted": (*testCase).interruptDuringDrain,
	}
}

// interruptDuringDrain starts the upgrade and interrupts it during the drain of a node.
func (s *testCase) interruptDuringDrain() *command {
	s.t.Helper()
	c := s.start()
	awaitDrainBlockedBy("stubborn")(s, c)
	c.interrupt()
	c.awaitExit(130)
	return nil
}

// runVerb runs a verb for the case's group as another user, and checks its exit code.
func (s *testCase) runVerb(code int, verb string, flags ...string) *command {
	s.t.Helper()
	c := s.startVerb(verb, flags...)
	c.awaitExit(code)
	return c
}

// startVerb starts a verb for the case's group as another user, who has the same kubeconfig and another home directory.
func (s *testCase) startVerb(verb string, flags ...string) *command {
	s.t.Helper()
	return s.startVerbOn(s.group, verb, flags...)
}

func (s *testCase) startVerbOn(group, verb string, flags ...string) *command {
	s.t.Helper()
	args := append([]string{"nodeupgrade", verb, group, "--progress=json"}, flags...)
	return startWithEnv(s.t, s.Fixture, []string{"HOME=" + s.t.TempDir()}, args...)
}

// checkOutput checks that stdout or the plain lines on stderr contain the words.
func (c *command) checkOutput(words ...string) {
	c.t.Helper()
	text := c.out.String() + strings.Join(c.log.plainLines(), "\n")
	for _, word := range words {
		if !strings.Contains(text, word) {
			c.t.Errorf("%s does not say %q:\n%s", c.what, word, text)
		}
	}
}

// TestVerbsReachUpgradeOnAnotherMachine runs each verb at each moment of an upgrade, as from another machine than the upgrade's.
func TestVerbsReachUpgradeOnAnotherMachine(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	verbs := []struct {
		name string
		run  func(*testCase, string, *command)
	}{
		{"abort", testAbort}, // first, because it waits longest for current data of the cloud
		{"rollback", testRollback}, {"pause", testPause}, {"resume", testResume}, {"complete", testComplete},
	}
	t.Run("without a cloud", func(t *testing.T) {
		t.Parallel()
		testVerbsWithoutCloud(t, shared)
	})
	var over upgradedGroup
	for _, verb := range verbs {
		t.Run(verb.name, func(t *testing.T) {
			t.Parallel()
			for name, moment := range moments() {
				t.Run(name, func(t *testing.T) {
					skipUnlessSampled(t)
					t.Parallel()
					s := openBlockedCase(t, shared, strings.ReplaceAll(verb.name+"-"+name, " ", "-"))
					verb.run(s, name, moment(s))
				})
			}
			t.Run("nothing recorded", func(t *testing.T) {
				startKubectl(t, shared, "nodeupgrade", verb.name, "nobody").checkRefusal("it has no recorded upgrade")
			})
			t.Run("done", func(t *testing.T) {
				t.Parallel()
				over.open(t, shared).startVerb(verb.name).checkRefusal("its upgrade is over (succeeded)")
			})
		})
	}
}

// openBlockedCase adds a group with two nodes. Each has a pod that its budget keeps from being evicted.
func openBlockedCase(t *testing.T, shared *fixture.Fixture, name string) *testCase {
	t.Helper()
	s := openEmptyCase(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	s.deploy(fixture.Workload{Name: "web", Replicas: 2, MaxUnavailable: "1"}, blockingWorkload(2))
	s.startObserving()
	return s
}

// upgradedGroup is a group whose upgrade has ended. The first call of open runs the upgrade.
type upgradedGroup struct {
	once     sync.Once
	testCase *testCase
}

func (g *upgradedGroup) open(t *testing.T, shared *fixture.Fixture) *testCase {
	t.Helper()
	g.once.Do(func() {
		s := openEmptyCase(t, shared, fixture.Group{Name: "done", Zones: []string{zoneA}, Counts: []int{1}})
		s.runUpgrade(0)
		g.testCase = s
	})
	if g.testCase == nil {
		t.Fatal("the group was not upgraded")
	}
	own := *g.testCase
	own.t = t
	return &own
}

// checkRefusal checks that the command exits with 2 and prints only an error with the reason.
func (c *command) checkRefusal(why string) {
	c.t.Helper()
	c.awaitExit(2)
	if errorLine := c.errorLine(); !strings.Contains(errorLine, why) || c.out.String() != "" {
		c.t.Errorf("want only an error that contains %q, got %s%s", why, errorLine, c.out.String())
	}
}

func testComplete(s *testCase, _ string, holder *command) {
	s.startVerb("complete").checkRefusal("which has no soak to end")
	if holder != nil {
		holder.interrupt()
		holder.awaitExit(130)
	}
}

func testPause(s *testCase, phase string, holder *command) {
	c := s.startVerb("pause")
	if phase == "draining" {
		s.waitForPause()
	}
	if phase == "draining" || phase == "scale up" { // the scale up may have ended before the request arrives
		s.deleteBudget("stubborn")
	}
	c.awaitExit(0)
	c.checkOutput("paused by ", "run kubectl nodeupgrade resume "+s.group+" to continue")
	if holder != nil {
		holder.awaitExit(5)
		holder.checkOutput("paused by ", "run kubectl nodeupgrade resume "+s.group+" to continue")
	}
	s.runUpgrade(5).checkOutput("paused by ", "run kubectl nodeupgrade resume "+s.group+" to continue")
	for _, node := range s.nodes() {
		if !slices.Contains(s.startedNodes(), node.Name) {
			s.checkNoMarks(&node)
		}
	}
}

// waitForPause waits until the running upgrade shows that it pauses after its current node.
func (s *testCase) waitForPause() {
	s.t.Helper()
	s.waitFor("the holder to pause", func() bool { return strings.Contains(s.status().Status.Waiting, "pausing: 1 node is finished first") })
}

func testResume(s *testCase, phase string, holder *command) {
	var watching *command
	switch phase {
	case "scale up":
		s.runVerb(0, "resume", "--yes").checkOutput("is already running")
	case "draining":
		watching = startKubectl(s.t, s.Fixture, "nodeupgrade", "status", s.group, "-w")
		c := s.startVerb("pause")
		// A watch collects changes for a moment, so it may not show a state that is very short.
		s.waitFor("the watch to show the pause", func() bool {
			return strings.Contains(watching.out.String(), "pausing: 1 node is finished first")
		})
		s.runVerb(0, "resume", "--yes").checkOutput("the pause that ", " was withdrawn")
		c.interrupt()
		c.awaitExit(130)
	}
	if phase != "scale down" {
		s.deleteBudget("stubborn")
	}
	if holder == nil {
		file := s.newReportFile()
		s.runVerb(0, "resume", "--yes", "--parallel-groups", file.flag()).checkOutput("nodegroup/" + s.group + " upgraded")
		file.check(s.t, s.group, record.Succeeded)
	} else {
		holder.awaitExit(0)
	}
	if watching != nil {
		watching.awaitExit(0)
		watching.checkOutput("Remaining   ", "Ended       succeeded")
	}
	s.settle()
	after := s.takeSnapshot()
	s.checkSizeRestored(after)
	for _, node := range s.nodes() {
		if !s.isCurrent(&node, after.group) {
			s.t.Errorf("node %s is not current", node.Name)
		}
		s.checkNoMarks(&node)
	}
}

func testRollback(s *testCase, phase string, holder *command) {
	file := s.newReportFile()
	c := s.startVerb("rollback", "--yes", "--parallel-groups", file.flag())
	if holder != nil {
		holder.awaitExit(5)
		holder.checkOutput("stopped for a rollback requested by ")
	}
	switch phase {
	case "draining": // no node was replaced, so no node must be drained
	case "scale down":
		c = s.interruptRollback(c, file)
	default:
		s.deleteBudget("stubborn")
	}
	c.awaitExit(0)
	c.checkOutput("rolled back to " + s.group + ":1")
	file.check(s.t, s.group, record.Succeeded)
	s.checkNothingLeft(true)
}

// interruptRollback interrupts the rollback, checks that an upgrade command does not continue it, and starts the rollback again.
func (s *testCase) interruptRollback(c *command, file reportFile) *command {
	s.t.Helper()
	c.awaitEvent("a node to be drained", nodeReached("Draining"))
	c.interrupt()
	c.awaitExit(130)
	s.runUpgrade(5).checkOutput("is being rolled back", "run kubectl nodeupgrade rollback "+s.group+" to continue")
	file.check(s.t, s.group, record.Interrupted)
	return s.startVerb("rollback", "--yes", "--parallel-groups", file.flag())
}

func testAbort(s *testCase, phase string, holder *command) {
	if phase != "scale up" { // the scale up would end in the meantime
		s.runVerb(0, "abort", "--dry-run").checkOutput("would be aborted")
	}
	file := s.newReportFile()
	c := s.startVerb("abort", "--yes", file.flag())
	if holder != nil {
		holder.awaitExit(5)
		holder.checkOutput("stopped for an abort requested by ")
	}
	c.awaitExit(0)
	c.checkOutput("nodegroup/" + s.group + " aborted")
	file.check(s.t, s.group, record.Aborted)
	s.checkNothingLeft(false)
	// On a slow machine a node may have been drained before the request arrived. In that case new nodes have pods, and stay.
	if phase == "scale up" {
		if _, _, drained, _ := holder.log.find(0, nodeReached(string(record.NodeDraining))); !drained {
			s.checkSizeRestored(s.takeSnapshot())
		}
	}
}

// testVerbsWithoutCloud runs the verbs for labelled nodes. The verbs read from the record which label current nodes have.
func testVerbsWithoutCloud(t *testing.T, shared *fixture.Fixture) {
	s := openManual(t, shared, "relabelled", 0)
	group := "pool=" + s.group
	first := s.startLabelled()
	first.awaitEvent("a drained node", nodeReached("Drained"))
	first.interrupt()
	first.awaitExit(130)

	s.startVerbOn(group, "rollback", "--yes").checkRefusal("without a cloud only you can add nodes of the older revision")
	second := s.startVerbOn(group, "resume", "--yes", "--parallel-groups")
	second.awaitEvent("the upgrade to continue", phaseBegan(string(record.PhaseUpgrade)))
	abort := s.startVerbOn(group, "abort", "--yes")
	second.awaitExit(5)
	second.checkOutput("stopped for an abort requested by ")
	abort.awaitExit(0)
	abort.checkOutput("nodegroup/"+group+" aborted", "done: unfence node")
	for _, node := range s.nodes() {
		if node.Name != "relabelled-old-0" {
			s.checkNoMarks(&node)
		}
	}
	s.checkUserMarks("relabelled-old-0")
}

// checkNothingLeft checks that no node has marks of the upgrade and that the same processes are suspended as before the upgrade. If
// isRolledBack is true, all nodes must have the old revision, and the group must have its former size.
func (s *testCase) checkNothingLeft(isRolledBack bool) {
	s.t.Helper()
	s.settle()
	after := s.takeSnapshot()
	for _, node := range s.nodes() {
		s.checkNoMarks(&node)
		if isRolledBack && s.isCurrent(&node, after.group) {
			s.t.Errorf("node %s still has the newer revision", node.Name)
		}
	}
	if isRolledBack {
		s.checkSizeRestored(after)
	}
	if !slices.Equal(after.group.Suspended, s.before.group.Suspended) {
		s.t.Errorf("suspended %v, before %v", after.group.Suspended, s.before.group.Suspended)
	}
}
