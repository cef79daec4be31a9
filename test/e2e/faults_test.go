package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestUpgradesTolerateUnreliableCloud: the cloud is slow, throttles or loses its answers. A fault affects the next request of any group,
// so the cases run one after another.
func TestUpgradesTolerateUnreliableCloud(t *testing.T) {
	t.Parallel()
	options := quickOptions()
	options.Cloud.DescribeLag = time.Second
	shared := fixture.ForTest(t, options)
	t.Run("answers are late and requests are throttled", func(t *testing.T) { skipUnlessSampled(t); testLateAndThrottledAnswers(t, shared) })
	t.Run("answers are lost", func(t *testing.T) { skipUnlessSampled(t); testLostAnswers(t, shared) })
	t.Run("launches in a zone are impossible", func(t *testing.T) { skipUnlessSampled(t); testNoLaunchesInZone(t, shared) })
	t.Run("status with expired credentials", func(t *testing.T) { skipUnlessSampled(t); testStatusWithoutCloud(t, shared) })
	t.Run("an interrupt while the cloud fails", func(t *testing.T) { skipUnlessSampled(t); testInterruptWithFailingCloud(t, shared) })
}

// openListed is like openCase, and waits until the plugin lists the group: the cloud of these tests shows new groups late.
func openListed(t *testing.T, shared *fixture.Fixture, group fixture.Group) *testCase {
	t.Helper()
	s := openCase(t, shared, group)
	s.waitUntilListed()
	return s
}

func (s *testCase) waitUntilListed() {
	s.t.Helper()
	s.waitFor("the group to be listed", func() bool {
		return strings.Contains(runKubectl(s.t, s.Fixture, "nodeupgrade", "-o", "name").Stdout, "nodegroup/"+s.group+"\n")
	})
}

// testLateAndThrottledAnswers checks that the upgrade repeats requests that the cloud throttles or rejects for a while.
func testLateAndThrottledAnswers(t *testing.T, shared *fixture.Fixture) {
	s := openListed(t, shared, fixture.Group{Name: "late", Zones: []string{zoneA, zoneB}, Counts: []int{2, 2}, Suspended: []string{rebalance}})
	s.unavailable = 2
	for _, fault := range []awscloud.Fault{
		{Operation: "DescribeAutoScalingGroups", Times: 4, Code: "Throttling"},
		{Operation: "LaunchInstances", Times: 2, Code: "Throttling"},
		{Operation: "UpdateAutoScalingGroup", Times: 1, Code: "ResourceContention"},
		{Operation: "TerminateInstanceInAutoScalingGroup", Times: 2, Code: "ScalingActivityInProgress"},
	} {
		s.Cloud.InjectFault(fault)
	}
	s.runUpgrade(0, "--max-unavailable=2")
	s.checkUpgraded()
	s.checkFaultCount("Throttling", 6)
	s.checkFaultCount("ResourceContention", 1)
	s.checkFaultCount("ScalingActivityInProgress", 2)
}

// testLostAnswers loses the answers to a launch and to a termination. The cloud carries both out, and the upgrade must not repeat them.
func testLostAnswers(t *testing.T, shared *fixture.Fixture) {
	s := openListed(t, shared, fixture.Group{Name: "lost", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}})
	s.Cloud.InjectFault(awscloud.Fault{Operation: "LaunchInstances", AfterEffect: true})
	s.Cloud.InjectFault(awscloud.Fault{Operation: "TerminateInstanceInAutoScalingGroup", AfterEffect: true})
	s.runUpgrade(0)
	s.checkUpgraded()
	for _, operation := range []string{"LaunchInstances", "TerminateInstanceInAutoScalingGroup"} {
		lost := 0
		for _, r := range s.Cloud.Requests() {
			if r.Operation == operation && r.Status == 0 {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("%d answers to %s were lost, want 1", lost, operation)
		}
	}
}

// checkFaultCount checks how many answers had the code, which shows that the faults were injected.
func (s *testCase) checkFaultCount(code string, want int) {
	s.t.Helper()
	got := 0
	for _, r := range s.Cloud.Requests() {
		if r.Code == code {
			got++
		}
	}
	if got != want {
		s.t.Errorf("the cloud answered %s %d times, want %d", code, got, want)
	}
}

