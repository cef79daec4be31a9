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

// deniedWithin is the time in which a command must exit after an action was denied permanently.
const deniedWithin = 2 * time.Minute

// allDenials is the variable that makes TestDenials deny every action at every use, instead of a sample.
const allDenials = "NODEUPGRADE_TEST_DENIALS"

// TestDenials denies one AWS action permanently, from one of its uses on. The command must exit soon and name the action. The
// same command must succeed once the action is allowed.
func TestDenials(t *testing.T) {
	t.Parallel()
	options := quick()
	options.Cloud.EKS = awscloud.EKSOptions{Settle: 500 * time.Millisecond, DrainLimit: 25 * time.Second, NodeLimit: time.Minute}
	shared := fixture.ForTest(t, options)
	cases := sampledDenials()
	if os.Getenv(allDenials) != "" {
		cases = countDenials(t, shared)
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

// sampledDenials returns a sample of the denials: the first of each kind of command.
func sampledDenials() []denial {
	return []denial{
		{"upgrade", "autoscaling:ResumeProcesses", 0},
		{"upgrade", "autoscaling:TerminateInstanceInAutoScalingGroup", 1},
		{"upgrade", "autoscaling:DescribeAutoScalingGroups", 12},
		{"abort", "autoscaling:UpdateAutoScalingGroup", 0},
		{"managed", "eks:UpdateNodegroupVersion", 0},
	}
}

// maxMoments is the maximum number of uses that are tried per action. Reading the group, for example, is used more often.
const maxMoments = 8

// countDenials runs each command without a denial, and lists the uses of each action.
func countDenials(t *testing.T, shared *fixture.Fixture) []denial {
	t.Helper()
	var all []denial
	for _, command := range slices.Sorted(maps.Keys(deniedCommands())) {
		s, key := openDenied(t, shared, command)
		deniedCommands()[command](s, key).end(0)
		for action, uses := range s.Cloud.UseCounts(key) {
			step := max(1, uses/maxMoments)
			for after := 0; after < uses; after += step {
				all = append(all, denial{command, action, after})
			}
		}
	}
	return all
}

// keys numbers the access keys.
var keys atomic.Int64

// deniedCommands returns functions that start each command with an access key, in a case that is ready for it.
func deniedCommands() map[string]func(s *testCase, key string) *command {
	return map[string]func(*testCase, string) *command{
		"upgrade": func(s *testCase, key string) *command { return s.startWith(key, s.args()...) },
		"managed": func(s *testCase, key string) *command {
			return s.startWith(key, "nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", beginsBlocked, toNew)
		},
		"abort": func(s *testCase, key string) *command {
			return s.startWith(key, "nodeupgrade", "abort", s.group, "--progress=json", "--yes")
		},
		"rollback": func(s *testCase, key string) *command {
			return s.startWith(key, "nodeupgrade", "rollback", s.group, "--progress=json", "--yes", "--parallel-groups")
		},
	}
}

// startWith starts a command with the credentials of an access key.
func (s *testCase) startWith(key string, args ...string) *command {
	s.t.Helper()
	return startIn(s.t, s.Fixture, []string{"AWS_ACCESS_KEY_ID=" + key}, args...)
}

// openDenied begins the case of a command and makes an access key for it. The key may do what the published policies allow.
func openDenied(t *testing.T, shared *fixture.Fixture, command string) (s *testCase, key string) {
	t.Helper()
	n := keys.Add(1)
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
		s = openVerbs(t, shared, name)
		s.interrupted()
		if command == "rollback" {
			s.unblock("stubborn")
		}
		return s, key
	default:
		return open(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}), key
	}
}

// readOfOthers lists the actions that a command uses only to distinguish its group from the cluster's other groups. An Auto
// Scaling group is upgraded even if EKS's groups cannot be read, and the other way round. Of images and SSM parameters, only the
// first read is for the own group.
func readOfOthers() map[string][]string {
	ofEKS := []string{"ec2:DescribeInstances", "eks:DescribeNodegroup", "ssm:GetParameters"}
	return map[string][]string{
		"upgrade": ofEKS, "abort": ofEKS, "rollback": ofEKS,
		"managed": {"autoscaling:DescribeInstanceRefreshes", "ec2:DescribeLaunchTemplateVersions"},
	}
}

func (d denial) run(t *testing.T, shared *fixture.Fixture) {
	s, key := openDenied(t, shared, d.command)
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
		t.Errorf("it ended with %d though nothing was denied\n%s", c.code, text)
	case c.code == 0 && slices.Contains(readOfOthers()[d.command], d.action):
	case c.code == 0 && d.after > 0 && slices.Contains([]string{"ec2:DescribeImages", "ssm:GetParameters"}, d.action):
	case !strings.Contains(text, d.action):
		t.Errorf("it ended with %d and does not name %s\n%s", c.code, d.action, text)
	}
	if c.code == 0 && d.command != "upgrade" {
		return // it succeeded without the action
	}
	again := start(s, key)
	again.end(0)
	if d.command == "upgrade" {
		s.checkReplaced()
	}
}
