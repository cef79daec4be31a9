package awscloud

import (
	"cmp"
	"slices"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// isLive reports whether an instance counts towards its group's capacity. Pending and InService instances count.
func isLive(i instance) bool {
	return !i.left && (i.state == at.LifecycleStatePending || i.state == at.LifecycleStateInService)
}

// totalUnits returns the capacity of the instances: their number or, in a weighted group, the sum of their weights.
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

// chooseLaunchZone returns the zone for the next launch: the zone with the fewest instances, or the first of several such
// zones. ok is false if every zone is blocked. (Auto Scaling user guide, "Auto Scaling group Availability Zone distribution",
// balanced best effort.)
func chooseLaunchZone(zones []string, load map[string]int, blocked map[string]bool) (zone string, ok bool) {
	best := ""
	for _, z := range zones {
		if !blocked[z] && (best == "" || load[z] < load[best]) {
			best = z
		}
	}
	return best, best != ""
}

// nextToTerminate returns the instance that a shrinking group terminates next by the default termination policy. It first
// chooses the zone with the most instances among the zones with an unprotected instance. In this zone it prefers an instance
// with a launch configuration, then the oldest launch template version, then the longest running instance. The last rule
// replaces AWS's rule of the nearest billing hour. ok is false if every instance is protected. (Auto Scaling user guide,
// "Configure termination policies".)
func nextToTerminate(members []instance) (i instance, ok bool) {
	free := slices.DeleteFunc(slices.Clone(members), func(i instance) bool { return i.protected })
	if len(free) == 0 {
		return instance{}, false
	}
	n := countByZone(members)
	return slices.MinFunc(free, func(a, b instance) int {
		return cmp.Or(cmp.Compare(n[b.zone], n[a.zone]), cmp.Compare(a.spec.born, b.spec.born), cmp.Compare(a.number, b.number))
	}), true
}

// surplusInstances lists the instances that a group terminates to shrink to the desired capacity. A pending instance that
// AZRebalance launched does not count, because AZRebalance terminates an instance only after the new one is in service.
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

// chooseRebalanceZones returns the zones between which AZRebalance moves an instance. from is the fullest zone with an
// unprotected instance. to is the emptiest zone that is not blocked. ok is false unless from has at least two more instances
// than to.
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

// maxDuringRebalance returns the maximum capacity of a group during AZRebalance: its maximum size plus 10 percent, but at least
// plus one.
func maxDuringRebalance(maximum int) int { return maximum + max(1, maximum/10) }
