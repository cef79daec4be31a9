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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

// rebuild makes the ledger again for a record that was lost or whose target moved.
type rebuild struct{ *draft }

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
	count := countMembers(&w, &w.Record)
	rec := Record{
		Version: w.Request.Strategy.recordVersion(), Run: run, Request: w.Request, Lost: true, Started: w.Now, Phase: PhaseSetup,
		Previous: count.previousRevision(&w.Group), Target: w.Group.Wanted, Provider: w.Group.Provider, Taints: commonTaints(count.pending), Nodes: map[string]NodeRecord{},
		Unlabelled: withoutLabels(slices.DeleteFunc(count.pending, func(m *nodegroup.Member) bool {
			return m.Node == nil || m.Node.Annotations[nodemark.AnnotationRun] != run // a new node without the labels was never fenced
		})),
	}
	rec.Request.Run = run
	before, told := findGroupBaseline(w.Members, run)
	if w.Group.Sized && !told {
		return rec, ErrLost
	}
	rec.Sizes = nodegroup.Sizes{Desired: before.Desired, Min: before.Min, Max: before.Max, Zones: before.Zones}
	rec.Suspended = before.Suspended
	rec.Ledger = ledger.FromBooks(ledger.Books{Zonal: w.Group.Zonal})
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
		UID: m.Node.UID, Instance: m.Instance.ID, Zone: r.Ledger.ZoneOf(m.Zone()), State: NodeDraining, Batch: 1,
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
// that shows all that the run did. It reports whether the books are made.
func (d rebuild) rebuildLedger() bool {
	if !d.rec.Lost {
		return true
	}
	if g := &d.w.Group; g.Sized && !g.IsFreshAfter(d.rec.PhaseBegan) {
		d.waitForCloud("the group to show what was done to it, since the record of that is lost")
		return false
	}
	known := d.w.preexistingMembers()
	d.bookKeeper().Rebuild(known)
	outdated := d.countOutdated()
	d.rec.Total = max(outdated, d.rec.Sizes.Desired-len(known)) // a group without a size is as large as it is
	d.rec.Replaced = d.rec.Total - outdated
	d.rec.Lost = false
	d.count = countMembers(d.w, &d.rec)
	return true
}

// preexistingMembers are the members that count as there before the run whose record was lost:
// current, fit for pods, and not held.
func (w *World) preexistingMembers() []*nodegroup.Member {
	var known []*nodegroup.Member
	for i := range w.Members {
		if m := &w.Members[i]; !m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && m.HasStarted(w.Group.WantedLabels) && !m.IsHeld() {
			known = append(known, m)
		}
	}
	return known
}

// countOutdated counts the outdated members that are still to be replaced.
func (d rebuild) countOutdated() int {
	n := 0
	for _, left := range d.count.Left {
		n += left
	}
	return n
}

// adoptTarget begins the books of the way to a target that moved. What was launched for the earlier
// target is outdated by now, but it serves: it is carried over as the nodes are that a rollback
// begins with. Nodes from before the upgrade that turn out to be current are none of those it
// launched. When a node came tells the two apart: not every provider names an older revision whole.
func (d rebuild) adoptTarget() {
	l := &d.rec.Ledger
	var known []string
	carried := map[string]int{}
	for i := range d.w.Members {
		m := &d.w.Members[i]
		switch launched := m.Node == nil || !m.Node.CreationTimestamp.Time.Before(d.rec.Started); {
		case d.rec.isTerminating(m) || l.IsPreexisting(m):
		case launched && m.Outdated:
			carried[l.ZoneOf(m.Zone())]++
		case !launched && !m.Outdated:
			known = append(known, m.Name())
		}
	}
	d.bookKeeper().AdoptTarget(known, carried)
	d.count = countMembers(d.w, &d.rec)
	d.rec.Total = d.countTotal()
}

// countTotal counts the nodes that are replaced, in flight, quarantined and still to be started.
func (d rebuild) countTotal() int {
	started := countNodes(&d.rec, func(n NodeRecord) bool { return !n.Added && n.State != NodeDrained })
	return d.rec.Replaced + len(d.count.pending) + started
}
