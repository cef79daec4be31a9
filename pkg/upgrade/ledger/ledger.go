// Package ledger records what an upgrade added to a node group and must still give back: launches, terminations that
// shrink the group, the raise of its maximum, and the processes that are suspended during the upgrade.
//
// A Keeper decides by the Ledger and a View: the group, its members counted by zone, the actions that were begun with
// their answers, the time, and what the request allows. It changes the Ledger and returns a Decision: actions, and what
// the upgrade waits for. Package upgrade decides which nodes are drained and terminated, and when an upgrade stops.
package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Ledger is the account of one upgrade. Only the functions of this package change it.
type Ledger struct{ books Books }

// Books is the stored form of a Ledger: what the upgrade added to the group and must still give back, by zone. It
// contains only the upgrade's own contribution. What an autoscaler does during the upgrade is never undone (EKS E61),
// so an upgrade never restores an absolute size.
//
// The contribution of each zone is launched − shrunk. It starts at 0 and is raised to the zone's surge. One launch for
// each outdated node that is terminated with shrinking keeps it there. With the zone's last outdated nodes it falls
// back to 0:
//
//	launch while contribution < min(surge, outdated nodes of the zone)
//
// If the provider cannot launch in a named zone, the whole group is one zone named "". Outdated nodes are then
// terminated without shrinking until only as many are left as were added.
type Books struct {
	// MaxFrom and MaxTo are the upgrade's raise of the group's maximum; both are 0 without a raise.
	MaxFrom int `json:"maxFrom,omitempty"`
	MaxTo   int `json:"maxTo,omitempty"`
	// MaxLow is the value that the maximum is being lowered to; 0 if it is not.
	MaxLow int `json:"maxLow,omitempty"`
	// MaxSeen is the largest maximum that the group was seen to have, and MaxSeenAt when that was read. If a newer
	// reading shows less, another process lowered the maximum. It is 0 before the first reading.
	MaxSeen   int       `json:"maxSeen,omitempty"`
	MaxSeenAt time.Time `json:"maxSeenAt,omitzero"`
	// Zonal is true when launches name a zone.
	Zonal bool `json:"zonal,omitempty"`
	// Changed is when the upgrade last changed the group's size: a launch or a raise of the maximum was accepted, or a
	// termination was decided or accepted.
	Changed time.Time `json:"changed,omitzero"`
	// Known are the sorted names of the members that existed before the upgrade: those that were current, and instances
	// that had no node.
	Known []string `json:"known,omitempty"`
	// Moved is true if the target moved and AdoptTarget was not called yet.
	Moved bool `json:"moved,omitempty"`
	// Zones by name.
	Zones map[string]Zone `json:"zones,omitempty"`
}

// Zone is one zone's part; all counts are nodes.
type Zone struct {
	// Surge is how many nodes the zone should have beyond its own while outdated nodes are left.
	Surge int `json:"surge"`
	// Launched counts nodes of launches that were requested and not refused. Shrunk counts terminations that lowered
	// the group's size.
	Launched int `json:"launched"`
	Shrunk   int `json:"shrunk"`
	// Removed counts outdated nodes that the upgrade terminated, with or without shrinking.
	Removed int `json:"removed"`
	// Carried is the contribution from before a rollback began, or from before the target moved. These nodes are
	// outdated now, and count as surge that is up already. It is negative if replacements of terminated nodes were
	// still missing.
	Carried int `json:"carried,omitempty"`
	// Earlier counts the nodes in Carried that were launched before the target moved and that the upgrade
	// has not removed yet.
	Earlier int `json:"earlier,omitempty"`
	// Replaced counts the nodes that were removed before the rollback began. Their replacements are outdated for the
	// rollback, and may not serve yet.
	Replaced int `json:"replaced,omitempty"`
	// Serial is the number of the last launch; it makes the launches' tokens differ.
	Serial int `json:"serial"`
	// Open are the launches that are not known to have been accepted or refused.
	Open []Launch `json:"open,omitempty"`
	// RetryAt is the earliest time for the next launch after a refusal.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Refusal is the provider's reason for that refusal.
	Refusal string `json:"refusal,omitempty"`
	// Stale is true if the launch was refused because the group had changed since it was read: the group as it is now
	// may accept the launch.
	Stale bool `json:"stale,omitempty"`
}

// Launch is one request for capacity. Its number is part of the token, under which a repeated request has no further
// effect.
type Launch struct {
	Serial int `json:"serial"`
	N      int `json:"n"`
	// Desired is the group's size when the launch was decided. Max is the maximum that proves that it has landed, for
	// providers without tokens: one request raises both.
	Desired int `json:"desired,omitempty"`
	Max     int `json:"max,omitempty"`
	// Doubt is true once an answer was lost, by this process or an earlier one: the launch may have landed although a
	// later request is refused.
	Doubt bool `json:"doubt,omitempty"`
}

