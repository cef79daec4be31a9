package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func TestRefusals(t *testing.T) {
	suspend := func(names ...string) func(*at.AutoScalingGroup) {
		return func(g *at.AutoScalingGroup) {
			for _, n := range names {
				g.SuspendedProcesses = append(g.SuspendedProcesses, at.SuspendedProcess{ProcessName: sdk.String(n)})
			}
		}
	}
	old := from("lt-0a", "6")
	cases := map[string]struct {
		group   *at.AutoScalingGroup
		refresh at.InstanceRefreshStatus
		says    []string // nothing: the group may be driven
	}{
		"ordinary group": {group: newGroup(with(newInstance("i-1", old)))},
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
		"weights of an instance":    {group: newGroup(with(newInstance("i-1", func(i *at.Instance) { i.WeightedCapacity = sdk.String("1") }))), says: []string{"capacity units"}},
		"sizes in vCPUs":            {group: newGroup(func(g *at.AutoScalingGroup) { g.DesiredCapacityType = sdk.String("vcpu") }), says: []string{"capacity units", "units"}},
		"sizes in units":            {group: newGroup(func(g *at.AutoScalingGroup) { g.DesiredCapacityType = sdk.String("units") })},
		"Launch suspended":          {group: newGroup(suspend("Launch")), says: []string{"resume-processes", "Launch"}},
		"Terminate suspended":       {group: newGroup(suspend("Terminate")), says: []string{"resume-processes", "Terminate"}},
		"AddToLoadBalancer as well": {group: newGroup(suspend("AZRebalance", "AddToLoadBalancer")), says: []string{"AddToLoadBalancer"}},
		"AZRebalance suspended":     {group: newGroup(suspend("AZRebalance"))},
		"warm pool":                 {group: newGroup(func(g *at.AutoScalingGroup) { g.WarmPoolConfiguration = &at.WarmPoolConfiguration{} }), says: []string{"warm pool", "delete-warm-pool"}},
		"outdated and protected":    {group: newGroup(with(newInstance("i-1", old, protected))), says: []string{"set-instance-protection", "--instance-ids i-1"}},
		"current and protected":     {group: newGroup(with(newInstance("i-1", protected)))},
		"protected and leaving":     {group: newGroup(with(newInstance("i-1", old, protected, inState("Terminating:Wait"))))},
		"five protected": {
			group: newGroup(with(newInstance("i-1", old, protected), newInstance("i-2", old, protected), newInstance("i-3", old, protected),
				newInstance("i-4", old, protected), newInstance("i-5", old, protected))),
			says: []string{"i-1 i-2 i-3 (and 2 more)"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := refusalReason(c.group, judged(t, c.group, outside{}, "").Instances, c.refresh)
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
