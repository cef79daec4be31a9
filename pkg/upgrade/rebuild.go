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

// ErrBaselineLost means that the marks of a run do not show what the run added to the group.
var ErrBaselineLost = errors.New("its marks do not contain the group's earlier size")

// RebuildRecord rebuilds the lost record of a run from the marks that the run left on the group's nodes. The marks name
// the run, the nodes in drain with their deadlines, and the state of the group before the run. That state and a later
// reading of the group show what the run added (see ledger.Keeper.Rebuild). The request is the one that a new upgrade
// would have now.
//
// Marks are annotations, and each kubelet may write those of its own node. No kubelet may write the fence's taint. So
// only the marks of fenced nodes are read, and all of them must agree. Other marks count only if no node is fenced; see
// CountFencedByRun. The request limits what the marks can cause.
//
// It returns the zero Record if no node has marks of a run. It returns an error that is ErrBaselineLost if a mark is
// unreadable, nodes name different runs, or the group has a size and its nodes do not agree on it. The record then
// names the run, unless the runs differ.
func RebuildRecord(w World) (record.Record, error) {
	witnesses := w.listMarkedMembers()
	if len(witnesses) == 0 {
		return record.Record{}, nil
	}
	run := nodemark.RunOf(witnesses[0].Node)
	for _, m := range witnesses {
		if unreadable := nodemark.FindUnreadable(m.Node); unreadable != nil {
			return record.Record{Run: run}, fmt.Errorf("%w: %w", ErrBaselineLost, unreadable)
		}
		if other := nodemark.RunOf(m.Node); other != run {
			return record.Record{}, fmt.Errorf("%w: node %q has marks of run %s, and node %q of run %s", ErrBaselineLost, witnesses[0].Name(), run, m.Name(), other)
		}
	}
	count := countMembers(&w, &w.Record)
	rec := record.Record{
		Version: w.Request.Strategy.RecordVersion(), Run: run, Request: w.Request, Lost: true, Started: w.Now, Phase: record.PhaseSetup,
		Previous: count.previousRevision(&w.Group), Target: w.Group.Wanted, Provider: w.Group.Provider, Taints: commonTaints(count.pending), Devices: commonDevices(count.pending), Nodes: map[string]record.NodeRecord{},
		Unlabelled: listOutdatedByLabels(slices.DeleteFunc(count.pending, func(m *nodegroup.Member) bool {
			return m.Node == nil || m.Node.Annotations[nodemark.AnnotationRun] != run // a new node without the labels was never fenced
		})),
	}
	rec.Request.Run = run
	before, err := agreeOnBaseline(witnesses, run)
	if w.Group.Can.Resize && err != nil {
		return rec, err
	}
	rec.Sizes = nodegroup.Sizes{Desired: before.Desired, Min: before.Min, Max: before.Max, Zones: before.Zones}
	processes := phaseOf(&rec).processesToSuspend(&w.Group)
	rec.Suspended = slices.DeleteFunc(before.Suspended, func(process string) bool { return !slices.Contains(processes, process) })
	rec.Ledger = ledger.FromBooks(ledger.Books{Zonal: w.Group.Can.NameZone})
	for _, m := range witnesses {
		adoptDraining(&rec, m, &w)
	}
	return rec, nil
}

// CountFencedByRun counts the fenced nodes of the run, whose marks a rebuilt record relies on. If there are none, the record
// relies on annotations only, which each node can write itself.
func CountFencedByRun(w *World, run string) int {
	n := 0
	for _, m := range w.listMarkedMembers() {
		if w.isFenced(m) && nodemark.RunOf(m.Node) == run {
			n++
		}
	}
	return n
}

