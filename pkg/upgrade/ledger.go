package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Ledger is what we added to the group and what is still owed back, by zone. Only
// our own contribution is kept: what an autoscaler does meanwhile is not ours to undo
// (EKS E61, and the reason there is never an absolute restore).
//
// In each zone the contribution is launched − shrunk. It starts at 0, is raised to the
// zone's surge, is held there by one launch for each outdated node that is terminated
// with shrinking, and falls with the zone's last outdated nodes back to 0:
//
//	launch while contribution < min(surge, outdated nodes of the zone)
//
// Where the provider cannot launch in a named zone the whole group is one zone named "",
// and outdated nodes are terminated without shrinking until only as many are left as were added.
type Ledger struct {
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
	// Known are the names of the current members that were there before us, sorted.
	Known []string `json:"known,omitempty"`
	// Moved tells that the target moved, and that the books do not know of it yet.
	Moved bool `json:"moved,omitempty"`
	// Zones by name.
	Zones map[string]ZoneLedger `json:"zones,omitempty"`
}

// ZoneLedger is one zone's part; all counts are nodes.
type ZoneLedger struct {
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
	// Serial numbers the launches; it makes their tokens differ.
	Serial int `json:"serial"`
	// Open are the launches that are not known to have been accepted.
	Open []Launch `json:"open,omitempty"`
	// RetryAt is the earliest next launch after one was refused for want of capacity.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Refusal is what the provider said of that.
	Refusal string `json:"refusal,omitempty"`
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
}

// Contribution is how many nodes of the zone are there because of us; negative when one was taken
// and not yet replaced.
func (z ZoneLedger) Contribution() int { return z.Launched - z.Shrunk }

// Contribution is how much larger the group is because of us, in nodes.
func (l *Ledger) Contribution() int {
	sum := 0
	for _, z := range l.Zones {
		sum += z.Contribution()
	}
	return sum
}

// confirmedSurge is the zone's contribution without the launches that are not known to have been
// accepted.
func (z ZoneLedger) confirmedSurge() int {
	sum := z.Contribution()
	for _, launch := range z.Open {
		sum -= launch.N
	}
	return sum
}

// confirmedSurge is the contribution without the launches that are not known to have been accepted.
func (l *Ledger) confirmedSurge() int { return l.sumOverZones(ZoneLedger.confirmedSurge) }

func (l *Ledger) sumOverZones(count func(ZoneLedger) int) int {
	sum := 0
	for _, z := range l.Zones {
		sum += count(z)
	}
	return sum
}

func (l *Ledger) cloneLedger() Ledger {
	c := *l
	c.Zones = maps.Clone(l.Zones)
	for name, z := range c.Zones {
		z.Open = slices.Clone(z.Open)
		c.Zones[name] = z
	}
	return c
}

// updateZone applies f to one zone's ledger.
func (l *Ledger) updateZone(zone string, f func(*ZoneLedger)) {
	if l.Zones == nil {
		l.Zones = map[string]ZoneLedger{}
	}
	z := l.Zones[zone]
	f(&z)
	l.Zones[zone] = z
}

// mergeZones makes one zone of all, for a group whose launches turn out to name no zone. What was
// refused in the zones is none of the new one's.
func (r *Record) mergeZones() {
	var all ZoneLedger
	for _, z := range r.Ledger.Zones {
		all.Surge += z.Surge
		all.Launched += z.Launched
		all.Shrunk += z.Shrunk
		all.Removed += z.Removed
		all.Carried += z.Carried
		all.Serial = max(all.Serial, z.Serial)
	}
	r.Ledger.Zonal, r.Ledger.Zones = false, map[string]ZoneLedger{"": all}
	for name, n := range r.Nodes {
		n.Zone = ""
		r.Nodes[name] = n
	}
}

// launchToken names launch number serial of a zone in this run; a cloud accepts up to 64 characters
// of it.
func launchToken(run, zone string, serial int) string {
	return fmt.Sprintf("%s-%s-%d", run, zone, serial)
}

// SpreadSurge deals n surge nodes out to zones in turn, so that each zone with outdated
// nodes gets its first before any gets its second (EKS E20, E25), and none more than it has
// outdated nodes, because those give the surge back. outdated counts nodes by zone.
func SpreadSurge(n int, outdated map[string]int) map[string]int {
	surge := map[string]int{}
	zones := slices.Sorted(maps.Keys(outdated))
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

// hasRefusedLaunch reports whether a launch was refused: an autoscaler may have taken the room that
// its node was to have.
func (l *Ledger) hasRefusedLaunch() bool {
	for _, z := range l.Zones {
		if z.Refusal != "" {
			return true
		}
	}
	return false
}

func (l *Ledger) openLaunches() int {
	return l.sumOverZones(func(z ZoneLedger) int { return len(z.Open) })
}

// settleRaise books what became of the raise of the maximum that came with a launch. One that
// landed is on the books even if they were closed meanwhile, when a stop found it neither in the
// group's reading nor answered.
func (l *Ledger) settleRaise(launch Launch, landed bool) {
	switch {
	case launch.Max == 0:
	case landed && l.MaxTo < launch.Max:
		l.MaxFrom, l.MaxTo = cmp.Or(l.MaxFrom, launch.Max-launch.N), launch.Max
	case !landed && l.MaxTo == launch.Max:
		if l.MaxTo -= launch.N; l.MaxTo <= l.MaxFrom {
			l.MaxFrom, l.MaxTo = 0, 0
		}
	}
}

// describeSurplus says what of ours the group keeps, "" when nothing.
func (l *Ledger) describeSurplus() string {
	owed := l.Contribution()
	if owed <= 0 {
		return ""
	}
	return fmt.Sprintf("the group keeps %d more nodes than before: no outdated node was left to give back, and nodes that carry pods are not taken", owed)
}

// isPreexisting reports whether the member was there before us, as a node or as an instance still
// without one.
func (l *Ledger) isPreexisting(m *nodegroup.Member) bool {
	if len(l.Known) == 0 {
		return false
	}
	if _, known := slices.BinarySearch(l.Known, m.Name()); known {
		return true
	}
	_, known := slices.BinarySearch(l.Known, m.Instance.ID)
	return known
}

// ledgerZoneOf is the ledger's zone of a member: its own, or "" when the whole group is one.
func (l *Ledger) ledgerZoneOf(m *nodegroup.Member) string {
	if l.Zonal {
		return m.Zone()
	}
	return ""
}

// closeRaise ends the books of a raise that is taken back, or another actor's by now: a later one
// begins again.
func (l *Ledger) closeRaise() { l.MaxFrom, l.MaxTo, l.MaxLow = 0, 0, 0 }

// noteLowered records that the maximum is as low as it was asked to be: a part of the raise is
// taken back, or all.
func (l *Ledger) noteLowered(maximum int) {
	if l.MaxLow != 0 && maximum == l.MaxLow {
		l.MaxTo, l.MaxLow = l.MaxLow, 0
	}
}

// countMissing counts the nodes that terminations took from zones and that are still to be
// launched.
func (l *Ledger) countMissing() int {
	return l.sumOverZones(func(z ZoneLedger) int { return max(0, -z.Contribution()) })
}
