package awscloud

import (
	"cmp"
	"slices"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// isLive reports whether an instance counts towards its group's capacity: Pending and InService do, Terminating does not.
func isLive(i instance) bool {
	return !i.left && (i.state == at.LifecycleStatePending || i.state == at.LifecycleStateInService)
}

// totalUnits adds up the capacity of instances: one each, or their weights in a weighted group.
func totalUnits(members []instance) int {
	n := 0
	for _, i := range members {
		n += i.weight
	}
	return n
}

// countByZone counts the instances in each zone.
func countByZone(members []instance) map[string]int {
	n := map[string]int{}
	for _, i := range members {
		n[i.zone]++
	}
	return n
}

// chooseLaunchZone returns the zone of the next instance: the zone with the fewest instances, and the earlier zone on a tie. It returns
// false if every zone is blocked. (Auto Scaling user guide, "Auto Scaling group Availability Zone distribution", balanced best
// effort.)
func chooseLaunchZone(zones []string, load map[string]int, blocked map[string]bool) (string, bool) {
	best := ""
	for _, z := range zones {
		if !blocked[z] && (best == "" || load[z] < load[best]) {
			best = z
		}
	}
	return best, best != ""
}

// nextToTerminate returns the instance that a shrinking group terminates by the default termination policy. Among the zones with an
// unprotected instance, it takes one with the most instances. There it prefers an instance with a launch configuration, then the
// oldest launch template version, then the longest running instance. The last rule stands for the nearest billing hour. It
// returns false if every instance is protected. (Auto Scaling user guide, "Configure termination policies".)
func nextToTerminate(members []instance) (instance, bool) {
	free := slices.DeleteFunc(slices.Clone(members), func(i instance) bool { return i.protected })
	if len(free) == 0 {
		return instance{}, false
	}
	n := countByZone(members)
	return slices.MinFunc(free, func(a, b instance) int {
		return cmp.Or(cmp.Compare(n[b.zone], n[a.zone]), cmp.Compare(a.spec.born, b.spec.born), cmp.Compare(a.number, b.number))
	}), true
}

// surplusInstances lists the instances that a group terminates to reach desired units. A pending instance that AZRebalance launched does
// not count: the group launches before it terminates.
func surplusInstances(members []instance, desired int) []instance {
	var out []instance
	members = slices.Clone(members)
	have := totalUnits(members)
	for _, i := range members {
		if i.rebalance && i.state == at.LifecycleStatePending {
			have -= i.weight
		}
	}
	for {
		v, ok := nextToTerminate(members)
		if !ok || have-v.weight < desired {
			return out
		}
		out = append(out, v)
		have -= v.weight
		members = slices.DeleteFunc(members, func(i instance) bool { return i.id == v.id })
	}
}

// chooseRebalanceZones returns the zones between which AZRebalance moves an instance: from the fullest to the emptiest that is not
// blocked. It returns false unless they differ by more than one and the full zone has an instance that is not protected.
func chooseRebalanceZones(zones []string, members []instance, blocked map[string]bool) (from, to string, ok bool) {
	n := countByZone(members)
	free := countByZone(slices.DeleteFunc(slices.Clone(members), func(i instance) bool { return i.protected }))
	to, ok = chooseLaunchZone(zones, n, blocked)
	for _, z := range zones {
		if free[z] > 0 && (from == "" || n[z] > n[from]) {
			from = z
		}
	}
	return from, to, ok && from != "" && n[from]-n[to] > 1
}

// maxDuringRebalance returns how many units a rebalancing group may reach: 10 percent above its maximum, at least one.
func maxDuringRebalance(maximum int) int { return maximum + max(1, maximum/10) }
