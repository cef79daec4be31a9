package upgrade

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// rebuild makes the ledger again for a record that was lost or whose target moved.
type rebuild struct{ *draft }

func rebuildOf(d *draft) rebuild { return rebuild{d} }

// groupBaseline is the annotation of this run, "" for a group that has no size.
func (r *Record) groupBaseline() string {
	if r.Sizes.Desired == 0 {
		return ""
	}
	s := r.Sizes
	return nodemark.GroupBaseline{Desired: s.Desired, Min: s.Min, Max: s.Max, Zones: s.Zones, Suspended: r.Suspended}.Text()
}

// ErrLost is a run of which nothing tells any more what it added to the group.
var ErrLost = errors.New("nothing tells what the group was like before it")

// RebuildRecord makes the record of a run again that is gone, from the marks that the run left on
// the group's nodes: they tell the run, the nodes in drain with their deadlines, and what the group
// was like before. What the run added follows from that and from a later look at the group (see
// recount). The request is the one that an upgrade would be begun with now. It returns the zero
// Record where no node has marks of a run, and with it an error that is ErrLost, which names the
// run, where the group has a size and no node tells what that was.
func RebuildRecord(w World) (Record, error) {
	run := markedMost(w.Members)
	if run == "" {
		return Record{}, nil
	}
	d := newDraft(&w)
	rec := Record{
		Version: RecordVersion, Run: run, Request: w.Request, Lost: true, Started: w.Now, Phase: PhaseSetup,
		Previous: rollbackOf(d).previousRevision(), Target: w.Group.Wanted, Provider: w.Group.Provider, Nodes: map[string]NodeRecord{},
		Unlabelled: withoutLabels(slices.DeleteFunc(d.count.pending, func(m *nodegroup.Member) bool {
			return m.Node == nil || m.Node.Annotations[nodemark.AnnotationRun] != run // a new node without the labels was never fenced
		})),
	}
	rec.Request.Run = run
	before, told := findGroupBaseline(w.Members, run)
	if w.Group.Sized && !told {
		return rec, ErrLost
	}
	rec.Sizes = Sizes{Desired: before.Desired, Min: before.Min, Max: before.Max, Zones: before.Zones}
	rec.Suspended = before.Suspended
	rec.Ledger.Zonal = w.Group.Zonal
	for i := range w.Members {
		rec.adoptDraining(&w.Members[i])
	}
	return rec, nil
}

// adoptDraining puts a node on record that is being drained. Which of them were started first is
// not known any more: the one whose time ends first goes first.
func (r *Record) adoptDraining(m *nodegroup.Member) {
	if m.Node == nil || !m.Outdated || m.Instance.State == nodegroup.InstanceLeaving || m.Node.Annotations[nodemark.AnnotationRun] != r.Run {
		return
	}
	deadline, err := time.Parse(time.RFC3339, m.Node.Annotations[nodemark.AnnotationDeadline])
	if err != nil {
		return // it is fenced and was not started
	}
	r.Begun++
	r.Nodes[m.Name()] = NodeRecord{
		UID: m.Node.UID, Instance: m.Instance.ID, Zone: r.Ledger.ledgerZoneOf(m), State: NodeDraining, Batch: 1,
		Began: deadline.Add(-r.Request.DrainTimeout.Duration), Deadline: deadline,
	}
}

// markedMost is the run whose marks most nodes carry, "" when none has any.
func markedMost(members []nodegroup.Member) string {
	counts := map[string]int{}
	for i := range members {
		if node := members[i].Node; node != nil {
			if run := cmp.Or(node.Annotations[nodemark.AnnotationRun], node.Annotations[nodemark.AnnotationHeld]); run != "" {
				counts[run]++
			}
		}
	}
	if len(counts) == 0 {
		return ""
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(counts)), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), strings.Compare(b, a))
	})
}

// findGroupBaseline reads what the run wrote on a node; false when none tells.
func findGroupBaseline(members []nodegroup.Member, run string) (nodemark.GroupBaseline, bool) {
	for i := range members {
		if node := members[i].Node; node != nil {
			if b, told := nodemark.ReadGroupBaseline(node, run); told {
				return b, true
			}
		}
	}
	return nodemark.GroupBaseline{}, false
}

