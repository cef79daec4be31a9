package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// deniedWithin is the time limit for a command to exit after an action was denied permanently.
const deniedWithin = 2 * time.Minute

// allDenials is the environment variable that makes TestCommandsNameDeniedCloudAction deny every action at every use, not only a
// sample.
const allDenials = "NODEUPGRADE_TEST_DENIALS"

// TestCommandsNameDeniedCloudAction denies an AWS action from one of its uses on. The command must exit soon and name the action.
// After the action is allowed again, the same command must succeed.
func TestCommandsNameDeniedCloudAction(t *testing.T) {
	t.Parallel()
	options := quickOptions()
	options.Cloud.EKS = awscloud.EKSOptions{Settle: 500 * time.Millisecond, DrainLimit: 25 * time.Second, NodeLimit: time.Minute}
	shared := fixture.ForTest(t, options)
	cases := sampledDenials()
	if os.Getenv(allDenials) != "" {
		cases = listAllDenials(t, shared)
	}
	for _, d := range cases {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			d.run(t, shared)
		})
	}
}

// denial is an action that is denied to a command after a number of uses.
type denial struct {
	command, action string
	after           int
}

func (d denial) String() string { return fmt.Sprintf("%s, %s after %d", d.command, d.action, d.after) }

// sampledDenials returns a sample of the denials.
func sampledDenials() []denial {
	return []denial{
		{"upgrade", "autoscaling:ResumeProcesses", 0},
		{"upgrade", "autoscaling:TerminateInstanceInAutoScalingGroup", 1},
		{"upgrade", "autoscaling:DescribeAutoScalingGroups", 12},
		{"abort", "autoscaling:UpdateAutoScalingGroup", 0},
		{"managed", "eks:UpdateNodegroupVersion", 0},
	}
}

// maxMoments is the maximum number of uses per action at which the action is denied. A command uses some actions more often.
const maxMoments = 8

// listAllDenials runs each command without a denial, and returns a denial for each use of each action, at most about maxMoments per
// action.
func listAllDenials(t *testing.T, shared *fixture.Fixture) []denial {
	t.Helper()
	var all []denial
	for _, command := range slices.Sorted(maps.Keys(deniedCommands())) {
		s, key := openDenialCase(t, shared, command)
		deniedCommands()[command](s, key).awaitExit(0)
		for action, uses := range s.Cloud.UseCounts(key) {
			step := max(1, uses/maxMoments)
			for after := 0; after < uses; after += step {
				all = append(all, denial{command, action, after})
			}
		}
	}
	return all
}

// keyCount is the number of access keys so far.
var keyCount atomic.Int64

// deniedCommands returns functions that start each command with an access key, in a case that is ready for it.
func deniedCommands() map[string]func(s *testCase, key string) *command {
	return map[string]func(*testCase, string) *command{
		"upgrade": func(s *testCase, key string) *command { return s.startWithKey(key, s.upgradeArgs()...) },
		"managed": func(s *testCase, key string) *command {
			return s.startWithKey(key, "nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", skipBudgetChecks, toNewVersion)
		},
		"abort": func(s *testCase, key string) *command {
			return s.startWithKey(key, "nodeupgrade", "abort", s.group, "--progress=json", "--yes")
		},
		"rollback": func(s *testCase, key string) *command {
			return s.startWithKey(key, "nodeupgrade", "rollback", s.group, "--progress=json", "--yes", "--parallel-groups")
		},
	}
}

// startWithKey starts a command with the credentials of an access key.
func (s *testCase) startWithKey(key string, args ...string) *command {
	s.t.Helper()
	return startWithEnv(s.t, s.Fixture, []string{"AWS_ACCESS_KEY_ID=" + key}, args...)
}

// openDenialCase prepares a group for the command and creates an access key. The published policies determine the key's rights.
func openDenialCase(t *testing.T, shared *fixture.Fixture, command string) (s *testCase, key string) {
	t.Helper()
	n := keyCount.Add(1)
	name, key := fmt.Sprintf("denied-%d", n), fmt.Sprintf("AKIADENIED%010d", n)
	who, err := fixture.PublishedCaller(t.Context(), "aws-read.json", "aws-operate.json")
	if err == nil {
		err = shared.Cloud.SetCaller(key, who)
	}
	if err != nil {
		t.Fatal(err)
	}
	switch command {
	case "managed":
		return openManaged(t, shared, fixture.ManagedGroup{Name: name}).testCase, key
	case "abort", "rollback":
		s = openBlockedCase(t, shared, name)
		s.interruptDuringDrain()
		if command == "rollback" {
			s.deleteBudget("stubborn")
		}
		return s, key
	default:
		return openCase(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}), key
	}
}

// actionsForOtherGroups lists, by command, the actions that the command uses only to read other groups of the cluster. An Auto Scaling
// group is upgraded even if EKS's node groups cannot be read, and the other way round.
func actionsForOtherGroups() map[string][]string {
	ofEKS := []string{"ec2:DescribeInstances", "eks:DescribeNodegroup", "ssm:GetParameters"}
	return map[string][]string{
		"upgrade": ofEKS, "abort": ofEKS, "rollback": ofEKS,
		"managed": {"autoscaling:DescribeInstanceRefreshes", "ec2:DescribeLaunchTemplateVersions"},
	}
}

func (d denial) run(t *testing.T, shared *fixture.Fixture) {
	s, key := openDenialCase(t, shared, d.command)
	start := deniedCommands()[d.command]
	s.Cloud.Deny(key, d.action, d.after)
	c := start(s, key)
	select {
	case <-c.ended:
	case <-time.After(deniedWithin):
		t.Errorf("%s has not ended within %s\n%s", c.what, deniedWithin, c.transcript())
		c.interrupt()
		<-c.ended
	}
	refused := s.Cloud.StopDenying(key)
	switch text := c.transcript(); {
	case refused == 0 && c.code == 0:
		t.Skipf("%s was used less often than before", d.action) // how often the group is read depends on the machine's speed
	case refused == 0:
		t.Errorf("it ended with %d although nothing was denied\n%s", c.code, text)
	case c.code == 0 && slices.Contains(actionsForOtherGroups()[d.command], d.action):
	case c.code == 0 && d.after > 0 && slices.Contains([]string{"ec2:DescribeImages", "ssm:GetParameters"}, d.action): // later reads are for other groups
	case !strings.Contains(text, d.action):
		t.Errorf("it ended with %d and does not name %s\n%s", c.code, d.action, text)
	}
	if c.code == 0 && d.command != "upgrade" {
		return // the command has already succeeded without the action
	}
	again := start(s, key)
	again.awaitExit(0)
	if d.command == "upgrade" {
		s.checkAllReplaced()
	}
}
