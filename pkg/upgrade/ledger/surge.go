package ledger

import (
	"maps"
	"slices"
)

// SpreadSurge deals n surge nodes out to zones in turn, so that each zone with outdated
// nodes gets its first before any gets its second (EKS E20, E25), and none more than it has
// outdated nodes, because those give the surge back. outdated counts nodes by zone.
func SpreadSurge(n int, outdated map[string]int) map[string]int {
	surge := map[string]int{}
	zones := sortedZones(outdated)
	for dealt := true; n > 0 && dealt; {
		dealt = false
		for _, zone := range zones {
			if n > 0 && surge[zone] < outdated[zone] {
				surge[zone]++
				n--
				dealt = true
			}
		}
	}
	return surge
}

func sortedZones(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }

// DealSurge deals n surge nodes out to the zones, and takes from none what it was dealt before; see
// SpreadSurge.
func (l *Ledger) DealSurge(n int, outdated map[string]int) {
	for zone, surge := range SpreadSurge(n, outdated) {
		l.updateZone(zone, func(z *Zone) { z.Surge = max(z.Surge, surge) })
	}
}

// GiveSurge gives all surge to one of the ledger's zones, as far as it has outdated nodes, but for
// what others still have of it.
func (k Keeper) GiveSurge(to string) {
	surge := k.Limits.Surge
	for zone, z := range k.l.books.Zones {
		if zone != to {
			surge -= max(0, z.Contribution())
			k.l.updateZone(zone, func(z *Zone) { z.Surge = 0 })
		}
	}
	k.l.updateZone(to, func(z *Zone) { z.Surge = max(0, min(surge, k.Counts.Left[to])) })
}

// SurgeWanted is how many new nodes scale up waits for: what was launched and, where launches were
// refused, what is still to be (GKE G17: without capacity nothing is begun). left counts outdated
// nodes by the ledger's zones.
func (l *Ledger) SurgeWanted(left map[string]int) int {
	wanted := 0
	for zone, z := range l.books.Zones {
		wanted += max(0, max(z.Contribution(), min(z.Surge, left[zone]))-z.Carried)
	}
	return wanted
}

// IsSurgeUsable is the check at the end of scale up: every new node is usable, all that are wanted
// are there, and each zone that was given surge has one (EKS E24–E27). What an autoscaler took
// meanwhile does not come back: then those that are left must do.
func (k Keeper) IsSurgeUsable(wanted int) bool {
	c, taken := &k.Counts, k.nothingComes()
	if (c.Usable < wanted && !taken) || c.Usable < c.Fresh || k.l.OpenLaunches() > 0 {
		return false
	}
	for zone, z := range k.l.books.Zones {
		if z.Contribution() < min(z.Surge, c.Left[zone]) || (z.Contribution() > z.Carried && c.UsableIn[zone] == 0 && !taken) {
			return false
		}
	}
	return true
}

// nothingComes reports whether the group has as many instances as it is meant to have, by a reading
// that is younger than what we did last: no further node will come up by itself.
func (k *Keeper) nothingComes() bool {
	return k.Group.Can.Resize && k.Group.IsFreshAfter(k.l.books.Changed) && k.Counts.Instances >= k.Group.Desired
}

// ShouldShrink decides how an outdated node is terminated. Where launches name a zone it always
// shrinks the group, and a launch replaces it in its own zone: a group that replaces by itself does
// so in the zone with the fewest nodes. Elsewhere it shrinks only while no more nodes are left than
// were added. A group at its minimum cannot shrink: it replaces the node by itself then. So does
// one that its own cloud upgrades, which gives back what it added when all nodes are replaced (EKS
// E60).
func (k Keeper) ShouldShrink(zone string) bool {
	return k.Group.Managed == nil && k.CanShrinkGroup() && (k.l.books.Zonal || k.Limits.Refilled || k.Counts.Left[zone] <= k.l.books.Zones[zone].Contribution())
}

// CanShrinkGroup reports whether the group's size may fall by one: by its last reading or, while
// that may not show what landed lately, by our books. What others did meanwhile may be on neither:
// then the cloud refuses with nodegroup.OutcomeExhausted.
func (k Keeper) CanShrinkGroup() bool {
	if !k.Limits.Refilled && !k.Group.IsFreshAfter(k.l.books.Changed) {
		return k.Group.Can.Resize && k.Before.Desired+k.l.ConfirmedSurge() > k.Group.Min
	}
	size := k.Group.Desired
	for _, n := range k.Counts.Shrinking {
		size -= n
	}
	return k.Group.Can.Resize && size > k.Group.Min
}

// AwaitsLaunch reports whether a termination in the ledger's zone has to wait for a launch. One
// without a token is told from its repetition by the group's size, which must not fall meanwhile.
// One with a token makes room above the group's minimum for what this zone is to give back.
func (k Keeper) AwaitsLaunch(zone string) bool {
	if !k.l.books.Zonal {
		return k.l.OpenLaunches() > 0
	}
	givesBack := k.l.books.Zones[zone].Contribution() >= k.Counts.Left[zone]
	return givesBack && !k.CanShrinkGroup() && k.l.PendingLaunches() > 0
}

// OwesNode reports whether a node of the ledger's zone is to be given back: the zone and the group
// have more than they had.
func (l *Ledger) OwesNode(zone string) bool {
	return l.books.Zones[zone].confirmedSurge() > 0 && l.ConfirmedSurge() > 0
}

// CountUnavailable is how many nodes the group is short of what it would have without the upgrade:
// those we removed minus the new ones fit for pods. notServing of the members that were carried
// over are missing, too, though Serving counts them; excused of the removed ones are not. It is
// negative while surge is to spare. It is never more than what the group's own size lacks, so that
// nodes an autoscaler took away, one of ours among them, are not waited for.
func (k Keeper) CountUnavailable(notServing, excused int) int {
	short := k.l.Removed() - k.l.Carried() + notServing - excused - k.Counts.Usable
	if !k.Group.Can.Resize || !k.Group.IsFreshAfter(k.l.books.Changed) {
		return short // the sizes read may be older than what we did last
	}
	without := k.Group.Desired - k.l.ConfirmedSurge() // its size were it not for us, as an autoscaler left it (EKS E61)
	return min(short, without-(k.Counts.Serving-notServing))
}
