package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// stopLimit is the time in which an interrupted upgrade must stop. slack is the extra time for a busy machine.
const (
	stopLimit = 10 * time.Second
	slack     = 3 * time.Second
)

// interruption is a Ctrl-C, or something similar, at a certain point of the upgrade.
type interruption struct {
	counts []int
	flags  []string
	// blocksDrains is true if a budget blocks every drain until the upgrade was interrupted.
	blocksDrains bool
	// awaitMoment waits until the upgrade has reached the point of the interruption.
	awaitMoment func(*testCase, *command)
	// sendInterrupt interrupts the command. The default is Ctrl-C.
	sendInterrupt func(*command)
	// ignoresError is true if the test has stopped reading the command's stderr.
	ignoresError bool
	// fenced is true if nodes that were not started must stay fenced. suspended is true if suspended processes must stay suspended.
	fenced, suspended bool
}

func interruptions() map[string]interruption {
	return map[string]interruption{
		"booting": {counts: []int{1, 1}, awaitMoment: func(s *testCase, c *command) {
			c.awaitEvent("the scale up", phaseBegan(string(record.PhaseScaleUp)))
			s.waitForCloudGroup("an instance to boot", func(g awscloud.GroupStatus) bool {
				return slices.ContainsFunc(g.Instances, func(i awscloud.InstanceStatus) bool { return i.State == at.LifecycleStatePending })
			})
		}},
		"fencing":  {counts: []int{3, 3}, awaitMoment: func(s *testCase, _ *command) { s.waitForFencedNode() }},
		"draining": {counts: []int{2, 2}, blocksDrains: true, awaitMoment: awaitDrainBlockedBy("stubborn")},
		"lopsided": {counts: []int{2, 1}, blocksDrains: true, awaitMoment: awaitDrainBlockedBy("stubborn"), suspended: true},
		"settling": {counts: []int{1, 1}, flags: []string{"--settle=3s"}, awaitMoment: func(_ *testCase, c *command) { c.awaitEvent("an empty node", nodeReached("Empty")) }},
		"scale-down": {counts: []int{1, 0}, awaitMoment: func(_ *testCase, c *command) {
			c.awaitEvent("the scale down", phaseBegan(string(record.PhaseScaleDown)))
		}},
		"terminal": {counts: []int{2, 2}, blocksDrains: true, awaitMoment: awaitDrainBlockedBy("stubborn"), sendInterrupt: (*command).hangUp},
		"reader": {counts: []int{2, 2}, sendInterrupt: (*command).stopReading, ignoresError: true, awaitMoment: func(_ *testCase, c *command) {
			c.awaitEvent("the scale up", phaseBegan(string(record.PhaseScaleUp)))
		}},
		"keep-fence": {counts: []int{2, 2}, flags: []string{"--keep-fence"}, blocksDrains: true, awaitMoment: awaitDrainBlockedBy("stubborn"), fenced: true},
	}
}

// blockingWorkload returns a workload with one pod on each of the given number of nodes. Its budget allows no eviction, so the drain
// of each node is blocked.
func blockingWorkload(nodes int) fixture.Workload {
	w := stubbornWorkload()
	w.Replicas, w.CPU = int32(nodes), "1200m" // more than half of a node, which has 2 CPUs
	return w
}

// awaitDrainBlockedBy returns a function that waits until a pod of the workload blocks a drain.
func awaitDrainBlockedBy(app string) func(*testCase, *command) {
	return func(_ *testCase, c *command) {
		c.awaitEvent("a drain that is blocked", func(e event) bool { return e.Type == "blocked" && strings.Contains(e.Text, app) })
	}
}

