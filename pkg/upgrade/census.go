package upgrade

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// memberCounts has the group's members classified and counted, once per step.
type memberCounts struct {
	// byName has the members that were started, by the name of their record.
	byName map[string]*nodegroup.Member
	// pending has the outdated members that were not started, sorted by name.
	pending []*nodegroup.Member
	// leaving has the outdated members that were not started and whose instance is terminating while their Node still
	// exists.
	leaving []*nodegroup.Member
	// known has the sorted names of current members and of instances without a node, counted before the upgrade starts.
	// unready counts the known current members that are not usable now.
	known   []string
	unready int
	// pendingIn counts the pending members by their own zone. turn is the zone whose nodes may be started; nil if zones
	// take no turns.
	pendingIn map[string]int
	turn      *string
	// ready counts the members of any revision that take pods, or would without our fence, and that are not being
	// removed.
	ready int
	ledger.Counts
}

// countMembers sorts the members by what the upgrade does with them. It runs in every step for the whole group, so it
// reads as little of each member as possible.
func countMembers(w *World, rec *record.Record) memberCounts {
	c := memberCounts{
		pending: make([]*nodegroup.Member, 0, max(0, rec.Total-rec.Begun)), byName: map[string]*nodegroup.Member{}, pendingIn: map[string]int{},
		Counts: ledger.Counts{Left: map[string]int{}, Zones: map[string]int{}, UsableIn: map[string]int{}},
	}
	var counts zoneCounts
	begun := rec.IndexesOfStarted(w.Members)
	for i := range w.Members {
		m := &w.Members[i]
		var started *record.NodeRecord
		if len(begun) > 0 && begun[0] == i {
			begun = begun[1:]
			started = c.registerStarted(m, rec)
		}
		switch {
		case m.Instance.State == nodegroup.InstanceStandby && started == nil: // it is left alone
		case m.Instance.State != nodegroup.InstanceLeaving:
			c.addMember(m, started, counts.countsOf(m.Zone()), w, rec)
		case m.Outdated && started == nil && m.Node != nil:
			c.leaving = append(c.leaving, m)
		}
	}
	c.sumZoneCounts(counts, &rec.Ledger)
	return c
}

// registerStarted adds a started member to byName and returns its record. It returns nil if the member was not started.
func (c *memberCounts) registerStarted(m *nodegroup.Member, rec *record.Record) *record.NodeRecord {
	name, started := rec.RecordNameOf(m)
	if !started {
		return nil
	}
	c.byName[name] = m
	n := rec.Nodes[name]
	return &n
}

func (c *memberCounts) addMember(m *nodegroup.Member, started *record.NodeRecord, zone *zoneCount, w *World, rec *record.Record) {
	if m.Instance.ID != "" {
		c.Instances++
	}
	if m.Instance.ID != "" || !w.Group.Can.ListInstances {
		zone.all++ // a Node object that outlived its machine is not part of the group
	}
	removing := started != nil && started.State == record.NodeRemoving
	if !removing {
		c.countServing(m, m.IsReady() && (m.Outdated || w.isUsable(m, rec)))
	}
	if m.Outdated {
		c.addOutdated(m, started, zone, rec)
	} else {
		c.addCurrent(m, rec, zone, w.isUsable(m, rec) && (!removing || !rec.IsNewMember(m)))
	}
}

func (c *memberCounts) addOutdated(m *nodegroup.Member, started *record.NodeRecord, zone *zoneCount, rec *record.Record) {
	if started == nil {
		c.pending = append(c.pending, m)
		zone.pending++
	}
	if started == nil || !record.IsPastDrain(started.State) {
		zone.left++
	}
	if m.Node == nil && rec.Run == "" {
		c.known = append(c.known, m.Name()) // later nothing distinguishes it from an added instance
	}
}

func (c *memberCounts) countServing(m *nodegroup.Member, fit bool) {
	if fit {
		c.ready++
	}
	if m.Outdated {
		c.Serving++
	}
}

func (c *memberCounts) addCurrent(m *nodegroup.Member, rec *record.Record, zone *zoneCount, usable bool) {
	switch {
	case !rec.IsNewMember(m):
		if rec.Run == "" {
			c.known = append(c.known, m.Name())
		}
		c.Serving++
		if !usable {
			c.unready++
		}
	case usable:
		c.Usable++
		c.Serving++
		zone.usable++
		fallthrough
	default:
		c.Fresh++
	}
}

// zoneCounts counts members by their own zone. A group has few zones, so a linear search is faster than a map.
type zoneCounts []zoneCount

type zoneCount struct {
	zone                       string
	all, pending, left, usable int
}

// countsOf returns the zone's count and adds the zone if it is new. The pointer is only valid until the next call.
func (z *zoneCounts) countsOf(zone string) *zoneCount {
	for i := range *z {
		if (*z)[i].zone == zone {
			return &(*z)[i]
		}
	}
	*z = append(*z, zoneCount{zone: zone})
	return &(*z)[len(*z)-1]
}

// sumZoneCounts stores the counts, some of them by ledger zone. Zones with a count of 0 are left out.
func (c *memberCounts) sumZoneCounts(counts zoneCounts, l *ledger.Ledger) {
	add := func(to map[string]int, zone string, n int) {
		if n > 0 {
			to[zone] += n
		}
	}
	for _, z := range counts {
		booked := l.ZoneOf(z.zone)
		add(c.Zones, z.zone, z.all)
		add(c.pendingIn, z.zone, z.pending)
		add(c.Left, booked, z.left)
		add(c.UsableIn, booked, z.usable)
	}
}

// previousRevision returns the revision for a rollback. It is the one that the group still points at. If the group
// already points at the wanted revision, it is the one that most outdated nodes have.
func (c *memberCounts) previousRevision(g *nodegroup.Group) nodegroup.Revision {
	if g.Pointed.ID != g.Wanted.ID {
		return g.Pointed
	}
	counts := map[nodegroup.Revision]int{}
	for _, m := range c.pending {
		if r := m.Instance.Revision; r.ID != "" {
			counts[r]++
		}
	}
	if len(counts) == 0 {
		return g.Pointed
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(counts)), func(a, b nodegroup.Revision) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), strings.Compare(a.ID, b.ID))
	})
}

// MarkOutdatedByLabels marks members as outdated whose machines are current but whose nodes lack a label of current nodes, and
// returns how many. During an upgrade, it marks only nodes that lacked a label when the upgrade began. A new node
// without the labels is a failure to create nodes, and would be replaced without end.
func MarkOutdatedByLabels(g *nodegroup.Group, members []nodegroup.Member, record *record.Record) int {
	if len(g.CurrentLabels) == 0 {
		return 0 // a rollback requires no labels
	}
	found := 0
	for i := range members {
		m := &members[i]
		machine := cmp.Or(m.Instance.ID, record.Nodes[m.Name()].Instance) // a Node may outlive its machine
		if m.Outdated || machine == "" || m.Instance.State == nodegroup.InstanceStandby {
			continue
		}
		if lacking := g.LacksLabels(m.Node); record.Run == "" {
			m.Outdated = lacking
		} else { // a listed machine whose Node is gone never got its labels
			m.Outdated = (lacking || m.Node == nil) && slices.Contains(record.Unlabelled, machine)
		}
		if m.Outdated {
			found++
		}
	}
	return found
}

// listOutdatedByLabels returns the sorted IDs of current machines whose nodes are outdated only because of their labels.
func listOutdatedByLabels(members []*nodegroup.Member) []string {
	var ids []string
	for _, m := range members {
		if m.Instance.ID != "" && !m.Instance.Outdated {
			ids = append(ids, m.Instance.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
