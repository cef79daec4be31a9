package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ErrLost is a run of which the marks do not tell what it added to the group.
var ErrLost = errors.New("its marks do not tell what the group was like before it")

// RebuildRecord makes the record of a run again that is gone, from the marks that the run left on
// the group's nodes: they tell the run, the nodes in drain with their deadlines, and what the group
// was like before. What the run added follows from that and from a later look at the group (see
// ledger.Keeper.Rebuild). The request is the one that an upgrade would be begun with now.
//
// Marks are annotations, and each kubelet may write those of its own node. So the fenced nodes are
// asked, whose taint no kubelet may write, and all of them must say the same; only where none is
// fenced do other marks count, see CountWitnesses. What the marks say is bound by the request.
//
// It returns the zero Record where no node has marks of a run, and with it an error that is ErrLost,
// which names the run, where nodes contradict each other, or the group has a size and a node does
// not tell it.
func RebuildRecord(w World) (record.Record, error) {
	witnesses := w.findWitnesses()
	if len(witnesses) == 0 {
		return record.Record{}, nil
	}
	run := nodemark.RunOf(witnesses[0].Node)
	for _, m := range witnesses {
		if unreadable := nodemark.FindUnreadable(m.Node); unreadable != nil {
			return record.Record{Run: run}, fmt.Errorf("%w: %w", ErrLost, unreadable)
		}
		if other := nodemark.RunOf(m.Node); other != run {
			return record.Record{}, fmt.Errorf("%w: node %q has marks of run %s, and node %q of run %s", ErrLost, witnesses[0].Name(), run, m.Name(), other)
		}
	}
	count := countMembers(&w, &w.Record)
	rec := record.Record{
		Version: w.Request.Strategy.RecordVersion(), Run: run, Request: w.Request, Lost: true, Started: w.Now, Phase: record.PhaseSetup,
		Previous: count.previousRevision(&w.Group), Target: w.Group.Wanted, Provider: w.Group.Provider, Taints: commonTaints(count.pending), Nodes: map[string]record.NodeRecord{},
		Unlabelled: withoutLabels(slices.DeleteFunc(count.pending, func(m *nodegroup.Member) bool {
			return m.Node == nil || m.Node.Annotations[nodemark.AnnotationRun] != run // a new node without the labels was never fenced
		})),
	}
	rec.Request.Run = run
	before, err := agreeOnBaseline(witnesses, run)
	if w.Group.Can.Resize && err != nil {
		return rec, err
	}
	rec.Sizes = nodegroup.Sizes{Desired: before.Desired, Min: before.Min, Max: before.Max, Zones: before.Zones}
	processes := phaseOf(&rec).listProcesses(&w.Group)
	rec.Suspended = slices.DeleteFunc(before.Suspended, func(process string) bool { return !slices.Contains(processes, process) })
	rec.Ledger = ledger.FromBooks(ledger.Books{Zonal: w.Group.Can.NameZone})
	for _, m := range witnesses {
		adoptDraining(&rec, m, &w)
	}
	return rec, nil
}

// CountWitnesses counts the fenced nodes of the run: what a rebuilt record rests on. Where there is
// none it rests on annotations alone, which each node can write itself.
func CountWitnesses(w *World, run string) int {
	n := 0
	for _, m := range w.findWitnesses() {
		if w.isFenced(m) && nodemark.RunOf(m.Node) == run {
			n++
		}
	}
	return n
}

// findWitnesses are the members whose marks tell of a run: those that are fenced or, where none is,
// all that have marks.
func (w *World) findWitnesses() []*nodegroup.Member {
	var fenced, marked []*nodegroup.Member
	for i := range w.Members {
		switch m := &w.Members[i]; {
		case m.Node == nil || nodemark.RunOf(m.Node) == "":
		case w.isFenced(m):
			fenced = append(fenced, m)
		default:
			marked = append(marked, m)
		}
	}
	if len(fenced) > 0 {
		return fenced
	}
	return marked
}

