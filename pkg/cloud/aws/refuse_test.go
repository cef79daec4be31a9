package aws

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stub"
)

// TestCommandsInRefusalsNameTheGroup runs the commands in refusals in a real shell, and checks their arguments.
func TestCommandsInRefusalsNameTheGroup(t *testing.T) {
	for _, word := range stub.HostileWords() {
		named := func(change ...func(*at.AutoScalingGroup)) *at.AutoScalingGroup {
			return newGroup(append(change, func(g *at.AutoScalingGroup) { g.AutoScalingGroupName = sdk.String(word) })...)
		}
		eks := managedName{word, word}
		nodes := &kt.Nodegroup{ClusterName: &eks.cluster, NodegroupName: &eks.nodegroup, Status: kt.NodegroupStatusCreating}
		update := &kt.Update{Id: sdk.String("u1"), Type: kt.UpdateTypeConfigUpdate, Status: kt.UpdateStatusInProgress}
		for text, option := range map[string]string{
			refuseOtherManagers(named(), "InProgress"):                                        "--auto-scaling-group-name",
			refuseSuspended(named(suspend("Launch"))):                                         "--auto-scaling-group-name",
			refuseWarmPool(named(withWarmPool)):                                               "--auto-scaling-group-name",
			refuseProtected(named(), []nodegroup.Instance{{Outdated: true, Protected: true}}): "--auto-scaling-group-name",
			nodegroup.InfoOf("aws").ResumeCommand(word, []string{"AZRebalance"}):              "--auto-scaling-group-name",
			refuseNodegroupStatus(nodes):                                                      "--nodegroup-name",
			refuseOtherUpdate(nodes, update):                                                  "--nodegroup-name",
		} {
			_, command, found := strings.Cut(text, "aws ")
			calls := stub.RunCommands(t, "aws "+command)
			if !found || len(calls) != 1 {
				t.Errorf("%s: ran %q", text, calls)
				continue
			}
			at := slices.Index(calls[0], option)
			if !slices.Contains(calls[0], option+"="+word) && (at < 0 || calls[0][at+1] != word) {
				t.Errorf("%s: ran %q, want %s %q", text, calls[0], option, word)
			}
		}
	}
}

func suspend(names ...string) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) {
		for _, n := range names {
			g.SuspendedProcesses = append(g.SuspendedProcesses, at.SuspendedProcess{ProcessName: sdk.String(n)})
		}
	}
}

func withWarmPool(g *at.AutoScalingGroup) { g.WarmPoolConfiguration = &at.WarmPoolConfiguration{} }

func TestGroupsThatMustNotBeUpgradedAreRefused(t *testing.T) {
	old := launchedFrom("lt-0a", "6")
	cases := map[string]struct {
		group   *at.AutoScalingGroup
		refresh at.InstanceRefreshStatus
		says    []string // empty if the group may be upgraded
	}{
		"ordinary group": {group: newGroup(withInstances(newInstance("i-1", old)))},
		"being deleted":  {group: newGroup(func(g *at.AutoScalingGroup) { g.Status = sdk.String("Delete in progress") }), says: []string{"deleted"}},
		"operator": {
			group: newGroup(func(g *at.AutoScalingGroup) { g.Operator = &at.Operator{Principal: sdk.String("ecs.amazonaws.com")} }),
			says:  []string{"ecs.amazonaws.com"},
		},
		"instance refresh active":   {group: newGroup(), refresh: "InProgress", says: []string{"instance refresh", "cancel-instance-refresh --auto-scaling-group-name workers"}},
		"instance refresh baking":   {group: newGroup(), refresh: "Baking", says: []string{"instance refresh"}},
		"instance refresh over":     {group: newGroup(), refresh: "Successful"},
		"instance refresh failed":   {group: newGroup(), refresh: "RollbackFailed"},
		"weights in the policy":     {group: newGroup(mixed("7", at.LaunchTemplateOverrides{WeightedCapacity: sdk.String("2")})), says: []string{"capacity units"}},
		"weights of an instance":    {group: newGroup(withInstances(newInstance("i-1", func(i *at.Instance) { i.WeightedCapacity = sdk.String("1") }))), says: []string{"capacity units"}},
		"sizes in vCPUs":            {group: newGroup(func(g *at.AutoScalingGroup) { g.DesiredCapacityType = sdk.String("vcpu") }), says: []string{"capacity units", "units"}},
		"sizes in units":            {group: newGroup(func(g *at.AutoScalingGroup) { g.DesiredCapacityType = sdk.String("units") })},
		"Launch suspended":          {group: newGroup(suspend("Launch")), says: []string{"resume-processes", "Launch"}},
		"Terminate suspended":       {group: newGroup(suspend("Terminate")), says: []string{"resume-processes", "Terminate"}},
		"AddToLoadBalancer as well": {group: newGroup(suspend("AZRebalance", "AddToLoadBalancer")), says: []string{"AddToLoadBalancer"}},
		"AZRebalance suspended":     {group: newGroup(suspend("AZRebalance"))},
		"warm pool":                 {group: newGroup(withWarmPool), says: []string{"warm pool", "delete-warm-pool"}},
		"outdated and protected":    {group: newGroup(withInstances(newInstance("i-1", old, protected))), says: []string{"set-instance-protection", "--instance-ids i-1"}},
		"current and protected":     {group: newGroup(withInstances(newInstance("i-1", protected)))},
		"protected and leaving":     {group: newGroup(withInstances(newInstance("i-1", old, protected, inState("Terminating:Wait"))))},
		"five protected": {
			group: newGroup(withInstances(newInstance("i-1", old, protected), newInstance("i-2", old, protected), newInstance("i-3", old, protected),
				newInstance("i-4", old, protected), newInstance("i-5", old, protected))),
			says: []string{"5 outdated instances are protected", "the first 3", "--instance-ids i-1 i-2 i-3"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := refusalReason(c.group, describe(t, c.group, awsAnswers{}, "").Instances, c.refresh)
			if (got != "") != (len(c.says) > 0) {
				t.Errorf("got %q", got)
			}
			for _, words := range c.says {
				if !strings.Contains(got, words) {
					t.Errorf("got %q, want it to say %q", got, words)
				}
			}
		})
	}
}
