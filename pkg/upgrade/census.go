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

// memberCounts counts the members of the group once a step.
type memberCounts struct {
	// byName are the members that were started, by the name they are recorded under.
	byName map[string]*nodegroup.Member
	// pending are outdated members that were not started, by name.
	pending []*nodegroup.Member
	// leaving are outdated members that were not started and whose instance is on its way out while
	// their Node is still there.
	leaving []*nodegroup.Member
	// known are the names, sorted, of the current members before the start and of instances that
	// have no node then; unready counts the current ones of them that are not usable, at any time.
	known   []string
	unready int
	// pendingIn counts pending members by their own zone. turn is the one of which alone nodes are
	// started; nil where zones take no turns.
	pendingIn map[string]int
	turn      *string
	// ready counts members of any revision that are fit for pods, or were but for our fence, and
	// are not being removed.
	ready int
	ledger.Counts
}

// countMembers sorts the members by what the upgrade has to do with them. It is done in every step
// for the whole group, so that it looks at as little of a member as it can.
func countMembers(w *World, rec *record.Record) memberCounts {
	c := memberCounts{
		pending: make([]*nodegroup.Member, 0, max(0, rec.Total-rec.Begun)), byName: map[string]*nodegroup.Member{}, pendingIn: map[string]int{},
		Counts: ledger.Counts{Left: map[string]int{}, Zones: map[string]int{}, UsableIn: map[string]int{}},
	}
	var counts zoneCounts
	begun := rec.StartedMembers(w.Members)
	for i := range w.Members {
		m := &w.Members[i]
		var started *record.NodeRecord
		if len(begun) > 0 && begun[0] == i {
			begun = begun[1:]
			started = c.findRecord(m, rec)
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

// findRecord is the record of the member, which is noted under that name; nil when it was not
// started.
func (c *memberCounts) findRecord(m *nodegroup.Member, rec *record.Record) *record.NodeRecord {
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
		zone.all++ // a Node object that outlives its machine is none of the group's
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
	if started == nil || !record.IsEnding(started.State) {
		zone.left++
	}
	if m.Node == nil && rec.Run == "" {
		c.known = append(c.known, m.Name()) // later nothing tells it from an instance that was added
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

// zoneCounts counts members by their own zone. A group has few zones: they are looked through
// faster than a map.
type zoneCounts []zoneCount

type zoneCount struct {
	zone                       string
	all, pending, left, usable int
}

// countsOf is the zone's count, which must be used before the next is asked for.
func (z *zoneCounts) countsOf(zone string) *zoneCount {
	for i := range *z {
		if (*z)[i].zone == zone {
			return &(*z)[i]
		}
	}
	*z = append(*z, zoneCount{zone: zone})
	return &(*z)[len(*z)-1]
}

// sumZoneCounts takes the counts over, those that are by ledger zone as the ledger has zones.
// Nothing stands for none.
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

// previousRevision is the revision that a rollback goes back to: the one the group points at still
// or, where it points at the one wanted already, the one that most of the outdated nodes have.
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

// JudgeLabels marks members as outdated whose machines are current and whose nodes lack a label of
// current ones, and returns how many. Once an upgrade is under way only those count that lacked one
// when it began: a new node without the labels is a failure to create nodes, and would be replaced
// without end.
func JudgeLabels(g *nodegroup.Group, members []nodegroup.Member, record *record.Record) int {
	if len(g.CurrentLabels) == 0 {
		return 0 // on the way back none are asked for
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

// withoutLabels are the IDs of the machines that are current and whose nodes were found outdated
// for their labels, sorted.
func withoutLabels(members []*nodegroup.Member) []string {
	var ids []string
	for _, m := range members {
		if m.Instance.ID != "" && !m.Instance.Outdated {
			ids = append(ids, m.Instance.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
