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

// moment takes an upgrade to a phase in which another user sends it a request from another machine. It returns the command that
// runs the upgrade, or nil if none runs.
type moment func(*testCase) *command

// moments returns the phases of a recorded upgrade that has not ended.
func moments() map[string]moment {
	return map[string]moment{
		"scale up": func(s *testCase) *command {
			c := s.start()
			c.until("the scale up", phase(string(record.PhaseScaleUp)))
			s.waitForCloud("an instance to boot", func(g awscloud.GroupStatus) bool {
				return slices.ContainsFunc(g.Instances, func(i awscloud.InstanceStatus) bool { return i.State == at.LifecycleStatePending })
			})
			return c
		},
		"draining": func(s *testCase) *command {
			c := s.start()
			blockedBy("stubborn")(s, c)
			return c
		},
		"scale down": func(s *testCase) *command {
			s.unblock("stubborn")
			c := s.start()
			c.until("the scale down", phase(string(record.PhaseScaleDown)))
			c.interrupt()
			c.end(130)
			return nil
		},
		"paused": func(s *testCase) *command {
			c := s.interrupted()
			s.asked(0, "pause")
			return c
		},
		"interrupted": (*testCase).interrupted,
	}
}

// interrupted stops the upgrade during the drain of a node.
func (s *testCase) interrupted() *command {
	s.t.Helper()
	c := s.start()
	blockedBy("stubborn")(s, c)
	c.interrupt()
	c.end(130)
	return nil
}

// asked runs a verb about the case's group to its end, as another user with the same kubeconfig.
func (s *testCase) asked(code int, verb string, flags ...string) *command {
	s.t.Helper()
	c := s.asking(verb, flags...)
	c.end(code)
	return c
}

// asking starts a verb about the case's group.
func (s *testCase) asking(verb string, flags ...string) *command {
	s.t.Helper()
	return s.askingOf(s.group, verb, flags...)
}

func (s *testCase) askingOf(group, verb string, flags ...string) *command {
	s.t.Helper()
	args := append([]string{"nodeupgrade", verb, group, "--progress=json"}, flags...)
	return startIn(s.t, s.Fixture, []string{"HOME=" + s.t.TempDir()}, args...)
}

// says checks that the command's output contains the words.
func (c *command) says(words ...string) {
	c.t.Helper()
	text := c.out.String() + strings.Join(c.log.plain(), "\n")
	for _, word := range words {
		if !strings.Contains(text, word) {
			c.t.Errorf("%s does not say %q:\n%s", c.what, word, text)
		}
	}
}

// TestVerbsReachUpgradeOnAnotherMachine sends each verb to an upgrade in each phase, from another machine than the upgrade's.
func TestVerbsReachUpgradeOnAnotherMachine(t *testing.T) {
	t.Parallel()
	shared := common.forTest(t)
	verbs := []struct {
		name string
		run  func(*testCase, string, *command)
	}{
		{"abort", abortIn}, // first, because it waits longest for up-to-date data of the cloud
		{"rollback", rollbackIn}, {"pause", pauseIn}, {"resume", resumeIn}, {"complete", completeIn},
	}
	t.Run("without a cloud", func(t *testing.T) {
		t.Parallel()
		verbsByHand(t, shared)
	})
	var over idleGroup
	for _, verb := range verbs {
		t.Run(verb.name, func(t *testing.T) {
			t.Parallel()
			for name, moment := range moments() {
				t.Run(name, func(t *testing.T) {
					inSample(t)
					t.Parallel()
					s := openVerbs(t, shared, strings.ReplaceAll(verb.name+"-"+name, " ", "-"))
					verb.run(s, name, moment(s))
				})
			}
			t.Run("nothing recorded", func(t *testing.T) {
				start(t, shared, "nodeupgrade", verb.name, "nobody").refuses("it has no recorded upgrade")
			})
			t.Run("done", func(t *testing.T) {
				t.Parallel()
				over.open(t, shared).asking(verb.name).refuses("its upgrade is over (succeeded)")
			})
		})
	}
}

