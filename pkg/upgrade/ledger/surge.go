package ledger

import (
	"maps"
	"slices"
)

// SpreadSurge distributes n surge nodes over the zones in turn. Each zone with outdated nodes gets its first node before
// any zone gets its second (EKS E20, E25). No zone gets more than it has outdated nodes, because the group shrinks again
// by their terminations. outdated counts nodes by zone.
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

// AssignSurge assigns n surge nodes to the zones; see SpreadSurge. No zone's surge is lowered.
func (l *Ledger) AssignSurge(n int, outdated map[string]int) {
	for zone, surge := range SpreadSurge(n, outdated) {
		l.updateZone(zone, func(z *Zone) { z.Surge = max(z.Surge, surge) })
	}
}

// AssignAllSurge assigns the whole surge to one ledger zone, up to its outdated nodes and without nodes that other zones
// still have.
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

// SurgeWanted returns how many new nodes scale up waits for: launched ones, and those whose launch was refused (GKE G17:
// without capacity the upgrade does not begin). left counts outdated nodes by ledger zone.
func (l *Ledger) SurgeWanted(left map[string]int) int {
	wanted := 0
	for zone, z := range l.books.Zones {
		wanted += max(0, max(z.Contribution(), min(z.Surge, left[zone]))-z.Carried)
	}
	return wanted
}

// IsSurgeUsable reports whether scale up is complete: all wanted nodes exist, every new node is usable, and each zone
// with surge has one (EKS E24–E27). Nodes that an autoscaler removed are not waited for.
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

// ShouldShrink decides whether the termination of an outdated node shrinks the group. If launches name a zone, it always
// does, and a launch replaces the node in its own zone: a group that replaces nodes by itself uses the zone with the
// fewest nodes. Otherwise it does only while no more outdated nodes are left than were added. A group at its minimum
// cannot shrink and replaces the node by itself. A group that its cloud upgrades returns its added nodes at the end (EKS
// E60).
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

// MustAwaitLaunch reports whether a termination in the ledger's zone must wait for a launch. A launch without a token is
// recognized by the group's size, so the size must not fall. A launch with a token raises the size above the group's
// minimum, so that the zone can return a node.
func (k Keeper) MustAwaitLaunch(zone string) bool {
	if !k.l.books.Zonal {
		return k.l.OpenLaunches() > 0
	}
	givesBack := k.l.books.Zones[zone].Contribution() >= k.Counts.Left[zone]
	return givesBack && !k.CanShrinkGroup() && k.l.PendingLaunches() > 0
}

// OwesNode reports whether a node of the ledger's zone must be returned: the zone and the group have more nodes than
// before.
func (l *Ledger) OwesNode(zone string) bool {
	return l.books.Zones[zone].confirmedSurge() > 0 && l.ConfirmedSurge() > 0
}

// CountUnavailable returns how many nodes the group is short of, compared with what it would have without the upgrade:
// the removed nodes minus the usable new ones. notServing counts carried-over members that do not serve, although
// Serving counts them. excused is how many of the removed nodes are ignored. The result is negative while there is spare
// surge. It is at most the number of nodes that the group lacks of its own size, so that the upgrade does not wait for
// nodes, old or new, that an autoscaler removed.
func (k Keeper) CountUnavailable(notServing, excused int) int {
	short := k.l.Removed() - k.l.Carried() + notServing - excused - k.Counts.Usable
	if !k.Group.Can.Resize || !k.Group.IsFreshAfter(k.l.books.Changed) {
		return short // the reading may be older than the upgrade's last change
	}
	without := k.Group.Desired - k.l.ConfirmedSurge() // the size that an autoscaler would see without the upgrade (EKS E61)
	return min(short, without-(k.Counts.Serving-notServing))
}