// FromBooks returns the ledger with the stored form.
func FromBooks(books Books) Ledger { return Ledger{books} }

// Books returns a copy of the ledger's stored form.
func (l *Ledger) Books() Books { return l.Clone().books }

// Clone returns a copy of the ledger that can be changed.
func (l *Ledger) Clone() Ledger {
	c := *l
	c.books.Zones = maps.Clone(c.books.Zones)
	for name, z := range c.books.Zones {
		z.Open = slices.Clone(z.Open)
		c.books.Zones[name] = z
	}
	return c
}

// MarshalJSON writes the books.
func (l Ledger) MarshalJSON() ([]byte, error) { return json.Marshal(l.books) }

// UnmarshalJSON reads the books.
func (l *Ledger) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &l.books) }

// WithoutObserved returns the ledger without what a later reading of the group shows again.
func (l *Ledger) WithoutObserved() Ledger {
	c := *l
	c.books.Changed, c.books.MaxSeen, c.books.MaxSeenAt = time.Time{}, 0, time.Time{}
	return c
}

// Zonal reports whether launches name a zone.
func (l *Ledger) Zonal() bool { return l.books.Zonal }

// Changed returns when the upgrade last changed the group's size.
func (l *Ledger) Changed() time.Time { return l.books.Changed }

// ZoneOf returns the ledger's zone for a zone of the group: the same, or "" if the whole group is one zone.
func (l *Ledger) ZoneOf(zone string) string {
	if l.books.Zonal {
		return zone
	}
	return ""
}

// IsPreexisting reports whether the member existed before the upgrade, as a node or as an instance without one.
func (l *Ledger) IsPreexisting(m *nodegroup.Member) bool {
	if len(l.books.Known) == 0 {
		return false
	}
	if _, known := slices.BinarySearch(l.books.Known, m.Name()); known {
		return true
	}
	_, known := slices.BinarySearch(l.books.Known, m.Instance.ID)
	return known
}

// Contribution returns how many nodes the zone has because of the upgrade. It is negative if a terminated node was not
// replaced yet.
func (z Zone) Contribution() int { return z.Launched - z.Shrunk }

// confirmedSurge returns the zone's contribution without the launches that are not known to have been accepted.
func (z Zone) confirmedSurge() int {
	sum := z.Contribution()
	for _, launch := range z.Open {
		sum -= launch.N
	}
	return sum
}

// Contribution returns by how many nodes the group is larger because of the upgrade.
func (l *Ledger) Contribution() int { return l.sumOverZones(Zone.Contribution) }

// ContributionIn returns how many nodes a zone of the group has because of the upgrade.
func (l *Ledger) ContributionIn(zone string) int { return l.books.Zones[l.ZoneOf(zone)].Contribution() }

// ConfirmedSurge returns the contribution without the launches that are not known to have been accepted.
func (l *Ledger) ConfirmedSurge() int { return l.sumOverZones(Zone.confirmedSurge) }

// Removed returns how many outdated nodes were terminated.
func (l *Ledger) Removed() int { return l.sumOverZones(func(z Zone) int { return z.Removed }) }

// Carried returns how many nodes were added before the rollback began or the target moved.
func (l *Ledger) Carried() int { return l.sumOverZones(func(z Zone) int { return z.Carried }) }

// OpenLaunches returns how many launches are not known to have been accepted or refused.
func (l *Ledger) OpenLaunches() int { return l.sumOverZones(func(z Zone) int { return len(z.Open) }) }

// PendingLaunches returns how many launches are open, plus how many nodes zones lack because of terminations and must
// still be launched.
func (l *Ledger) PendingLaunches() int {
	return l.OpenLaunches() + l.sumOverZones(func(z Zone) int { return max(0, -z.Contribution()) })
}

// LaunchRefusal returns the provider's reason for refusing launches, in the first such zone by name; "" if none was
// refused. An autoscaler may have used the room of the node.
func (l *Ledger) LaunchRefusal() string {
	for _, zone := range l.zoneNames() {
		if refusal := l.books.Zones[zone].Refusal; refusal != "" {
			return refusal
		}
	}
	return ""
}

// DescribeSurplus returns how many added nodes the group keeps, "" if none. larger is by how many nodes the group is
// larger than before the upgrade: nodes that another process has removed since are not kept.
func (l *Ledger) DescribeSurplus(larger int) string {
	owed := min(l.Contribution(), larger)
	if owed <= 0 {
		return ""
	}
	return DescribeSize(owed) + ": no outdated node was left to remove, and new nodes are kept, because they have pods or may get some soon"
}

