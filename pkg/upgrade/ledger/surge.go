package ledger

import (
	"maps"
	"slices"
)

// SpreadSurge distributes n surge nodes among the zones in turn, so that each zone with outdated nodes gets its first
// before any gets its second (EKS E20, E25). No zone gets more than it has outdated nodes, because those give the surge
// back. outdated counts nodes by zone.
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

// AssignSurge distributes n surge nodes among the zones, and never lowers a zone's surge; see SpreadSurge.
func (l *Ledger) AssignSurge(n int, outdated map[string]int) {
	for zone, surge := range SpreadSurge(n, outdated) {
		l.updateZone(zone, func(z *Zone) { z.Surge = max(z.Surge, surge) })
	}
}

// AssignAllSurge gives all surge to one of the ledger's zones, up to its number of outdated nodes. It leaves out what other
// zones still have of it.
func (k Keeper) AssignAllSurge(to string) {
	surge := k.Limits.Surge
	for zone, z := range k.l.books.Zones {
		if zone != to {
			surge -= max(0, z.Contribution())
			k.l.updateZone(zone, func(z *Zone) { z.Surge = 0 })
		}
	}
	k.l.updateZone(to, func(z *Zone) { z.Surge = max(0, min(surge, k.Counts.Left[to])) })
}

// SurgeWanted returns how many new nodes scale up waits for: those that were launched and, if launches were refused,
// those that must still be launched (GKE G17: without capacity the upgrade does not begin). left counts outdated nodes
// by the ledger's zones.
func (l *Ledger) SurgeWanted(left map[string]int) int {
	wanted := 0
	for zone, z := range l.books.Zones {
		wanted += max(0, max(z.Contribution(), min(z.Surge, left[zone]))-z.Carried)
	}
	return wanted
}

// IsSurgeUsable reports, at the end of scale up, whether every new node is usable, as many exist as are wanted, and
// each zone with surge has one (EKS E24–E27). Nodes that an autoscaler removed do not come back: then the remaining
// ones must be enough.
func (k Keeper) IsSurgeUsable(wanted int) bool {
	c, taken := &k.Counts, k.isFullyLaunched()
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

// isFullyLaunched reports whether the group has as many instances as it wants, by a reading that is newer than the
// upgrade's last change: no further node will come up by itself.
func (k *Keeper) isFullyLaunched() bool {
	return k.Group.Can.Resize && k.Group.IsFreshAfter(k.l.books.Changed) && k.Counts.Instances >= k.Group.Desired
}

// ShouldShrink reports whether the termination of an outdated node shrinks the group. If launches name a zone, it
// always does, and a launch replaces the node in its own zone: a group that replaces nodes by itself does so in the
// zone with the fewest nodes. Otherwise it does only once no more nodes are left than were added. A group at its
// minimum cannot shrink and replaces the node by itself. In a group that its own cloud upgrades no termination shrinks
// the group: the cloud gives back the added nodes when all nodes are replaced (EKS E60).
func (k Keeper) ShouldShrink(zone string) bool {
	return k.Group.Managed == nil && k.CanShrinkGroup() && (k.l.books.Zonal || k.Limits.Refilled || k.Counts.Left[zone] <= k.l.books.Zones[zone].Contribution())
}

// CanShrinkGroup reports whether the group's size may fall by one. It decides by the last reading or, while that may
// not show recent changes, by the ledger. Neither may show recent changes by other processes: then the cloud refuses
// with nodegroup.OutcomeExhausted.
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

// MustAwaitLaunch reports whether a termination in the ledger's zone must wait for a launch. Only the group's size shows
// whether a launch without a token has landed, so the size must not fall before that. A launch with a token makes room
// above the group's minimum for the nodes that this zone must give back.
func (k Keeper) MustAwaitLaunch(zone string) bool {
	if !k.l.books.Zonal {
		return k.l.OpenLaunches() > 0
	}
	givesBack := k.l.books.Zones[zone].Contribution() >= k.Counts.Left[zone]
	return givesBack && !k.CanShrinkGroup() && k.l.PendingLaunches() > 0
}

// OwesNode reports whether a node of the ledger's zone must be given back: the zone and the group have more nodes than
// before.
func (l *Ledger) OwesNode(zone string) bool {
	return l.books.Zones[zone].confirmedSurge() > 0 && l.ConfirmedSurge() > 0
}

// CountUnavailable returns how many nodes the group is short of, compared with what it would have without the upgrade:
// the removed nodes minus the usable new ones. notServing counts carried-over members that do not serve, although
// Serving counts them. excused counts removed nodes that are not to be counted. The result is negative while there is
// spare surge. It never exceeds what the group lacks of its own size, so that the upgrade does not wait for nodes that
// an autoscaler removed, new nodes included.
func (k Keeper) CountUnavailable(notServing, excused int) int {
	short := k.l.Removed() - k.l.Carried() + notServing - excused - k.Counts.Usable
	if !k.Group.Can.Resize || !k.Group.IsFreshAfter(k.l.books.Changed) {
		return short // the reading may be older than the upgrade's last change
	}
	without := k.Group.Desired - k.l.ConfirmedSurge() // the size that an autoscaler would see without the upgrade (EKS E61)
	return min(short, without-(k.Counts.Serving-notServing))
}
