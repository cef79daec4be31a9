// Package ledger keeps the books of what an upgrade added to a node group and what is still owed
// back: launches, terminations that shrink the group, the raise of its maximum, and the processes
// that are suspended meanwhile.
//
// A Keeper decides by the books and by a View: the group, its members counted by zone, the actions
// that were begun with their answers, the time, and what the request allows. It changes the books
// and returns a Decision: actions, and what is waited for. Which nodes are drained and terminated,
// and when an upgrade stops, is for package upgrade.
package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Ledger is the books of one upgrade. Only the functions of this package change them.
type Ledger struct{ books Books }

// Books are what a Ledger holds, as it is stored: what we added to the group and what is still owed
// back, by zone. Only our own contribution is kept: what an autoscaler does meanwhile is not ours
// to undo (EKS E61, and the reason there is never an absolute restore).
//
// In each zone the contribution is launched − shrunk. It starts at 0, is raised to the
// zone's surge, is held there by one launch for each outdated node that is terminated
// with shrinking, and falls with the zone's last outdated nodes back to 0:
//
//	launch while contribution < min(surge, outdated nodes of the zone)
//
// Where the provider cannot launch in a named zone the whole group is one zone named "",
// and outdated nodes are terminated without shrinking until only as many are left as were added.
type Books struct {
	// MaxFrom and MaxTo are our raise of the group's maximum; both 0 without one.
	MaxFrom int `json:"maxFrom,omitempty"`
	MaxTo   int `json:"maxTo,omitempty"`
	// MaxLow is what the maximum is being lowered to; 0 when it is not.
	MaxLow int `json:"maxLow,omitempty"`
	// MaxSeen is the largest maximum that the group was seen to have, and MaxSeenAt when that was
	// read: less than that, in a reading that shows what was there then, is another actor's doing.
	// 0 before it was looked at.
	MaxSeen   int       `json:"maxSeen,omitempty"`
	MaxSeenAt time.Time `json:"maxSeenAt,omitzero"`
	// Zonal is true when launches name a zone.
	Zonal bool `json:"zonal,omitempty"`
	// Changed is when we last did something to the group's size: a launch or a raise of the maximum
	// that was accepted, a termination that was decided or accepted.
	Changed time.Time `json:"changed,omitzero"`
	// Known are the names of the members that were there before us, sorted: those that were
	// current, and instances that had no node.
	Known []string `json:"known,omitempty"`
	// Moved tells that the target moved, and that the books do not know of it yet.
	Moved bool `json:"moved,omitempty"`
	// Zones by name.
	Zones map[string]Zone `json:"zones,omitempty"`
}

// Zone is one zone's part; all counts are nodes.
type Zone struct {
	// Surge is how many are to be there beyond the zone's own nodes while outdated ones are left.
	Surge int `json:"surge"`
	// Launched counts launches asked for and not refused, Shrunk terminations that lowered the
	// group's size.
	Launched int `json:"launched"`
	Shrunk   int `json:"shrunk"`
	// Removed counts outdated nodes we terminated, either way.
	Removed int `json:"removed"`
	// Carried is how much of the contribution was there before the way back began, as nodes that
	// are outdated on it: surge that is up already. Negative when nodes that were taken were still
	// missing.
	Carried int `json:"carried,omitempty"`
	// Earlier counts the nodes in Carried that were launched before the target moved and that the upgrade
	// has not removed yet.
	Earlier int `json:"earlier,omitempty"`
	// Replaced counts the nodes that were removed before the way back began: what came in their place is
	// outdated on it, and may not serve yet.
	Replaced int `json:"replaced,omitempty"`
	// Serial numbers the launches; it makes their tokens differ.
	Serial int `json:"serial"`
	// Open are the launches that are not known to have been accepted.
	Open []Launch `json:"open,omitempty"`
	// RetryAt is the earliest next launch after one was refused for want of capacity.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Refusal is what the provider said of that.
	Refusal string `json:"refusal,omitempty"`
	// Stale is true when it was refused because the group was read before it changed: the group as
	// it is now may accept the launch.
	Stale bool `json:"stale,omitempty"`
}

// Launch is one request for capacity. Its number makes the token under which a repeated request has
// no further effect.
type Launch struct {
	Serial int `json:"serial"`
	N      int `json:"n"`
	// Desired is the group's size it was decided on, and Max the maximum that proves it has landed,
	// for providers without tokens: one request raises both.
	Desired int `json:"desired,omitempty"`
	Max     int `json:"max,omitempty"`
	// Doubt is true once an answer was lost, to this process or with the one before: it may have landed
	// though a later request is refused.
	Doubt bool `json:"doubt,omitempty"`
}

// FromBooks is the ledger that holds the books.
func FromBooks(books Books) Ledger { return Ledger{books} }

// Books is a copy of what the ledger holds.
func (l *Ledger) Books() Books { return l.Clone().books }

// Clone copies the ledger so that the copy can be changed.
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

// WithoutObserved is the ledger without what a later look at the group shows again.
func (l *Ledger) WithoutObserved() Ledger {
	c := *l
	c.books.Changed, c.books.MaxSeen, c.books.MaxSeenAt = time.Time{}, 0, time.Time{}
	return c
}

// Zonal reports whether launches name a zone.
func (l *Ledger) Zonal() bool { return l.books.Zonal }

// Changed is when we last did something to the group's size.
func (l *Ledger) Changed() time.Time { return l.books.Changed }

// ZoneOf is the ledger's zone for a zone of the group: the same, or "" when the whole group is one.
func (l *Ledger) ZoneOf(zone string) string {
	if l.books.Zonal {
		return zone
	}
	return ""
}

