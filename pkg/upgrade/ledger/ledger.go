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

// Ledger is the ledger of one upgrade. Only functions of this package change it.
type Ledger struct{ books Books }

// Books are the content of a Ledger as it is stored: what we added to the group and must still
// return, by zone. Only our own contribution is recorded: changes by an autoscaler are not ours to
// undo (EKS E61), so sizes are never restored to absolute numbers.
//
// In each zone the contribution is launched − shrunk. It starts at 0, is raised to the
// zone's surge, stays there with one launch for each outdated node that is terminated
// with shrinking, and falls with the zone's last outdated nodes back to 0:
//
//	launch while contribution < min(surge, outdated nodes of the zone)
//
// If the provider cannot launch in a named zone, the whole group is one zone named "". The
// termination of an outdated node then keeps the group's size, and the provider launches the
// replacement. When only as many outdated nodes are left as were added, terminations shrink the
// group.
type Books struct {
	// MaxFrom and MaxTo are the group's maximum before and after our raise; both are 0 without a raise.
	MaxFrom int `json:"maxFrom,omitempty"`
	MaxTo   int `json:"maxTo,omitempty"`
	// MaxLow is the value to which the maximum is being lowered; 0 if it is not.
	MaxLow int `json:"maxLow,omitempty"`
	// MaxSeen is the largest maximum that was read, and MaxSeenAt is when. A lower maximum in a newer reading was set by
	// another process. MaxSeen is 0 before the first reading.
	MaxSeen   int       `json:"maxSeen,omitempty"`
	MaxSeenAt time.Time `json:"maxSeenAt,omitzero"`
	// Zonal is true when launches name a zone.
	Zonal bool `json:"zonal,omitempty"`
	// Changed is when we last changed the group's size: an accepted launch or raise of the maximum, or a termination that
	// was decided or accepted.
	Changed time.Time `json:"changed,omitzero"`
	// Known has the sorted names of the members that existed before the upgrade: current ones, and instances without a
	// node.
	Known []string `json:"known,omitempty"`
	// Moved is true if the target moved and RecountForMovedTarget was not called yet.
	Moved bool `json:"moved,omitempty"`
	// Zones by name.
	Zones map[string]Zone `json:"zones,omitempty"`
}

// Zone is one zone's part; all counts are nodes.
type Zone struct {
	// Surge is how many nodes the zone gets beyond its own while it has outdated ones.
	Surge int `json:"surge"`
	// Launched counts the launches that were requested and not refused. Shrunk counts the terminations that lowered the
	// group's size.
	Launched int `json:"launched"`
	Shrunk   int `json:"shrunk"`
	// Removed counts the outdated nodes that we terminated, with or without shrinking.
	Removed int `json:"removed"`
	// Carried is the part of the contribution that existed before a rollback began, as nodes that are outdated in the
	// rollback. It is negative if removed nodes were still missing.
	Carried int `json:"carried,omitempty"`
	// Earlier counts the nodes in Carried that were launched before the target moved and that the upgrade
	// has not removed yet.
	Earlier int `json:"earlier,omitempty"`
	// Replaced counts the nodes that were removed before a rollback began. Their replacements are outdated in the
	// rollback, and may not take pods yet.
	Replaced int `json:"replaced,omitempty"`
	// Serial is the number of the last launch; it makes the launches' tokens differ.
	Serial int `json:"serial"`
	// Open has the launches that are not known to have been accepted.
	Open []Launch `json:"open,omitempty"`
	// RetryAt is the earliest time for the next launch after a refusal for lack of capacity.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Refusal is the provider's error message for the refused launch.
	Refusal string `json:"refusal,omitempty"`
	// Stale is true if the launch was refused only because the group had changed after it was read. The group may accept
	// the launch now.
	Stale bool `json:"stale,omitempty"`
}

// Launch is one request for capacity. Its number is part of its token, with which a repeated request has no further
// effect.
type Launch struct {
	Serial int `json:"serial"`
	N      int `json:"n"`
	// Desired is the group's size when the launch was decided. Max is set for providers without tokens, whose request raises
	// the size and the maximum together: a group with this maximum shows that the launch happened.
	Desired int `json:"desired,omitempty"`
	Max     int `json:"max,omitempty"`
	// Doubt is true if the answer to the launch request was lost, in this process or in one that ran the upgrade
	// before it. The launch may have happened even if a repeated request is refused.
	Doubt bool `json:"doubt,omitempty"`
}