// rebuildLedger makes the books again of a run whose record was lost, by a reading of the group
// that shows all that the run did: what there is in a zone beyond what there was is taken for ours,
// as far as the zone has outdated nodes to give it back with. What others changed meanwhile cannot
// be told from that. It reports whether the books are made.
func (d rebuild) rebuildLedger() bool {
	g, l := &d.w.Group, &d.rec.Ledger
	if !d.rec.Lost {
		return true
	}
	if g.Sized && !g.IsFreshAfter(d.rec.PhaseBegan) {
		d.waitForCloud("the group to show what was done to it, since the record of that is lost")
		return false
	}
	l.Known, l.Changed = d.w.preexistingNames(), d.w.Now
	there, was := l.groupByZone(d.count.zones), l.groupByZone(d.rec.Sizes.Zones)
	if g.Sized && !l.Zonal {
		there[""], was[""] = g.Desired, d.rec.Sizes.Desired
	}
	d.rebuildZones(there, was)
	outdated := d.countOutdated()
	d.rec.Total = max(outdated, d.rec.Sizes.Desired-len(l.Known)) // a group without a size is as large as it is
	d.rec.Replaced = d.rec.Total - outdated
	if g.Sized && g.Max > d.rec.Sizes.Max && !d.rec.Request.KeepMax {
		l.MaxFrom, l.MaxTo = d.rec.Sizes.Max, g.Max
	}
	d.rec.Lost = false
	d.count = countMembers(d.w, &d.rec)
	return true
}

// rebuildZones books what there is more than there was, zone by zone.
func (d rebuild) rebuildZones(there, was map[string]int) {
	surge := SpreadSurge(d.rec.Request.Surge, d.count.left)
	known := map[string]int{}
	for i := range d.w.Members {
		if m := &d.w.Members[i]; d.rec.Ledger.isPreexisting(m) {
			known[d.rec.Ledger.ledgerZoneOf(m)]++
		}
	}
	for _, counts := range []map[string]int{there, was, d.count.left} {
		for zone := range counts {
			left := d.count.left[zone]
			ours := 0
			if d.w.Group.Sized {
				ours = max(-d.rec.Request.MaxUnavailable, min(there[zone]-was[zone], left))
			}
			removed := max(0, was[zone]-known[zone]-left)
			d.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
				// No token is used again: it would stand for a launch of before.
				*z = ZoneLedger{Surge: max(surge[zone], ours), Launched: removed + ours, Shrunk: removed, Removed: removed, Serial: int(d.w.Now.Unix())}
			})
		}
	}
}

// preexistingNames are the names of the members that count as there before the run whose record was
// lost: current, fit for pods, and not held.
func (w *World) preexistingNames() []string {
	var names []string
	for i := range w.Members {
		if m := &w.Members[i]; !m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && w.Group.IsUsable(m) && !m.IsHeld() {
			names = append(names, m.Name())
		}
	}
	return names // sorted, as the members are
}

// countOutdated counts the outdated members that are still to be replaced.
func (d rebuild) countOutdated() int {
	n := 0
	for _, left := range d.count.left {
		n += left
	}
	return n
}

// groupByZone sums counts by zone up by the ledger's zones.
func (l *Ledger) groupByZone(counts map[string]int) map[string]int {
	sums := map[string]int{}
	for zone, n := range counts {
		if !l.Zonal {
			zone = ""
		}
		sums[zone] += n
	}
	return sums
}

// adoptTarget begins the books of the way to a target that moved. What was launched for the earlier
// target is outdated by now, but it serves: it is carried over as the nodes are that a rollback
// begins with. Nodes from before the upgrade that turn out to be current are none of those it
// launched. When a node came tells the two apart: not every provider names an older revision whole.
func (d rebuild) adoptTarget() {
	l := &d.rec.Ledger
	carried := map[string]int{}
	for i := range d.w.Members {
		m := &d.w.Members[i]
		switch launched := m.Node == nil || !m.Node.CreationTimestamp.Time.Before(d.rec.Started); {
		case d.rec.isTerminating(m) || l.isPreexisting(m):
		case launched && m.Outdated:
			carried[l.ledgerZoneOf(m)]++
		case !launched && !m.Outdated:
			l.Known = append(l.Known, m.Name())
		}
	}
	slices.Sort(l.Known)
	d.count = countMembers(d.w, &d.rec)
	for zone, surge := range rollbackOf(d.draft).spreadSurgeAgain() {
		l.updateZone(zone, func(z *ZoneLedger) { z.Surge, z.Carried = surge, z.Carried+carried[zone] })
	}
	d.rec.Total = d.countTotal()
	l.Moved = false
	if d.phase.givesBack {
		d.enterPhase(PhaseSetup) // the surge was given back
	}
}

// countTotal counts the nodes that are replaced, in flight, quarantined and still to be started.
func (d rebuild) countTotal() int {
	total := d.rec.Replaced + len(d.count.pending)
	for _, n := range d.rec.Nodes {
		if !n.Added && n.State != NodeDrained {
			total++
		}
	}
	return total
}