// DescribeSize returns the text that the group is larger than before the upgrade by that many nodes, or smaller if the
// number is negative.
func DescribeSize(larger int) string {
	n, word := larger, "more"
	if larger < 0 {
		n, word = -larger, "fewer"
	}
	if n == 1 {
		return fmt.Sprintf("the group keeps 1 %s node than before", word)
	}
	return fmt.Sprintf("the group keeps %d %s nodes than before", n, word)
}

// Replaced returns how many nodes were removed before the rollback began.
func (l *Ledger) Replaced() int { return l.sumOverZones(func(z Zone) int { return z.Replaced }) }

// MarkMoved notes whether the target has moved without the ledger having adopted it.
func (l *Ledger) MarkMoved(moved bool) { l.books.Moved = moved }

// TargetMoved reports whether the target moved and AdoptTarget must still be called.
func (l *Ledger) TargetMoved() bool { return l.books.Moved }

// NoteSizeChange notes that the upgrade changed the group's size, so that readings from before are distinguished from
// later ones.
func (l *Ledger) NoteSizeChange(at time.Time) {
	if at.After(l.books.Changed) {
		l.books.Changed = at
	}
}

// BookRemoval records that an outdated node of the ledger's zone is terminated, or was drained and has no machine.
// shrink is true if the group's size is lowered with it. earlier is true if the node was launched for an earlier
// target.
func (l *Ledger) BookRemoval(zone string, shrink, earlier bool, now time.Time) {
	l.updateZone(zone, func(z *Zone) { z.Removed++ })
	if earlier {
		l.updateZone(zone, func(z *Zone) { z.Earlier-- })
	}
	if shrink {
		l.updateZone(zone, func(z *Zone) { z.Shrunk++ })
	}
	l.books.Changed = now
}

// HasEarlier reports whether the zone has nodes that were launched before the target moved.
func (l *Ledger) HasEarlier(zone string) bool { return l.books.Zones[zone].Earlier > 0 }

// BookReturn records that a new node of the ledger's zone is given back.
func (l *Ledger) BookReturn(zone string, now time.Time) {
	l.updateZone(zone, func(z *Zone) { z.Shrunk++ })
	l.books.Changed = now
}

// UnbookRemoval reverses BookRemoval. earlier must be the value that was passed to BookRemoval.
func (l *Ledger) UnbookRemoval(zone string, earlier bool) {
	l.updateZone(zone, func(z *Zone) { z.Removed-- })
	if earlier {
		l.updateZone(zone, func(z *Zone) { z.Earlier++ })
	}
}

// BookPreexisting records a member as one that existed before the upgrade.
func (l *Ledger) BookPreexisting(name string) {
	if at, known := slices.BinarySearch(l.books.Known, name); !known {
		l.books.Known = slices.Insert(slices.Clone(l.books.Known), at, name)
	}
}

// UnbookShrink reverses the record that a termination lowered the group's size.
func (l *Ledger) UnbookShrink(zone string) { l.updateZone(zone, func(z *Zone) { z.Shrunk-- }) }

// ForgetRefusals makes refused launches be tried again.
func (l *Ledger) ForgetRefusals() {
	for zone := range l.books.Zones {
		l.updateZone(zone, func(z *Zone) { z.Refusal, z.Stale, z.RetryAt = "", false, time.Time{} })
	}
}

// MergeZones merges all zones into one, for a group whose launches turn out to name no zone. Refusals in the old zones
// do not apply to the new one.
func (l *Ledger) MergeZones() {
	var all Zone
	for _, z := range l.books.Zones {
		all.Surge += z.Surge
		all.Launched += z.Launched
		all.Shrunk += z.Shrunk
		all.Removed += z.Removed
		all.Carried += z.Carried
		all.Earlier += z.Earlier
		all.Replaced += z.Replaced
		all.Serial = max(all.Serial, z.Serial)
	}
	l.books.Zonal, l.books.Zones = false, map[string]Zone{"": all}
}

func (l *Ledger) sumOverZones(count func(Zone) int) int {
	sum := 0
	for _, z := range l.books.Zones {
		sum += count(z)
	}
	return sum
}

func (l *Ledger) zoneNames() []string { return slices.Sorted(maps.Keys(l.books.Zones)) }

// updateZone applies f to one zone.
func (l *Ledger) updateZone(zone string, f func(*Zone)) {
	if l.books.Zones == nil {
		l.books.Zones = map[string]Zone{}
	}
	z := l.books.Zones[zone]
	f(&z)
	l.books.Zones[zone] = z
}