// openVerbs begins a case with two nodes, each with a pod that its budget blocks.
func openVerbs(t *testing.T, shared *fixture.Fixture, name string) *testCase {
	t.Helper()
	s := openEmpty(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	s.add(fixture.Workload{Name: "web", Replicas: 2, MaxUnavailable: "1"}, wedge(2))
	s.ready()
	return s
}

// idleGroup is a group whose upgrade has ended. The first user of the group runs the upgrade.
type idleGroup struct {
	once     sync.Once
	testCase *testCase
}

func (g *idleGroup) open(t *testing.T, shared *fixture.Fixture) *testCase {
	t.Helper()
	g.once.Do(func() {
		s := openEmpty(t, shared, fixture.Group{Name: "done", Zones: []string{zoneA}, Counts: []int{1}})
		s.upgrade(0)
		g.testCase = s
	})
	if g.testCase == nil {
		t.Fatal("the group was not upgraded")
	}
	own := *g.testCase
	own.t = t
	return &own
}

// refuses checks that the command was refused, and printed only why.
func (c *command) refuses(why string) {
	c.t.Helper()
	c.end(2)
	if errorLine := c.errorLine(); !strings.Contains(errorLine, why) || c.out.String() != "" {
		c.t.Errorf("the error does not say %q alone: %s%s", why, errorLine, c.out.String())
	}
}

func completeIn(s *testCase, _ string, holder *command) {
	s.asking("complete").refuses("which has no soak to end")
	if holder != nil {
		holder.interrupt()
		holder.end(130)
	}
}

func pauseIn(s *testCase, phase string, holder *command) {
	c := s.asking("pause")
	if phase == "draining" {
		s.waitForPause()
	}
	if phase == "draining" || phase == "scale up" { // the scale up may end before the request arrives
		s.unblock("stubborn")
	}
	c.end(0)
	c.says("paused by ", "run kubectl nodeupgrade resume "+s.group+" to continue")
	if holder != nil {
		holder.end(5)
		holder.says("paused by ", "run kubectl nodeupgrade resume "+s.group+" to continue")
	}
	s.upgrade(5).says("paused by ", "run kubectl nodeupgrade resume "+s.group+" to continue")
	for _, node := range s.nodes() {
		if !slices.Contains(s.started(), node.Name) {
			s.checkClean(&node)
		}
	}
}

// waitForPause waits until the holder pauses and only finishes its node.
func (s *testCase) waitForPause() {
	s.t.Helper()
	s.waitFor("the holder to pause", func() bool { return strings.Contains(s.status().Status.Waiting, "pausing: 1 node is finished first") })
}

func resumeIn(s *testCase, phase string, holder *command) {
	var watching *command
	switch phase {
	case "scale up":
		s.asked(0, "resume", "--yes").says("is already running")
	case "draining":
		watching = start(s.t, s.Fixture, "nodeupgrade", "status", s.group, "-w")
		c := s.asking("pause")
		// A watch collects changes for a moment. It never shows a state that starts and ends within this moment.
		s.waitFor("the watch to show the pause", func() bool {
			return strings.Contains(watching.out.String(), "pausing: 1 node is finished first")
		})
		s.asked(0, "resume", "--yes").says("the pause that ", " was withdrawn")
		c.interrupt()
		c.end(130)
	}
	if phase != "scale down" {
		s.unblock("stubborn")
	}
	if holder == nil {
		file := s.reportFile()
		s.asked(0, "resume", "--yes", "--parallel-groups", file.flag()).says("nodegroup/" + s.group + " upgraded")
		file.check(s.t, s.group, record.Succeeded)
	} else {
		holder.end(0)
	}
	if watching != nil {
		watching.end(0)
		watching.says("Remaining   ", "Ended       succeeded")
	}
	s.settle()
	after := s.takeSnapshot()
	s.checkSize(after)
	for _, node := range s.nodes() {
		if !s.current(&node, after.group) {
			s.t.Errorf("node %s is not current", node.Name)
		}
		s.checkClean(&node)
	}
}

func rollbackIn(s *testCase, phase string, holder *command) {
	file := s.reportFile()
	c := s.asking("rollback", "--yes", "--parallel-groups", file.flag())
	if holder != nil {
		holder.end(5)
		holder.says("stopped for a rollback requested by ")
	}
	switch phase {
	case "draining": // no node was replaced: none need be drained
	case "scale down":
		c = s.interruptBack(c, file)
	default:
		s.unblock("stubborn")
	}
	c.end(0)
	c.says("rolled back to " + s.group + ":1")
	file.check(s.t, s.group, record.Succeeded)
	s.checkUndone(true)
}

// interruptBack interrupts a rollback and continues it. Only the same verb continues it.
func (s *testCase) interruptBack(c *command, file reportFile) *command {
	s.t.Helper()
	c.until("a node to be drained", nodeState("Draining"))
	c.interrupt()
	c.end(130)
	s.upgrade(5).says("is being rolled back", "run kubectl nodeupgrade rollback "+s.group+" to continue")
	file.check(s.t, s.group, record.Interrupted)
	return s.asking("rollback", "--yes", "--parallel-groups", file.flag())
}

func abortIn(s *testCase, phase string, holder *command) {
	if phase != "scale up" { // the scale up would be over by then
		s.asked(0, "abort", "--dry-run").says("would be aborted")
	}
	file := s.reportFile()
	c := s.asking("abort", "--yes", file.flag())
	if holder != nil {
		holder.end(5)
		holder.says("stopped for an abort requested by ")
	}
	c.end(0)
	c.says("nodegroup/" + s.group + " aborted")
	file.check(s.t, s.group, record.Aborted)
	s.checkUndone(false)
	// On a slow machine a node may have been drained before the holder got the request. Then new nodes have pods, and stay.
	if phase == "scale up" {
		if _, _, drained, _ := holder.log.find(0, nodeState(string(record.NodeDraining))); !drained {
			s.checkSize(s.takeSnapshot())
		}
	}
}

// verbsByHand runs the verbs for labelled nodes. They read from the record which nodes these are and which are current.
func verbsByHand(t *testing.T, shared *fixture.Fixture) {
	s := openManual(t, shared, "relabelled", 0)
	group := "pool=" + s.group
	first := s.manually()
	first.until("a drained node", nodeState("Drained"))
	first.interrupt()
	first.end(130)

	s.askingOf(group, "rollback", "--yes").refuses("without a cloud only you can add nodes of the older revision")
	second := s.askingOf(group, "resume", "--yes", "--parallel-groups")
	second.until("the upgrade to go on", phase(string(record.PhaseUpgrade)))
	abort := s.askingOf(group, "abort", "--yes")
	second.end(5)
	second.says("stopped for an abort requested by ")
	abort.end(0)
	abort.says("nodegroup/"+group+" aborted", "done: unfence node")
	for _, node := range s.nodes() {
		if node.Name != "relabelled-old-0" {
			s.checkClean(&node)
		}
	}
	s.checkMarked("relabelled-old-0")
}

// checkUndone checks that the upgrade has left nothing. If it was not rolled back, it may leave nodes that were replaced or have
// pods.
func (s *testCase) checkUndone(back bool) {
	s.t.Helper()
	s.settle()
	after := s.takeSnapshot()
	for _, node := range s.nodes() {
		s.checkClean(&node)
		if back && s.current(&node, after.group) {
			s.t.Errorf("node %s still has the newer revision", node.Name)
		}
	}
	if back {
		s.checkSize(after)
	}
	if !slices.Equal(after.group.Suspended, s.before.group.Suspended) {
		s.t.Errorf("suspended %v, before %v", after.group.Suspended, s.before.group.Suspended)
	}
}