// listMarkedMembers returns the members whose marks name a run: the fenced ones, or all marked ones if none is fenced.
func (w *World) listMarkedMembers() []*nodegroup.Member {
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

// isFenced reports whether the member's node has a mark and the group's fence taint.
func (w *World) isFenced(m *nodegroup.Member) bool {
	return m.Node.Annotations[nodemark.AnnotationRun] != "" && nodemark.HasTaint(m.Node, nodegroup.FenceTaint(w.Group.Provider))
}

// agreeOnBaseline returns the state of the group before the run, as the annotations of all nodes show it. It returns an error
// that is ErrBaselineLost if a node has no such annotation or a different one. The result has the suspended processes of all
// nodes, because more may have been suspended after the first node was marked.
func agreeOnBaseline(witnesses []*nodegroup.Member, run string) (nodemark.GroupBaseline, error) {
	var agreed nodemark.GroupBaseline
	var suspended []string
	for i, m := range witnesses {
		said, told := nodemark.ReadGroupBaseline(m.Node, run)
		if !told {
			return agreed, fmt.Errorf("%w: node %q has no such mark", ErrBaselineLost, m.Name())
		}
		suspended = append(suspended, said.Suspended...)
		said.Suspended = nil
		if i == 0 {
			agreed = said
		}
		if said.Encode() != agreed.Encode() {
			return agreed, fmt.Errorf("%w: node %q has %s, but node %q has %s", ErrBaselineLost, witnesses[0].Name(), agreed.Encode(), m.Name(), said.Encode())
		}
	}
	slices.Sort(suspended)
	agreed.Suspended = slices.Compact(suspended)
	return agreed, nil
}

// adoptDraining adds a node in drain to the record. The deadline comes from the node, and is at most the request's drain
// timeout from now. The order in which nodes were started is unknown, so the node with the earliest deadline goes first.
func adoptDraining(r *record.Record, m *nodegroup.Member, w *World) {
	if !m.Outdated || m.Instance.State == nodegroup.InstanceLeaving || !w.isFenced(m) {
		return
	}
	deadline, err := time.Parse(time.RFC3339, m.Node.Annotations[nodemark.AnnotationDeadline])
	if err != nil {
		return // it is fenced but was not started
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

// rebuildLedger rebuilds the ledger of a run whose record was lost, from a reading of the group that shows all that the
// run did. It reports whether the ledger is rebuilt.
func (d *decision) rebuildLedger() (done bool) {
	if !d.rec.Lost {
		return true
	}
	if g := &d.w.Group; g.Can.ListInstances && !g.IsFreshAfter(d.rec.PhaseBegan) {
		d.pollCloudSoon("the group to show the earlier changes, because their record is lost")
		return false
	}
	known := d.w.preexistingMembers()
	d.bookKeeper().Rebuild(known)
	outdated := d.countOutdated()
	d.rec.Total = max(outdated, d.rec.Sizes.Desired-len(known)) // Sizes.Desired is 0 for a group without a size
	d.rec.Replaced = d.rec.Total - outdated
	d.rec.Lost = false
	d.recount()
	return true
}

// preexistingMembers returns the members that count as existing before the run whose record was lost: current, ready for
// pods, and not held.
func (w *World) preexistingMembers() []*nodegroup.Member {
	var known []*nodegroup.Member
	for i := range w.Members {
		if m := &w.Members[i]; !m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && m.HasStarted(w.Group.WantedLabels) && !m.IsHeld() {
			known = append(known, m)
		}
	}
	return known
}

// countOutdated counts the outdated members that are not replaced yet.
func (d *decision) countOutdated() int {
	n := 0
	for _, left := range d.count.Left {
		n += left
	}
	return n
}

// adoptTarget begins the ledger for a target that moved. Nodes launched for the earlier target are outdated now, but
// they serve, so they are carried over like the nodes with which a rollback begins. Nodes from before the upgrade that
// turn out to be current do not count as launched by it. The two are distinguished by when a node was created, because
// not every provider names an older revision completely.
func (d *decision) adoptTarget() {
	l := &d.rec.Ledger
	var known []string
	earlier := map[string]int{}
	for i := range d.w.Members {
		m := &d.w.Members[i]
		switch launched := d.rec.WasCreatedDuringUpgrade(m); {
		case d.rec.IsTerminating(m) || l.IsPreexisting(m):
		case launched && m.Outdated:
			earlier[l.ZoneOf(m.Zone())]++
		case !launched && !m.Outdated:
			known = append(known, m.Name())
		}
	}
	d.bookKeeper().RecountForMovedTarget(known, earlier)
	d.recount()
	d.rec.Total = d.countTotal()
}

// countTotal counts the nodes that are replaced, in flight, quarantined, and not yet started.
func (d *decision) countTotal() int {
	started := record.CountNodes(&d.rec, func(n record.NodeRecord) bool { return !n.Added && n.State != record.NodeDrained })
	return d.rec.Replaced + len(d.count.pending) + started
}