// IsPreexisting reports whether the member was there before us, as a node or as an instance still
// without one.
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

// Contribution is how many nodes of the zone are there because of us; negative when one was taken
// and not yet replaced.
func (z Zone) Contribution() int { return z.Launched - z.Shrunk }

// confirmedSurge is the zone's contribution without the launches that are not known to have been
// accepted.
func (z Zone) confirmedSurge() int {
	sum := z.Contribution()
	for _, launch := range z.Open {
		sum -= launch.N
	}
	return sum
}

// Contribution is how much larger the group is because of us, in nodes.
func (l *Ledger) Contribution() int { return l.sumOverZones(Zone.Contribution) }

// ContributionIn is how many nodes of a zone of the group are there because of us.
func (l *Ledger) ContributionIn(zone string) int { return l.books.Zones[l.ZoneOf(zone)].Contribution() }

// ConfirmedSurge is the contribution without the launches that are not known to have been accepted.
func (l *Ledger) ConfirmedSurge() int { return l.sumOverZones(Zone.confirmedSurge) }

// Removed counts the outdated nodes that were terminated.
func (l *Ledger) Removed() int { return l.sumOverZones(func(z Zone) int { return z.Removed }) }

// Carried counts the nodes that were added before the way back began.
func (l *Ledger) Carried() int { return l.sumOverZones(func(z Zone) int { return z.Carried }) }

// OpenLaunches counts the launches that are not known to have been accepted.
func (l *Ledger) OpenLaunches() int { return l.sumOverZones(func(z Zone) int { return len(z.Open) }) }

// PendingLaunches counts the launches that are open, and the nodes that terminations took from
// zones and that are still to be launched.
func (l *Ledger) PendingLaunches() int {
	return l.OpenLaunches() + l.sumOverZones(func(z Zone) int { return max(0, -z.Contribution()) })
}

// LaunchRefusal is what the provider said of launches that it refused, of the first such zone, ""
// when none was: an autoscaler may have taken the room that the node was to have.
func (l *Ledger) LaunchRefusal() string {
	for _, zone := range l.zoneNames() {
		if refusal := l.books.Zones[zone].Refusal; refusal != "" {
			return refusal
		}
	}
	return ""
}

// DescribeSurplus says what of ours the group keeps, "" when nothing. It is larger by so many nodes than it
// was before the upgrade: what another actor has taken away meanwhile is not kept.
func (l *Ledger) DescribeSurplus(larger int) string {
	owed := min(l.Contribution(), larger)
	if owed <= 0 {
		return ""
	}
	return DescribeSize(owed) + ": no outdated node was left to give back, and new nodes are not taken, because they carry pods or may soon"
}

// DescribeSize says that the group is larger than before the upgrade by so many nodes, or smaller where
// the number is negative.
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

// Replaced counts the nodes that were removed before the way back began.
func (l *Ledger) Replaced() int { return l.sumOverZones(func(z Zone) int { return z.Replaced }) }

// MarkMoved notes that the target moved, or that the books have nothing to do with that any more.
func (l *Ledger) MarkMoved(moved bool) { l.books.Moved = moved }

// TargetMoved reports whether the target moved, and AdoptTarget is still to be called.
func (l *Ledger) TargetMoved() bool { return l.books.Moved }

// NoteSizeChange notes that the group's size was changed by us, so that readings from before are
// told from later ones.
func (l *Ledger) NoteSizeChange(at time.Time) {
	if at.After(l.books.Changed) {
		l.books.Changed = at
	}
}

// BookRemoval books that an outdated node of the ledger's zone is terminated, or was drained and
// has no machine; shrink, that the group's size is lowered with it; earlier, that the node was launched
// for an earlier target.
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

// BookReturn books that a new node of the ledger's zone is given back.
func (l *Ledger) BookReturn(zone string, now time.Time) {
	l.updateZone(zone, func(z *Zone) { z.Shrunk++ })
	l.books.Changed = now
}

// UnbookRemoval reverses BookRemoval. earlier must be the value that BookRemoval got.
func (l *Ledger) UnbookRemoval(zone string, earlier bool) {
	l.updateZone(zone, func(z *Zone) { z.Removed-- })
	if earlier {
		l.updateZone(zone, func(z *Zone) { z.Earlier++ })
	}
}

// BookKnown books a member as one that was there before us.
func (l *Ledger) BookKnown(name string) {
	if at, known := slices.BinarySearch(l.books.Known, name); !known {
		l.books.Known = slices.Insert(slices.Clone(l.books.Known), at, name)
	}
}

// UnbookShrink takes off the books that a termination lowered the group's size.
func (l *Ledger) UnbookShrink(zone string) { l.updateZone(zone, func(z *Zone) { z.Shrunk-- }) }

// ForgetRefusals has launches that were refused be tried again.
func (l *Ledger) ForgetRefusals() {
	for zone := range l.books.Zones {
		l.updateZone(zone, func(z *Zone) { z.Refusal, z.Stale, z.RetryAt = "", false, time.Time{} })
	}
}

// MergeZones makes one zone of all, for a group whose launches turn out to name no zone. What was
// refused in the zones is none of the new one's.
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

// updateZone applies f to one zone's part.
func (l *Ledger) updateZone(zone string, f func(*Zone)) {
	if l.books.Zones == nil {
		l.books.Zones = map[string]Zone{}
	}
	z := l.books.Zones[zone]
	f(&z)
	l.books.Zones[zone] = z
}