// testStatusWithoutCloud runs status while the cloud rejects the credentials. It must show the upgrade's data in the cluster, and
// why it cannot read the cloud.
func testStatusWithoutCloud(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "unread", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	s.deploy(blockingWorkload(1))
	s.startObserving()
	s.waitUntilListed()
	c := s.start()
	awaitDrainBlockedBy("stubborn")(s, c)
	s.Cloud.RejectCredentials(awscloud.CredentialsExpired)
	for _, args := range [][]string{{"status", s.group}, {"status", s.group, "-o", "json"}} {
		got := runKubectl(t, s.Fixture, append([]string{"nodeupgrade"}, args...)...)
		if got.Code != 0 {
			t.Errorf("%s ended with %d: %s", args, got.Code, got.Stderr)
		}
		for _, part := range []string{"stubborn", "Draining", "expired", "aws sso login", "upgrade"} {
			if !strings.Contains(got.Stdout, part) {
				t.Errorf("%s does not say %q: %s", args, part, got.Stdout)
			}
		}
	}
	if got := runKubectl(t, s.Fixture, "nodeupgrade", "status", "no-such-group"); got.Code != 1 || !strings.Contains(got.Stderr, "expired") {
		t.Errorf("status of a group without a record ended with %d: %s", got.Code, got.Stderr)
	}
	s.Cloud.RejectCredentials(awscloud.CredentialsFine)
	s.deleteBudget("stubborn")
	c.awaitExit(0)
	s.checkUpgraded()
}

// testInterruptWithFailingCloud interrupts an upgrade that cannot restore the group because the cloud fails. It must exit after the
// time limit. A second upgrade is interrupted twice, and must exit immediately.
func testInterruptWithFailingCloud(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "restless", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	s.deploy(blockingWorkload(2)) // only this workload: if the second interrupt cuts off an eviction, the budget of the evicted pod is blocked for two minutes
	s.startObserving()
	s.waitUntilListed()
	s.Cloud.InjectFault(awscloud.Fault{Operation: "ResumeProcesses", Times: -1, Code: "Throttling"})
	first := s.start()
	awaitDrainBlockedBy("stubborn")(s, first)
	first.interrupt()
	asked := time.Now()
	first.awaitExit(130)
	if took := time.Since(asked); took < stopLimit-slack || took > stopLimit+slack {
		t.Errorf("it took %s to stop, want %s", took, stopLimit)
	}
	if errorLine := first.errorLine(); !continueCommand.MatchString(errorLine) {
		t.Errorf("the error does not say how to continue: %s", errorLine)
	}

	second := s.start()
	awaitDrainBlockedBy("stubborn")(s, second)
	second.interrupt()
	second.awaitEvent("the stop to begin", func(e event) bool { return strings.HasPrefix(e.Text, "stopping") })
	second.interrupt()
	asked = time.Now()
	second.awaitExit(130)
	if took := time.Since(asked); took > slack {
		t.Errorf("it took %s to stop after the second interrupt, want an immediate exit", took)
	}

	s.Cloud.ClearFaults()
	s.deleteBudget("stubborn")
	// The command that was interrupted twice has not released its lease, which is valid for a minute.
	s.runUpgrade(0, "--takeover")
	s.checkUpgraded()
}

// testNoLaunchesInZone has a cloud that does not support LaunchInstances, and then one that denies it. The upgrade must raise the size
// of the whole group instead.
func testNoLaunchesInZone(t *testing.T, shared *fixture.Fixture) {
	for name, code := range map[string]string{"ancient": "InvalidAction", "denied": "AccessDenied"} {
		s := openListed(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}})
		s.Cloud.InjectFault(awscloud.Fault{Operation: "LaunchInstances", Times: 100, Code: code})
		c := s.runUpgrade(0)
		s.Cloud.ClearFaults()
		s.checkUpgraded()
		said := 0
		for from, found := 0, true; found; {
			var e event
			if e, from, found, _ = c.log.find(from, func(e event) bool { return e.Type == "note" && strings.Contains(e.Text, "the whole group larger") }); found {
				said++
				if code == "AccessDenied" && !strings.Contains(e.Text, "autoscaling:LaunchInstances") {
					t.Errorf("it does not name the missing permission: %s", e.Text)
				}
			}
		}
		if said != 1 {
			t.Errorf("%s: it says %d times that it makes the whole group larger, want once", code, said)
		}
	}
}
