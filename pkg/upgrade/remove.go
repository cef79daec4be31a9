package upgrade

import (
	"cmp"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// nodeObjectGrace is how long a Node object may exist after its machine is gone before it is deleted.
const nodeObjectGrace = time.Minute

// terminateNode decides how a drained node's machine is terminated, and records it in the ledger before the request is
// sent.
func (d *decision) terminateNode(name string, n record.NodeRecord, m *nodegroup.Member) {
	zone := d.rec.Ledger.ZoneOf(m.Zone())
	if d.bookKeeper().MustAwaitLaunch(zone) {
		d.pollCloudSoon("the answer to a launch")
		return
	}
	if m.Instance.ID == "" {
		n.State = record.NodeDrained
		d.rec.Replaced++
	} else {
		n.State, n.Terminated, n.Shrink = record.NodeRemoving, d.w.Now, d.bookKeeper().ShouldShrink(zone)
		n.Instance = m.Instance.ID
	}
	n.Zone, n.Addresses, n.Earlier = zone, nil, d.rec.Ledger.HasEarlier(zone) && d.rec.WasCreatedDuringUpgrade(m)
	d.rec.Ledger.BookRemoval(zone, n.Shrink && !d.rec.Request.IsFilledByAutoscaler(), n.Earlier, d.w.Now)
	d.count.Left[zone]--
	d.rec.Nodes[name] = n
	if n.State == record.NodeRemoving {
		d.followTermination(name, n, m)
	}
}

// followTermination follows a termination until machine and node are gone. It repeats the request only if the answer
// left its effect open and a later reading shows the instance in service. It terminates the instance that the group
// shows for the member.
func (d *decision) followTermination(name string, n record.NodeRecord, m *nodegroup.Member) {
	d.pollCloudSoon("")
	action := nodegroup.Terminate{Instance: m.Instance.ID, Node: name, Shrink: n.Shrink}
	attempt := d.lastAttempt(action)
	switch {
	case attempt.InFlight:
		d.requested = append(d.requested, action.Key())
	case !n.Landed && d.wasTerminatedByOthers(n, m.Instance.State == nodegroup.InstanceLeaving || m.Instance.ID == ""):
		n = d.undoShrink(n)
		n.Landed = true
		d.rec.Nodes[name] = n
	case !n.Landed && !n.IsGivenBack() && wasShrinkRefused(n, attempt):
		n = d.undoShrink(n)
		d.rec.Nodes[name] = n
		d.requeueNow() // the next step terminates it without shrinking
	case n.Landed, m.Instance.State == nodegroup.InstanceLeaving, m.Instance.ID == "", attempt.Outcome == nodegroup.OutcomeDone:
		d.markTerminationStarted(name, n, attempt)
		d.deleteNodeObject(n, m)
	case n.Terminated.Equal(d.w.Now):
		d.addAction(action) // decided in this step, by the pods that the node has now
	case d.hadTerminationNoEffect(n, attempt, m) && (n.IsGivenBack() || d.isDrained(n, m)):
		d.addAction(action)
	case attempt.Outcome == nodegroup.OutcomeLater || d.isStillInService(attempt, m, n.Terminated):
		d.undoTermination(name, n) // the node does not show the drain that is on record, so it is drained first
		d.requeueNow()
	default:
		d.outstanding = true // the next readings will show it
	}
}

// revertUndrainedTerminations removes terminations from the ledger that certainly did not happen, if the node must be drained again
// first or the machine has no node.
func (d *decision) revertUndrainedTerminations() {
	for _, name := range d.rec.StartedNames() {
		n, m := d.rec.Nodes[name], d.count.byName[name]
		if m == nil || n.State != record.NodeRemoving || n.Landed || n.IsGivenBack() || (m.Node != nil && d.isDrained(n, m)) {
			continue
		}
		attempt := d.lastAttempt(nodegroup.Terminate{Instance: m.Instance.ID})
		if !attempt.InFlight && (attempt.Outcome == nodegroup.OutcomeLater || d.isStillInService(attempt, m, n.Terminated)) {
			d.undoTermination(name, n)
		}
	}
}

// isDrained reports whether the node itself shows that this run drained it, because others can write records. The node
// must have the fence, whose taint no kubelet may write, and the deadline of the drain. It must have no pods, except
// those that the record says it is terminated with. A node that joined after its instance was started must only have no
// pods.
func (d *decision) isDrained(n record.NodeRecord, m *nodegroup.Member) bool {
	if m.Node == nil {
		return true
	}
	empty := d.classifyPodsOf(m).countPodsLeft() == 0
	if n.UID == "" {
		return empty
	}
	return d.isFencedByRun(m) && m.Node.Annotations[nodemark.AnnotationDeadline] == nodemark.FormatTime(n.Deadline) && (empty || n.Reason != "")
}

// markTerminationStarted records that the cloud has begun the termination that the upgrade requested.
func (d *decision) markTerminationStarted(name string, n record.NodeRecord, attempt nodegroup.Attempt) {
	if n.Landed {
		return
	}
	n.Landed = true
	d.rec.Ledger.NoteSizeChange(cmp.Or(attempt.Ended, d.w.Now))
	d.rec.Nodes[name] = n
}

// wasTerminatedByOthers reports whether another process terminated the instance: the instance was gone when the upgrade's
// request arrived, or it is leaving although the last request is known to have had no effect. Earlier requests had no
// effect either, or the last one would not have been sent.
func (d *decision) wasTerminatedByOthers(n record.NodeRecord, leaving bool) bool {
	attempt := d.lastAttempt(nodegroup.Terminate{Instance: n.Instance})
	return attempt.Outcome == nodegroup.OutcomeMoved || (leaving && attempt.Outcome == nodegroup.OutcomeLater && !attempt.InFlight)
}

// resolveTerminator records who terminated the machine of a node that is gone, and reports whether that is known. It is
// not known while the answer to a termination is pending.
func (d *decision) resolveTerminator(n record.NodeRecord) (known bool) {
	if n.State != record.NodeRemoving || n.Landed {
		return true
	}
	if d.lastAttempt(nodegroup.Terminate{Instance: n.Instance}).InFlight {
		return false
	}
	if d.wasTerminatedByOthers(n, true) {
		d.undoShrink(n)
	}
	return true
}

// wasShrinkRefused reports whether the termination was refused because the group is at its minimum size. Such a request
// had no effect.
func wasShrinkRefused(n record.NodeRecord, attempt nodegroup.Attempt) bool {
	sent, _ := attempt.Action.(nodegroup.Terminate)
	return n.Shrink && sent.Shrink && attempt.Outcome == nodegroup.OutcomeExhausted
}

// undoShrink removes the shrinking from the ledger if the termination did not shrink the group after all.
func (d *decision) undoShrink(n record.NodeRecord) record.NodeRecord {
	if n.Shrink && !d.rec.Request.IsFilledByAutoscaler() {
		d.rec.Ledger.UnbookShrink(n.Zone)
	}
	n.Shrink = false
	return n
}

// hadTerminationNoEffect reports whether the termination certainly did not happen, so that repeating the request cannot shrink the
// group twice.
func (d *decision) hadTerminationNoEffect(n record.NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	return attempt.Outcome == nodegroup.OutcomeLater || !n.Shrink || d.isStillInService(attempt, m, n.Terminated)
}

// isStillInService reports whether the group's newest reading proves that a termination did not happen: it is new enough
// and shows the instance in service. unknown is the latest time of the request if no attempt is known.
func (d *decision) isStillInService(attempt nodegroup.Attempt, m *nodegroup.Member, unknown time.Time) bool {
	asked := attempt.Ended
	if attempt.Begun.IsZero() {
		asked = unknown
	}
	return m.Instance.State == nodegroup.InstanceInService && d.w.Group.IsFreshAfter(asked)
}

// deleteNodeObject deletes a Node object that outlived its machine, never before the machine is gone (Kubernetes K08).
func (d *decision) deleteNodeObject(n record.NodeRecord, m *nodegroup.Member) {
	if m.Node == nil || m.Instance.ID != "" {
		return
	}
	end := n.Terminated.Add(nodeObjectGrace)
	if d.w.Now.Before(end) || nodegroup.IsNodeReady(m.Node) {
		d.requeueAt(end)
		return
	}
	d.addAction(nodemark.DeleteNode{Node: m.Node.Name, UID: m.Node.UID})
}

// isMachineEnding reports whether the machine is known to be terminating or gone.
func isMachineEnding(n record.NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	gone := m.Instance.State == nodegroup.InstanceLeaving || m.Instance.ID == ""
	return n.Landed || gone || attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeMoved
}
