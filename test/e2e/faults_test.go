package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestUnreliableCloud runs the cases in which the cloud is slow, throttles or loses its answers. A fault affects the next request
// of any group, so the cases run one after another.
func TestUnreliableCloud(t *testing.T) {
	t.Parallel()
	options := quick()
	options.Cloud.DescribeLag = time.Second
	shared := fixture.ForTest(t, options)
	t.Run("what it tells is late and it turns requests away", func(t *testing.T) { inSample(t); lateAndBusy(t, shared) })
	t.Run("answers are lost", func(t *testing.T) { inSample(t); lostAnswers(t, shared) })
	t.Run("it does not know launches in a zone", func(t *testing.T) { inSample(t); zoneless(t, shared) })
	t.Run("its credentials have expired", func(t *testing.T) { inSample(t); unreadStatus(t, shared) })
	t.Run("it does not let us stop", func(t *testing.T) { inSample(t); cannotStop(t, shared) })
}

// openLate is open with a cloud that shows new groups late.
func openLate(t *testing.T, shared *fixture.Fixture, group fixture.Group) *testCase {
	t.Helper()
	s := open(t, shared, group)
	s.awaitListed()
	return s
}

func (s *testCase) awaitListed() {
	s.t.Helper()
	s.waitFor("the group to be listed", func() bool {
		return strings.Contains(run(s.t, s.Fixture, "nodeupgrade", "-o", "name").Stdout, "nodegroup/"+s.group+"\n")
	})
}

// lateAndBusy replaces two nodes at a time.
func lateAndBusy(t *testing.T, shared *fixture.Fixture) {
	s := openLate(t, shared, fixture.Group{Name: "late", Zones: []string{zoneA, zoneB}, Counts: []int{2, 2}, Suspended: []string{rebalance}})
	s.unavailable = 2
	for _, fault := range []awscloud.Fault{
		{Operation: "DescribeAutoScalingGroups", Times: 4, Code: "Throttling"},
		{Operation: "LaunchInstances", Times: 2, Code: "Throttling"},
		{Operation: "UpdateAutoScalingGroup", Times: 1, Code: "ResourceContention"},
		{Operation: "TerminateInstanceInAutoScalingGroup", Times: 2, Code: "ScalingActivityInProgress"},
	} {
		s.Cloud.InjectFault(fault)
	}
	s.upgrade(0, "--max-unavailable=2")
	s.checkDone()
	s.checkFaults("Throttling", 6)
	s.checkFaults("ResourceContention", 1)
	s.checkFaults("ScalingActivityInProgress", 2)
}

// lostAnswers loses the answers to a launch and a termination that were carried out.
func lostAnswers(t *testing.T, shared *fixture.Fixture) {
	s := openLate(t, shared, fixture.Group{Name: "lost", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}})
	s.Cloud.InjectFault(awscloud.Fault{Operation: "LaunchInstances", AfterEffect: true})
	s.Cloud.InjectFault(awscloud.Fault{Operation: "TerminateInstanceInAutoScalingGroup", AfterEffect: true})
	s.upgrade(0)
	s.checkDone()
	for _, operation := range []string{"LaunchInstances", "TerminateInstanceInAutoScalingGroup"} {
		lost := 0
		for _, r := range s.Cloud.Requests() {
			if r.Operation == operation && r.Status == 0 {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("%d answers to %s were lost, want 1: nothing was tried", lost, operation)
		}
	}
}

// checkFaults checks that exactly so many answers had the code. Otherwise the faults were not used.
func (s *testCase) checkFaults(code string, want int) {
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

// unreadStatus checks status while the cloud rejects the credentials. It must show what the cluster knows of an upgrade, and why
// it does not show more.
func unreadStatus(t *testing.T, shared *fixture.Fixture) {
	s := openEmpty(t, shared, fixture.Group{Name: "unread", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	s.add(wedge(1))
	s.ready()
	s.awaitListed()
	c := s.start()
	blockedBy("stubborn")(s, c)
	s.Cloud.RejectCredentials(awscloud.CredentialsExpired)
	for _, args := range [][]string{{"status", s.group}, {"status", s.group, "-o", "json"}} {
		got := run(t, s.Fixture, append([]string{"nodeupgrade"}, args...)...)
		if got.Code != 0 {
			t.Errorf("%s ended with %d: %s", args, got.Code, got.Stderr)
		}
		for _, part := range []string{"stubborn", "Draining", "expired", "aws sso login", "upgrade"} {
			if !strings.Contains(got.Stdout, part) {
				t.Errorf("%s does not say %q: %s", args, part, got.Stdout)
			}
		}
	}
	if got := run(t, s.Fixture, "nodeupgrade", "status", "no-such-group"); got.Code != 1 || !strings.Contains(got.Stderr, "expired") {
		t.Errorf("status of a group without a record ended with %d: %s", got.Code, got.Stderr)
	}
	s.Cloud.RejectCredentials(awscloud.CredentialsFine)
	s.unblock("stubborn")
	c.end(0)
	s.checkDone()
}

// cannotStop interrupts an upgrade that cannot restore the group, and then another one twice.
func cannotStop(t *testing.T, shared *fixture.Fixture) {
	s := openEmpty(t, shared, fixture.Group{Name: "restless", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	s.add(wedge(2)) // no other workloads: if the second interrupt cuts off an eviction, the pod's budget is blocked for two minutes
	s.ready()
	s.awaitListed()
	s.Cloud.InjectFault(awscloud.Fault{Operation: "ResumeProcesses", Times: -1, Code: "Throttling"})
	first := s.start()
	blockedBy("stubborn")(s, first)
	first.interrupt()
	asked := time.Now()
	first.end(130)
	if took := time.Since(asked); took < stopLimit-slack || took > stopLimit+slack {
		t.Errorf("it took %s to stop, want %s", took, stopLimit)
	}
	if errorLine := first.errorLine(); !continueCommand.MatchString(errorLine) {
		t.Errorf("the error does not say how to go on: %s", errorLine)
	}

	second := s.start()
	blockedBy("stubborn")(s, second)
	second.interrupt()
	second.until("the stop to begin", func(e event) bool { return strings.HasPrefix(e.Text, "stopping") })
	second.interrupt()
	asked = time.Now()
	second.end(130)
	if took := time.Since(asked); took > slack {
		t.Errorf("it took %s to stop at the second interrupt, want no time", took)
	}

	s.Cloud.ClearFaults()
	s.unblock("stubborn")
	// The command that was interrupted twice has left its lease, which is valid for a minute.
	s.upgrade(0, "--takeover")
	s.checkDone()
}

// zoneless uses an endpoint that does not know LaunchInstances, and then one that denies it. The upgrade raises the size of the
// whole group instead.
func zoneless(t *testing.T, shared *fixture.Fixture) {
	for name, code := range map[string]string{"ancient": "InvalidAction", "denied": "AccessDenied"} {
		s := openLate(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}})
		s.Cloud.InjectFault(awscloud.Fault{Operation: "LaunchInstances", Times: 100, Code: code})
		c := s.upgrade(0)
		s.Cloud.ClearFaults()
		s.checkDone()
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
			t.Errorf("%s: it says %d times that the group is made larger as a whole, want once", code, said)
		}
	}
}