func (i interruption) run(t *testing.T, shared *fixture.Fixture, name string) {
	group := fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: i.counts}
	var extra []fixture.Workload
	if i.blocksDrains {
		extra = append(extra, blockingWorkload(i.counts[0]+i.counts[1]))
	}
	s := openCase(t, shared, group, extra...)
	s.addUserMarks(s.before.group.Instances[0].Node)
	s.before = s.takeSnapshot()

	c := s.start(i.flags...)
	i.awaitMoment(s, c)
	by := (*command).interrupt
	if i.sendInterrupt != nil {
		by = i.sendInterrupt
	}
	by(c)
	asked := time.Now()
	c.awaitExit(130)
	if took := time.Since(asked); took > stopLimit+slack {
		t.Errorf("it took %s to stop, want at most %s", took, stopLimit)
	}
	if i.ignoresError {
		if lines := c.log.plainLines(); len(lines) > 0 {
			t.Errorf("%q was read from the command after the test had stopped reading", lines)
		}
	} else if errorLine := c.errorLine(); !continueCommand.MatchString(errorLine) {
		t.Errorf("the error does not say how to continue: %s", errorLine)
	}
	i.checkRestored(s)
	if i.blocksDrains {
		s.deleteBudget("stubborn")
	}
	s.runUpgrade(0, i.flags...)
	s.checkUpgraded()
}

// checkRestored checks that the group's processes and the nodes that were not started have their former state.
func (i interruption) checkRestored(s *testCase) {
	s.t.Helper()
	if suspended := s.cloudGroup().Suspended; (len(suspended) > 0) != i.suspended {
		s.t.Errorf("suspended %v after the interruption, before %v", suspended, s.before.group.Suspended)
	}
	started := s.startedNodes()
	for _, node := range s.nodes() {
		was, had := s.before.marks[node.UID]
		if !had || slices.Contains(started, node.Name) {
			continue
		}
		switch fenced := len(toolMarks(&node)) > 0; {
		case i.fenced && !fenced:
			s.t.Errorf("node %s is not fenced, but must stay fenced", node.Name)
		case !i.fenced && !marksOf(&node).equal(was):
			s.t.Errorf("node %s was never started but has changed: %+v, before %+v", node.Name, marksOf(&node), was)
		}
	}
}

// waitForCloudGroup waits for a state of the group in the cloud.
func (s *testCase) waitForCloudGroup(what string, ok func(awscloud.GroupStatus) bool) {
	s.t.Helper()
	if err := s.Cloud.WaitForGroup(s.t.Context(), s.group, ok); err != nil {
		s.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// waitForFencedNode waits until a node is fenced.
func (s *testCase) waitForFencedNode() {
	s.t.Helper()
	watcher, err := s.Cluster.Client().CoreV1().Nodes().Watch(s.t.Context(), metav1.ListOptions{LabelSelector: "pool=" + s.group})
	if err != nil {
		s.t.Fatal(err)
	}
	defer watcher.Stop()
	limit := time.NewTimer(commandLimit)
	defer limit.Stop()
	for {
		select {
		case e := <-watcher.ResultChan():
			if node, ok := e.Object.(*corev1.Node); ok && nodemark.HasTaint(node, nodegroup.FenceTaint("aws")) {
				return
			}
		case <-limit.C:
			s.t.Fatal("no node was fenced")
		}
	}
}

// testResumeAfterDrainTimeout interrupts a drain, waits longer than --drain-timeout, and runs the same command again. The time
// without a process must not count: the blocked pod may be deleted only after the rest of the timeout.
func testResumeAfterDrainTimeout(t *testing.T, shared *fixture.Fixture) {
	const limit = 12 * time.Second
	s := openCase(t, shared, fixture.Group{Name: "late", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubbornWorkload())
	for uid, name := range s.before.movingPods {
		if strings.HasPrefix(name, "stubborn-") {
			delete(s.before.movingPods, uid) // the blocked pod is deleted instead of evicted
		}
	}
	flags := []string{"--on-timeout=force", "--drain-timeout=" + limit.String()}
	c := s.start(flags...)
	awaitDrainBlockedBy("stubborn")(s, c)
	c.interrupt()
	c.awaitExit(130)
	stopped := time.Now()
	s.waitFor("the drain timeout to pass", func() bool { return time.Since(stopped) > limit })
	again := time.Now()
	s.runUpgrade(0, flags...)
	deleted := s.podDeletions()
	if len(deleted) != 1 || deleted[0].Received.Sub(again) < limit/4 { // the drain was interrupted in the first half of the timeout
		t.Errorf("deleted %+v, the upgrade continued at %s", deleted, again)
	}
	s.mayBreak = true
	s.checkUpgraded()
}
