package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// maxDrainedTogether limits how many nodes are drained together. maxBudgetTime limits how long a drain respects
	// budgets. maxDrainGrace limits the grace period of the pods (GKE G75).
	maxDrainedTogether = 20
	maxBudgetTime      = time.Hour
	maxDrainGrace      = 24 * time.Hour
	// defaultWait is how long the upgrade waits before it drains outdated nodes (GKE G71).
	defaultWait = 3 * 24 * time.Hour
)

// autoscaledStrategy returns GKE's autoscaled blue-green upgrade inside one group. It adds no nodes: an autoscaler
// brings up new ones for Pending pods (GKE G70). It has no soak (GKE G76) and no rollback (GKE G78).
func autoscaledStrategy() strategy {
	verbs := []record.Verb{record.VerbPause, record.VerbAbort}
	return strategy{
		begin: func(*decision) {},
		check: checkAutoscaled, refuseOwnFlags: refuseWaitFlag, resolve: resolveAutoscaled, describe: describeAutoscaled,
		phases: []phase{
			{
				name: record.PhaseSetup, beforeDrains: true, suspendsScaling: true, waitsFor: "room for new nodes", verbs: verbs,
				run: func(d *decision) bool { return d.setUpGroup() && d.raiseMaximumOnce() },
			},
			{
				name: record.PhaseCordonBlue, keepsAllOnStop: true, suspendsScaling: true, stopsOnGroupChange: true, waitsFor: "the fence", verbs: verbs,
				run: (*decision).cordonBlue,
			},
			{
				name: record.PhaseWait, keepsAllOnStop: true, suspendsScaling: true, stopsOnGroupChange: true, hasWorkInWait: true, waitsFor: "the wait before the drain", waitsUntil: "it waits with the drain", verbs: verbs,
				run: (*decision).waitBeforeDrain, onEmpty: (*decision).terminateNode,
			},
			{
				name: record.PhaseDrainBlue, keepsAllOnStop: true, suspendsScaling: true, stopsOnGroupChange: true, held: outdatedHeld, maxGrace: maxDrainGrace, capsEvictedGrace: true, verbs: verbs, // GKE G81
				run: (*decision).drainRemaining, onEmpty: (*decision).terminateNode, onTimeout: (*decision).giveUpNode,
			},
			{
				name: record.PhaseDeleteBlue, keepsAllOnStop: true, stopsOnGroupChange: true, held: outdatedHeld, maxGrace: maxDrainGrace, capsEvictedGrace: true, verbs: []record.Verb{record.VerbAbort},
				run: (*decision).removeRemaining, onEmpty: (*decision).terminateNode, onTimeout: (*decision).giveUpNode,
			},
			{
				name: record.PhaseScaleDown, givesBackSurge: true, verbs: []record.Verb{record.VerbAbort},
				run: (*decision).scaleDownGroup,
			},
		},
		stop: (*decision).stopBlueGreen,
		undo: (*decision).undoUpgrade,
	}
}

// refuseWaitFlag returns an error for the flag of the wait before the drain, if it was given with another strategy.
func refuseWaitFlag(s *Settings) error {
	if s.WaitForDrain == nil {
		return nil
	}
	return fmt.Errorf("--wait-for-drain: only --strategy=%s waits before it drains: use that strategy, or remove the flag", record.AutoscaledBlueGreen)
}

// checkAutoscaled returns an error for settings that make no sense with the strategy (GKE G71), or that it does not
// use.
func checkAutoscaled(s *Settings) error {
	switch {
	case s.WaitForDrain != nil && (*s.WaitForDrain < 0 || *s.WaitForDrain > maxSoak):
		return fmt.Errorf("--wait-for-drain=%s: use a time from 0 to %s", s.WaitForDrain, maxSoak)
	case s.MaxSurge != nil || s.MaxUnavailable != nil || s.BatchBarrier:
		return fmt.Errorf("--max-surge, --max-unavailable and --batch-barrier: --strategy=%s adds no node and drains up to %d nodes at a time: remove the flags", record.AutoscaledBlueGreen, maxDrainedTogether)
	case s.OnTimeout != "" && s.OnTimeout != record.Force:
		return fmt.Errorf("--on-timeout=%s: --strategy=%s deletes the pods that are left when a node's drain time is over: remove the flag", s.OnTimeout, record.AutoscaledBlueGreen)
	}
	return nil
}

// resolveAutoscaled completes the request with GKE's numbers for how many nodes are drained at once, and for how long.
func resolveAutoscaled(s Settings, req record.Request, group *nodegroup.Group, _, outdated int) (record.Request, error) {
	req.DrainTimeout, req.OnTimeout = record.Duration{Duration: valueOrDefault(s.DrainTimeout, maxBudgetTime)}, record.Force
	req.WaitForDrain, req.Window = record.Duration{Duration: valueOrDefault(s.WaitForDrain, defaultWait)}, maxDrainedTogether
	req.To = cmp.Or(s.To, group.Wanted.Target()) // the template may change during the wait
	return req, checkGroupAutoscaled(group, &req, outdated)
}

// describeAutoscaled returns the line of a plan.
func describeAutoscaled(r *record.Request, _ string) string {
	return fmt.Sprintf("%s: all outdated nodes are fenced; for %s only idle ones are removed; then at most %d nodes are drained at a time; %s to drain each, then its pods are deleted; an autoscaler adds new nodes",
		r.Strategy, formatLimit(r.WaitForDrain.Duration), r.Window, formatLimit(r.DrainTimeout.Duration))
}

