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

// stopLimit is the time limit for an interrupted upgrade to stop. slack is the extra time for a busy machine.
const (
	stopLimit = 10 * time.Second
	slack     = 3 * time.Second
)

// interruption is one Ctrl-C, or an equivalent, at one point of the upgrade.
type interruption struct {
	counts []int
	flags  []string
	// wedge keeps one pod on its node until the upgrade was interrupted.
	wedge bool
	// moment returns at the point at which the upgrade is interrupted.
	moment func(*testCase, *command)
	// by interrupts the command. The default is Ctrl-C.
	by func(*command)
	// silent is set if nothing reads the error.
	silent bool
	// fenced is set if nodes that were not started stay fenced. suspended is set if suspended processes stay suspended.
	fenced, suspended bool
}

func interruptions() map[string]interruption {
	return map[string]interruption{
		"booting": {counts: []int{1, 1}, moment: func(s *testCase, c *command) {
			c.until("the scale up", phase(string(record.PhaseScaleUp)))
			s.waitForCloud("an instance to boot", func(g awscloud.GroupStatus) bool {
				return slices.ContainsFunc(g.Instances, func(i awscloud.InstanceStatus) bool { return i.State == at.LifecycleStatePending })
			})
		}},
		"fencing":    {counts: []int{3, 3}, moment: func(s *testCase, _ *command) { s.waitForFence() }},
		"draining":   {counts: []int{2, 2}, wedge: true, moment: blockedBy("stubborn")},
		"lopsided":   {counts: []int{2, 1}, wedge: true, moment: blockedBy("stubborn"), suspended: true},
		"settling":   {counts: []int{1, 1}, flags: []string{"--settle=3s"}, moment: func(_ *testCase, c *command) { c.until("an empty node", nodeState("Empty")) }},
		"scale-down": {counts: []int{1, 0}, moment: func(_ *testCase, c *command) { c.until("the scale down", phase(string(record.PhaseScaleDown))) }},
		"terminal":   {counts: []int{2, 2}, wedge: true, moment: blockedBy("stubborn"), by: (*command).hangUp},
		"reader": {counts: []int{2, 2}, by: (*command).leave, silent: true, moment: func(_ *testCase, c *command) {
			c.until("the scale up", phase(string(record.PhaseScaleUp)))
		}},
		"keep-fence": {counts: []int{2, 2}, flags: []string{"--keep-fence"}, wedge: true, moment: blockedBy("stubborn"), fenced: true},
	}
}

// wedge returns a workload with a pod on each of so many nodes. Its budget allows no eviction, so the first drain is blocked on
// any node.
func wedge(nodes int) fixture.Workload {
	w := stubborn()
	w.Replicas, w.CPU = int32(nodes), "1200m" // of the two that a node has
	return w
}

// blockedBy returns a function that waits until a pod of the workload blocks a drain.
func blockedBy(app string) func(*testCase, *command) {
	return func(_ *testCase, c *command) {
		c.until("a drain that is blocked", func(e event) bool { return e.Type == "blocked" && strings.Contains(e.Text, app) })
	}
}

func (i interruption) run(t *testing.T, shared *fixture.Fixture, name string) {
	group := fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: i.counts}
	var extra []fixture.Workload
	if i.wedge {
		extra = append(extra, wedge(i.counts[0]+i.counts[1]))
	}
	s := open(t, shared, group, extra...)
	s.mark(s.before.group.Instances[0].Node)
	s.before = s.takeSnapshot()

	c := s.start(i.flags...)
	i.moment(s, c)
	by := (*command).interrupt
	if i.by != nil {
		by = i.by
	}
	by(c)
	asked := time.Now()
	c.end(130)
	if took := time.Since(asked); took > stopLimit+slack {
		t.Errorf("it took %s to stop, want at most %s", took, stopLimit)
	}
	if i.silent {
		if lines := c.log.plain(); len(lines) > 0 {
			t.Errorf("read %q of a command that is not read any more", lines)
		}
	} else if errorLine := c.errorLine(); !continueCommand.MatchString(errorLine) {
		t.Errorf("the error does not say how to go on: %s", errorLine)
	}
	i.checkStopped(s)
	if i.wedge {
		s.unblock("stubborn")
	}
	s.upgrade(0, i.flags...)
	s.checkDone()
}

// checkStopped checks that nodes that were not started, and the group's processes, are as before.
func (i interruption) checkStopped(s *testCase) {
	s.t.Helper()
	if suspended := s.cloudGroup().Suspended; (len(suspended) > 0) != i.suspended {
		s.t.Errorf("suspended %v after the interruption, before %v", suspended, s.before.group.Suspended)
	}
	started := s.started()
	for _, node := range s.nodes() {
		was, had := s.before.marks[node.UID]
		if !had || slices.Contains(started, node.Name) {
			continue
		}
		switch fenced := len(ours(&node)) > 0; {
		case i.fenced && !fenced:
			s.t.Errorf("node %s was to stay fenced, and is not", node.Name)
		case !i.fenced && !marksOf(&node).equal(was):
			s.t.Errorf("node %s was never started and is not as before: %+v, before %+v", node.Name, marksOf(&node), was)
		}
	}
}

// waitForCloud waits for a state of the group in the cloud.
func (s *testCase) waitForCloud(what string, ok func(awscloud.GroupStatus) bool) {
	s.t.Helper()
	if err := s.Cloud.WaitForGroup(s.t.Context(), s.group, ok); err != nil {
		s.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// waitForFence waits until a node is fenced.
func (s *testCase) waitForFence() {
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

// resumeLate interrupts a drain, waits longer than the drain's limit and runs the same command again. The pod with the blocking
// budget must be deleted only after the rest of the limit.
func resumeLate(t *testing.T, shared *fixture.Fixture) {
	const limit = 12 * time.Second
	s := open(t, shared, fixture.Group{Name: "late", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubborn())
	for uid, name := range s.before.moves {
		if strings.HasPrefix(name, "stubborn-") {
			delete(s.before.moves, uid) // it is deleted, and not evicted
		}
	}
	flags := []string{"--on-timeout=force", "--drain-timeout=" + limit.String()}
	c := s.start(flags...)
	blockedBy("stubborn")(s, c)
	c.interrupt()
	c.end(130)
	stopped := time.Now()
	s.waitFor("the limit to be over", func() bool { return time.Since(stopped) > limit })
	again := time.Now()
	s.upgrade(0, flags...)
	deleted := s.deleted()
	if len(deleted) != 1 || deleted[0].Received.Sub(again) < limit/4 { // it was interrupted in the first half
		t.Errorf("deleted %+v, the upgrade continued at %s", deleted, again)
	}
	s.mayBreak = true
	s.checkDone()
}