// isFenced reports whether the member's node has a mark and the fence's taint of the group.
func (w *World) isFenced(m *nodegroup.Member) bool {
	return m.Node.Annotations[nodemark.AnnotationRun] != "" && nodemark.HasTaint(m.Node, nodegroup.FenceTaint(w.Group.Provider))
}

// agreeOnBaseline is what all of the nodes say about the group before the run. It returns an error
// that is ErrLost when one says nothing or something else. The processes are those that any of them
// names: more may have been suspended after the first was marked.
func agreeOnBaseline(witnesses []*nodegroup.Member, run string) (nodemark.GroupBaseline, error) {
	var agreed nodemark.GroupBaseline
	var suspended []string
	for i, m := range witnesses {
		said, told := nodemark.ReadGroupBaseline(m.Node, run)
		if !told {
			return agreed, fmt.Errorf("%w: node %q says nothing of it", ErrLost, m.Name())
		}
		suspended = append(suspended, said.Suspended...)
		said.Suspended = nil
		if i == 0 {
			agreed = said
		}
		if said.Text() != agreed.Text() {
			return agreed, fmt.Errorf("%w: node %q says %s, and node %q says %s", ErrLost, witnesses[0].Name(), agreed.Text(), m.Name(), said.Text())
		}
	}
	slices.Sort(suspended)
	agreed.Suspended = slices.Compact(suspended)
	return agreed, nil
}

// adoptDraining puts a node on record that is being drained, with the limit that it has but no more
// than the request allows. Which of them were started first is not known any more: the one whose
// time ends first goes first.
func adoptDraining(r *record.Record, m *nodegroup.Member, w *World) {
	if !m.Outdated || m.Instance.State == nodegroup.InstanceLeaving || !w.isFenced(m) {
		return
	}
	deadline, err := time.Parse(time.RFC3339, m.Node.Annotations[nodemark.AnnotationDeadline])
	if err != nil {
		return // it is fenced and was not started
	}
	if latest := w.Now.Add(r.Request.DrainTimeout.Duration); deadline.After(latest) {
		deadline = latest
	}
	r.Begun++
	r.Nodes[m.Name()] = record.NodeRecord{
		UID: m.Node.UID, Instance: m.Instance.ID, Zone: r.Ledger.ZoneOf(m.Zone()), State: record.NodeDraining, Batch: 1,
		Began: deadline.Add(-r.Request.DrainTimeout.Duration), Deadline: deadline,
	}
}

// rebuildLedger makes the books again of a run whose record was lost, by a reading of the group
// that shows all that the run did. It reports whether the books are made.
func (d *decision) rebuildLedger() bool {
	if !d.rec.Lost {
		return true
	}
	if g := &d.w.Group; g.Can.ListInstances && !g.IsFreshAfter(d.rec.PhaseBegan) {
		d.askCloudOften("the group to show what was done to it, since the record of that is lost")
		return false
	}
	known := d.w.preexistingMembers()
	d.bookKeeper().Rebuild(known)
	outdated := d.countOutdated()
	d.rec.Total = max(outdated, d.rec.Sizes.Desired-len(known)) // a group without a size is as large as it is
	d.rec.Replaced = d.rec.Total - outdated
	d.rec.Lost = false
	d.recount()
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
func (d *decision) countOutdated() int {
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
func (d *decision) adoptTarget() {
	l := &d.rec.Ledger
	var known []string
	earlier := map[string]int{}
	for i := range d.w.Members {
		m := &d.w.Members[i]
		switch launched := d.rec.WasLaunched(m); {
		case d.rec.IsTerminating(m) || l.IsPreexisting(m):
		case launched && m.Outdated:
			earlier[l.ZoneOf(m.Zone())]++
		case !launched && !m.Outdated:
			known = append(known, m.Name())
		}
	}
	d.bookKeeper().AdoptTarget(known, earlier)
	d.recount()
	d.rec.Total = d.countTotal()
}

// countTotal counts the nodes that are replaced, in flight, quarantined and still to be started.
func (d *decision) countTotal() int {
	started := record.CountNodes(&d.rec, func(n record.NodeRecord) bool { return !n.Added && n.State != record.NodeDrained })
	return d.rec.Replaced + len(d.count.pending) + started
}
