package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Rebuild rebuilds the ledger of a run whose record was lost, from a reading of the group that shows all that the run did. Nodes
// that a zone has beyond its size before the run count as added by the run: at most as many as the zone has outdated nodes, and
// at most the surge in the whole group. Changes by other processes cannot be distinguished from the run's. known are the members
// that count as older than the run, sorted by name.
func (k Keeper) Rebuild(known []*nodegroup.Member) {
	b, g := &k.l.books, k.Group
	b.Changed, b.Known = k.Now, nil
	knownIn := map[string]int{}
	for _, m := range known {
		b.Known = append(b.Known, m.Name())
		knownIn[k.l.ZoneOf(m.Zone())]++
	}
	there, was := groupByZone(k.l, k.Counts.Zones), groupByZone(k.l, k.Before.Zones)
	if g.Can.Resize && !b.Zonal {
		there[""], was[""] = g.Desired, k.Before.Desired
	}
	surge, added := SpreadSurge(k.Limits.Surge, k.Counts.Left), k.addedByZone(there, was)
	for zone, ours := range added {
		removed := max(0, was[zone]-knownIn[zone]-k.Counts.Left[zone])
		k.l.updateZone(zone, func(z *Zone) {
			// Tokens must be new: the cloud would take a used token for an earlier launch.
			*z = Zone{Surge: max(surge[zone], ours), Launched: removed + ours, Shrunk: removed, Removed: removed, Serial: int(k.Now.Unix())}
		})
	}
	room := k.Limits.Surge
	if k.Limits.Refilled { // RaiseMaximumOnce made room for one new node for each outdated one
		for _, left := range k.Counts.Left {
			room += left
		}
	}
	if raised := min(g.Max-k.Before.Max, room); g.Can.Bounds && raised > 0 && !k.Limits.KeepMax {
		b.MaxFrom, b.MaxTo = g.Max-raised, g.Max
	}
}

// addedByZone returns how many nodes of each zone count as the run's. If they are more than the surge in total, it
// attributes the excess, in the zones with the most nodes, to other processes.
func (k Keeper) addedByZone(there, was map[string]int) map[string]int {
	added, sum := map[string]int{}, 0
	for _, counts := range []map[string]int{there, was, k.Counts.Left} {
		for zone := range counts {
			added[zone] = 0
		}
	}
	if !k.Group.Can.Resize || k.Limits.Refilled {
		return added
	}
	for zone := range added {
		added[zone] = max(-k.Limits.MaxUnavailable, min(there[zone]-was[zone], k.Counts.Left[zone]))
		sum += max(0, added[zone])
	}
	zones := slices.Sorted(maps.Keys(added))
	for ; sum > k.Limits.Surge; sum-- {
		added[slices.MaxFunc(zones, func(a, b string) int { return cmp.Compare(added[a], added[b]) })]--
	}
	return added
}

// groupByZone returns the sums of the counts by ledger zone.
func groupByZone(l *Ledger, counts map[string]int) map[string]int {
	sums := map[string]int{}
	for zone, n := range counts {
		sums[l.ZoneOf(zone)] += n
	}
	return sums
}

// RecountForMovedTarget prepares the ledger for a target that moved. Nodes launched for the earlier target are outdated now, but
// they take pods. earlier counts these nodes by ledger zone, for all earlier targets, and replaces the numbers of the
// last call. known lists further members that existed before the upgrade.
func (k Keeper) RecountForMovedTarget(known []string, earlier map[string]int) {
	k.l.books.Known = slices.Sorted(slices.Values(slices.Concat(k.l.books.Known, known)))
	for zone, surge := range k.respreadSurge() {
		k.l.updateZone(zone, func(z *Zone) {
			z.Surge, z.Carried, z.Earlier = surge, z.Carried-z.Earlier+earlier[zone], earlier[zone]
		})
	}
	k.l.books.Moved = false
}

// CarryOver prepares the ledger for a rollback. The added nodes count as surge that is already launched, and the group shrinks
// by them when the last outdated nodes of each zone are terminated. known has the sorted names of the members with the wanted
// revision that are not still starting. arriving counts the starting ones by ledger zone.
func (k Keeper) CarryOver(known []string, arriving map[string]int) {
	k.l.books.Known = known
	for zone, surge := range k.respreadSurge() {
		k.l.updateZone(zone, func(z *Zone) {
			z.Surge, z.Replaced, z.Removed, z.Carried = surge, z.Removed, 0, z.Contribution()-arriving[zone]
		})
	}
}

// respreadSurge assigns the surge to the ledger's zones again, when a part of it is already launched.
func (k *Keeper) respreadSurge() map[string]int {
	surge, free := map[string]int{}, map[string]int{}
	left := k.Limits.Surge
	for zone, z := range k.l.books.Zones {
		surge[zone] = max(0, z.Contribution())
		left -= surge[zone]
	}
	for zone, n := range k.Counts.Left {
		free[zone] = max(0, n-surge[zone])
	}
	for zone, n := range SpreadSurge(left, free) {
		surge[zone] += n
	}
	return surge
}

// CountAddedInstances counts, by ledger zone, the instances that the upgrade added: replacements of removed nodes, and
// launches.
func (l *Ledger) CountAddedInstances() map[string]int {
	counts := map[string]int{}
	for zone, z := range l.books.Zones {
		counts[zone] = z.Removed + z.Contribution()
	}
	return counts
}

// MoveMissingToArriving moves the instances that the group must still launch by itself from unseen to arriving. The group
// launches them in zones of its choice, so all instances beyond what the zones expect count for one zone. Both maps count by
// ledger zone.
func (k Keeper) MoveMissingToArriving(unseen, arriving map[string]int) {
	missing := max(0, k.Group.Desired-k.Counts.Instances)
	zones := k.l.zoneNames()
	for _, zone := range zones {
		n := max(0, min(missing, unseen[zone]))
		arriving[zone] += n
		unseen[zone] -= n
		missing -= n
	}
	if len(zones) > 0 {
		arriving[zones[0]] += missing
	}
}
