package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ledgerView returns the inputs for decisions about the group's size.
func (d *decision) ledgerView() ledger.View {
	req := &d.rec.Request
	v := ledger.View{
		Now: d.w.Now, Group: &d.w.Group, Open: d.w.Open, Counts: d.count.Counts,
		Limits: ledger.Limits{Surge: req.Surge, MaxUnavailable: req.MaxUnavailable, KeepMax: req.KeepMax, TakesTurns: req.TakesTurns(), Refilled: req.IsFilledByAutoscaler()},
		Run:    d.rec.Run, PhaseBegan: d.rec.PhaseBegan, Before: d.rec.Sizes, Suspended: d.rec.Suspended,
		Quiesce: d.phase.processesToSuspend(&d.w.Group),
	}
	// A reading from before the last change may not show the terminations that landed since. Without an autoscaler, the
	// ledger shows how many nodes the group has.
	unseen := req.IsFilledByAutoscaler() && !d.w.Group.IsFreshAfter(d.rec.Ledger.Changed())
	v.Counts.Shrinking = d.rec.CountShrinks(unseen)
	return v
}

// bookKeeper returns the keeper that decides about the group's size.
func (d *decision) bookKeeper() ledger.Keeper { return d.rec.Ledger.Keeper(d.ledgerView()) }

// applyDecision adds a decision about the group's size to the step, and reports whether it is done. During a stop or an
// abort, permanently refused actions count as done.
func (d *decision) applyDecision(decided ledger.Decision) (done bool) {
	for _, a := range decided.Actions {
		d.addAction(a)
	}
	if decided.Poll {
		d.pollCloudSoon(decided.Waiting)
	}
	d.requeueAt(decided.Wake)
	if d.rec.Stopping != "" && len(decided.Actions) > 0 && !slices.ContainsFunc(decided.Actions, func(a nodegroup.Action) bool { return !d.isRefused(a) }) {
		return true
	}
	return decided.Done
}

// lowerMaximum reverts our raise of the group's maximum, and reports whether that is done.
func (d *decision) lowerMaximum() (done bool) {
	return d.applyDecision(d.bookKeeper().LowerMaximum())
}

// suspendProcesses suspends the provider's processes that would work against the upgrade. It records which of them the
// upgrade suspended, and reports whether all are suspended.
func (d *decision) suspendProcesses() (done bool) {
	ours, decided := ledger.SuspendProcesses(d.ledgerView())
	d.rec.Suspended = ours
	return d.applyDecision(decided)
}

// resumeProcesses resumes the processes that the upgrade suspended, except those that must wait for balanced zones. It
// reports whether that is done.
func (d *decision) resumeProcesses() (done bool) {
	return d.applyDecision(ledger.ResumeProcesses(d.ledgerView()))
}

// describeSuspended returns which processes stay suspended because of unbalanced zones; "" if none does. If the upgrade is over,
// it adds the command that resumes them.
func (d *decision) describeSuspended() string {
	view := d.ledgerView()
	ours := view.HeldSuspended()
	note := d.describeStillSuspended()
	if len(ours) == 0 || d.rec.IsResumable() && d.rec.Stopping != record.Aborted {
		return note // the process that continues the upgrade will resume the suspended processes
	}
	return note + ": when the zones are even, run " + nodegroup.InfoOf(d.w.Group.Provider).ResumeCommand(d.w.Group.Name, ours)
}

// describeStillSuspended returns the same for an upgrade that continues, which resumes the processes itself.
func (d *decision) describeStillSuspended() string {
	view := d.ledgerView()
	ours := view.HeldSuspended()
	if len(ours) == 0 {
		return ""
	}
	stay := "stays"
	if len(ours) > 1 {
		stay = "stay"
	}
	return fmt.Sprintf("%s %s suspended, because the zones are out of balance (%s) and the process would terminate nodes without a drain",
		strings.Join(ours, ", "), stay, formatZoneSizes(d.count.Zones))
}

// countUnavailable returns how many nodes the group is short of, compared with what it would have without the upgrade;
// see ledger.Ledger.CountUnavailable.
func (d *decision) countUnavailable() int {
	return d.countUnavailableExcept(d.rec.CountRemovedInFlight())
}

// countUnavailableExcept is countUnavailable for a given number of removed nodes that do not count as missing.
func (d *decision) countUnavailableExcept(excused int) int {
	switch d.w.Group.Can.Refill {
	case nodegroup.RefillByUser:
		if !d.rec.Request.WaitReplacement {
			return 0
		}
	case nodegroup.RefillByPods:
		return 0 // the number of nodes depends on the pods, and lacking pods are detected anyway
	}
	return d.bookKeeper().CountUnavailable(d.countNotServing(), excused)
}

// countNotServing counts the nodes that a rollback took over and that do not serve yet. They are nodes that the upgrade
// had added, or replacements of nodes that it had removed. Nodes from before the upgrade do not count.
func (d *decision) countNotServing() (n int) {
	carried := d.rec.Ledger.Carried() + d.rec.Ledger.Replaced()
	for i := 0; i < len(d.w.Members) && n < carried; i++ {
		m := &d.w.Members[i]
		_, ending := d.rec.StartedRecord(m)
		if m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !ending && d.isArriving(m) {
			n++
		}
	}
	return n
}

// isArriving reports whether an outdated member may have been carried over before it served: it came up during the
// upgrade, and is not Ready yet or does not take pods yet.
func (d *decision) isArriving(m *nodegroup.Member) bool {
	if !mayBeBooting(&d.rec, m) || !d.rec.IsNewMember(m) {
		return false
	}
	return !m.IsReady() || nodemark.IsCordonedByOthers(m.Node) || !d.w.hasNoClosingTaint(m, &d.rec) || !d.w.hasAllDevices(m, &d.rec)
}