// checkGroupAutoscaled returns an error if no autoscaler is known to serve the group (GKE G80), or if the group has no room
// for new nodes.
func checkGroupAutoscaled(group *nodegroup.Group, r *record.Request, outdated int) error {
	room := group.Max - group.Desired
	switch {
	case !group.Can.Resize || !group.Can.Bounds:
		return fmt.Errorf("--strategy=%s: groups of provider %s have no size that an autoscaler could change: use %s", record.AutoscaledBlueGreen, group.Provider, record.Surge)
	case !group.Autoscaler.Serves:
		return fmt.Errorf("--strategy=%s: no sign of an autoscaler for group %q was found: %s: set one up, or use %s",
			record.AutoscaledBlueGreen, group.Name, cmp.Or(group.Autoscaler.Missing, "none is known"), record.BlueGreen)
	case r.KeepMax && room < outdated:
		return fmt.Errorf("--keep-max: group %q has room for %d new nodes and may need %d, one for each outdated node: remove --keep-max", group.Name, max(0, room), outdated)
	}
	return nil
}

// raiseMaximumOnce raises the group's maximum by one node for each outdated node, so that the autoscaler can add
// replacements (GKE G77).
func (d *decision) raiseMaximumOnce() (done bool) {
	return d.applyDecision(d.bookKeeper().RaiseMaximumOnce(d.countOutdated()))
}

// waitBeforeDrain gives pods time to leave the outdated nodes on their own, counted from the fence (GKE G71, G82). During
// the wait it removes nodes without pods. It ends early if no outdated node is left (GKE G72, G74).
func (d *decision) waitBeforeDrain() (done bool) {
	d.countReplaced()
	d.fencing = !d.fenceOutdatedNodes()
	if d.rec.Stopping != "" || !d.setRevision() || !d.suspendProcesses() || !d.raiseMaximumOnce() {
		return false
	}
	over := d.soakFor(d.rec.Request.WaitForDrain.Duration)
	if !over {
		d.releaseAllHolds() // autoscalers may remove outdated nodes, too
		d.removeIdleNodes()
	}
	switch {
	case d.fencing:
	case over || d.awaitOutdatedGone():
		d.endSoak()
		return true
	case d.pausing && d.awaitRemovals():
		d.pauseSoak()
	}
	return false
}

// removeIdleNodes removes outdated nodes without pods while the group may shrink: unlike GKE (G73), it keeps the
// group's minimum. A started node that is no longer idle is left alone again.
func (d *decision) removeIdleNodes() {
	for _, name := range d.rec.StartedNames() {
		n, m := d.rec.Nodes[name], d.count.byName[name]
		if record.IsInDrain(n.State) && m != nil && (d.pausing || !d.isIdle(m)) {
			d.returnToPending(name, m)
			continue
		}
		d.advanceNode(name)
	}
	for _, m := range slices.Clone(d.count.pending) {
		if d.rec.Stopping == "" && !d.pausing && d.rec.CountInFlight() < maxDrainedTogether && d.isIdle(m) {
			d.recordNodeStart(m)
			d.advanceNode(m.Name())
		}
	}
}

// returnToPending forgets that the node was started. The node is pending again, unless another process terminates its
// machine.
func (d *decision) returnToPending(name string, m *nodegroup.Member) {
	delete(d.rec.Nodes, name)
	if m.Instance.State != nodegroup.InstanceLeaving {
		d.count.pending = append(d.count.pending, m)
	}
}

// isIdle reports whether an outdated node may be removed without a drain. No pod on it has to leave, no pod is protected
// from autoscalers (GKE G72), and the group is above its minimum.
func (d *decision) isIdle(m *nodegroup.Member) bool {
	if m.Node == nil || m.Instance.State != nodegroup.InstanceInService || !d.isFencedByRun(m) || d.classifyPodsOf(m).countPodsLeft() > 0 {
		return false
	}
	return d.bookKeeper().CanShrinkGroup() && !slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return drain.Protection(pod) != "" })
}

// drainRemaining drains the remaining outdated nodes and removes each when it is empty. Pods that are left when the
// node's drain timeout ends are deleted (GKE G75).
func (d *decision) drainRemaining() (done bool) {
	d.countReplaced()
	if !d.setRevision() || !d.suspendProcesses() || !d.raiseMaximumOnce() {
		return false
	}
	d.continueDrains()
	switch {
	case d.rec.Stopping != "" || d.fencing:
		return false
	case d.pausing:
		d.pauseWhenIdle()
	default:
		d.startDrains()
	}
	return d.rec.Stopping == "" && len(d.count.pending) == 0 && d.rec.NoneInState(record.NodeDraining, record.NodeForcing, record.NodeEmpty)
}

// startDrains starts nodes while fewer than the window are in flight.
func (d *decision) startDrains() {
	for d.rec.CountInFlight() < d.rec.Request.Window {
		m := d.chooseNextNode()
		if m == nil || d.deferForRecord(m) {
			return
		}
		d.startNode(m)
	}
}

// removeRemaining drains and removes all outdated nodes, including nodes that joined late.
func (d *decision) removeRemaining() (done bool) {
	if d.plan == nil && !d.drainRemaining() { // a plan means that the drain ended in this step
		return false
	}
	return d.awaitOutdatedGone()
}

// awaitOutdatedGone waits until no outdated node is left. Only the autoscaler adds new nodes, so pods may still be Pending
// (GKE G79).
func (d *decision) awaitOutdatedGone() (gone bool) {
	return len(d.count.pending) == 0 && d.rec.NoneInState(record.NodeDraining, record.NodeForcing, record.NodeEmpty) && d.awaitRemovals() && d.awaitWorkloads()
}

// countReplaced also counts the outdated nodes that autoscalers removed as replaced.
func (d *decision) countReplaced() {
	started := record.CountNodes(&d.rec, func(n record.NodeRecord) bool { return n.State != record.NodeDrained })
	d.rec.Replaced = max(d.rec.Replaced, d.rec.Total-len(d.count.pending)-started)
}