// FromBooks returns a ledger with the books.
func FromBooks(books Books) Ledger { return Ledger{books} }

// Books returns a copy of the ledger's content.
func (l *Ledger) Books() Books { return l.Clone().books }

// Clone returns a copy that can be changed.
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

// WithoutObserved returns the ledger without state that can be observed again.
func (l *Ledger) WithoutObserved() Ledger {
	c := *l
	c.books.Changed, c.books.MaxSeen, c.books.MaxSeenAt = time.Time{}, 0, time.Time{}
	return c
}

// Zonal reports whether launches name a zone.
func (l *Ledger) Zonal() bool { return l.books.Zonal }

// Changed returns when we last changed the group's size.
func (l *Ledger) Changed() time.Time { return l.books.Changed }

// ZoneOf returns the ledger's zone for a zone of the group: the same, or "" if the ledger has one zone for the whole
// group.
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

// Contribution returns how many more nodes the zone has because of the upgrade. It is negative if a removed node was not
// replaced yet.
func (z Zone) Contribution() int { return z.Launched - z.Shrunk }

// confirmedSurge returns the zone's contribution without its open launches.
func (z Zone) confirmedSurge() int {
	sum := z.Contribution()
	for _, launch := range z.Open {
		sum -= launch.N
	}
	return sum
}

// Contribution returns how many more nodes the group has because of the upgrade.
func (l *Ledger) Contribution() int { return l.sumOverZones(Zone.Contribution) }

// ContributionIn returns how many more nodes a zone of the group has because of the upgrade.
func (l *Ledger) ContributionIn(zone string) int { return l.books.Zones[l.ZoneOf(zone)].Contribution() }

// ConfirmedSurge returns the contribution without open launches.
func (l *Ledger) ConfirmedSurge() int { return l.sumOverZones(Zone.confirmedSurge) }

// Removed returns how many outdated nodes were terminated.
func (l *Ledger) Removed() int { return l.sumOverZones(func(z Zone) int { return z.Removed }) }

// Carried counts the nodes that were added before the rollback began.
func (l *Ledger) Carried() int { return l.sumOverZones(func(z Zone) int { return z.Carried }) }

// OpenLaunches returns how many launches are not known to have been accepted or refused.
func (l *Ledger) OpenLaunches() int { return l.sumOverZones(func(z Zone) int { return len(z.Open) }) }

// PendingLaunches counts the open launches, and the removed nodes that must still be launched again.
func (l *Ledger) PendingLaunches() int {
	return l.OpenLaunches() + l.sumOverZones(func(z Zone) int { return max(0, -z.Contribution()) })
}

// LaunchRefusal returns the provider's error for the first zone with a refused launch, or "". An autoscaler may have used
// the room for the node.
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

// DescribeSize describes by how many nodes the group is larger than before the upgrade, or smaller if the number is
// negative.
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

// Replaced counts the nodes that were removed before the rollback began.
func (l *Ledger) Replaced() int { return l.sumOverZones(func(z Zone) int { return z.Replaced }) }

// MarkMoved sets whether the target moved and RecountForMovedTarget must be called.
func (l *Ledger) MarkMoved(moved bool) { l.books.Moved = moved }

// TargetMoved reports whether the target moved and RecountForMovedTarget was not called yet.
func (l *Ledger) TargetMoved() bool { return l.books.Moved }

// NoteSizeChange records when we changed the group's size, so that older readings can be recognized.
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

// BookReturn records that a new node of the ledger's zone is returned.
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

// UnbookShrink reverses the shrink of a termination.
func (l *Ledger) UnbookShrink(zone string) { l.updateZone(zone, func(z *Zone) { z.Shrunk-- }) }

// ForgetRefusals allows refused launches to be tried again.
func (l *Ledger) ForgetRefusals() {
	for zone := range l.books.Zones {
		l.updateZone(zone, func(z *Zone) { z.Refusal, z.Stale, z.RetryAt = "", false, time.Time{} })
	}
}

// MergeZones merges all zones into one, for a group that turns out not to support launches in a zone. Refusals of the
// zones are forgotten.
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

// updateZone applies f to the zone.
func (l *Ledger) updateZone(zone string, f func(*Zone)) {
	if l.books.Zones == nil {
		l.books.Zones = map[string]Zone{}
	}
	z := l.books.Zones[zone]
	f(&z)
	l.books.Zones[zone] = z
}
