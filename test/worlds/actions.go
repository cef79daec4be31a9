package worlds

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	provider "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// checkAction checks one action against the rules. w is what the process saw when it decided.
func (r *rules) checkAction(p *process, w *upgrade.World, step *upgrade.Step, action nodegroup.Action) {
	stored := &p.stored.record
	resumed := w.Record.PausedBy != "" && step.Record.Stopping == "" && w.Asked.Verb != record.VerbPause
	if (w.Record.Stopping != "" && !resumed) || w.Stop {
		switch action.(type) {
		case nodegroup.AddCapacity, nodegroup.SetRevision:
			if step.Record.Stopping != record.Aborted { // an abort repeats unanswered launches, and sets the earlier revision again
				r.fail("stop", "%s is begun after the upgrade began to stop", action)
			}
		case nodemark.Fence, nodemark.HoldNode, nodemark.StartDrain, schedule.Eviction, schedule.Restart, schedule.Deletion, nodegroup.Quiesce, nodegroup.RaiseMax:
			r.fail("stop", "%s is begun after the upgrade began to stop", action)
		}
	}
	switch a := action.(type) {
	case nodemark.Fence:
		r.checkFence(w, step, a)
	case nodemark.Unfence:
		r.checkUnfence(w, step, a)
	case nodemark.StartDrain:
		r.checkNodeStarted(w, stored, a.Node, a)
		r.checkEnoughServing(&step.Record)
	case schedule.Eviction:
		r.checkEviction(p, w, stored, a)
	case schedule.Restart:
		r.checkRestart(p, w, step, a)
	case schedule.Deletion:
		if pod := r.checkPodAction(w, stored, a.Node, string(a.UID), a); pod != nil {
			n := stored.Nodes[a.Node]
			if isDeletingBlue(stored) {
				r.checkGraceUpToAnHour(pod, a)
			} else if n.State != record.NodeForcing || w.Now.Before(n.Deadline) || stored.Request.OnTimeout != record.Force {
				r.fail("E43", "pod %s is deleted on node %s, which is %q until %s", a.Pod, a.Node, n.State, n.Deadline)
			}
		}
	case nodegroup.Terminate:
		r.checkTermination(w, step, stored, a)
		r.checkEnoughServing(&step.Record)
	case nodemark.DeleteNode:
		if node := r.c.nodes[a.Node]; node != nil && r.c.plan.listsMachines() && r.c.instanceOf(node) != nil {
			r.fail("K08", "the Node object %s is deleted before its machine is gone", a.Node)
		}
	case nodegroup.Resume:
		r.checkZonesEven(p, w, a)
	default:
		r.checkGroupChange(w, stored, action)
	}
}

// checkGroupChange checks I7 for changes of the group: the record contains them before they are requested.
func (r *rules) checkGroupChange(w *upgrade.World, stored *record.Record, action nodegroup.Action) {
	books := stored.Ledger.Books()
	switch a := action.(type) {
	case nodegroup.AddCapacity:
		if !slices.ContainsFunc(books.Zones[a.Zone].Open, func(l ledger.Launch) bool { return l.N == a.N && l.Desired == a.Desired }) {
			r.fail("I7", "%s is not in the ledger", a)
		}
	case nodegroup.RaiseMax:
		if books.MaxTo != a.Max || books.MaxFrom > a.From {
			r.fail("I7", "%s, but the ledger has a raise from %d to %d", a, books.MaxFrom, books.MaxTo)
		}
	case nodegroup.LowerMax:
		if a.Max < w.Group.Desired || a.Max < books.MaxFrom || a.From != books.MaxTo {
			r.fail("E61", "%s, with a desired size of %d and a raise from %d to %d", a, w.Group.Desired, books.MaxFrom, books.MaxTo)
		}
	case nodegroup.Quiesce:
		for _, process := range a.Processes {
			if !slices.Contains(stored.Suspended, process) || slices.Contains(w.Group.Suspended, process) {
				r.fail("I7", "%s is suspended, and the record has %v", process, stored.Suspended)
			}
		}
	case nodegroup.SetRevision:
		to := stored.Target.ID
		if a.To.ID == madeUp {
			if !a.Recorded {
				r.fail("S36", "%s, but only the record contains this revision", a)
			}
			return
		}
		if stored.Stopping == record.Aborted {
			to = r.ownerRevision
		}
		if stored.Previous.ID == "" || a.To.ID != to {
			r.fail("I7", "%s, with %q as the target and %q as the revision before", a, stored.Target.ID, stored.Previous.ID)
		}
	}
}

// checkFence checks I6 and E24–E30: only outdated nodes are fenced, and only once the whole surge can take pods.
func (r *rules) checkFence(w *upgrade.World, step *upgrade.Step, a nodemark.Fence) {
	m := memberNamed(w, a.Node)
	if m == nil || !m.Outdated {
		r.fail("I6", "current node %s is fenced", a.Node)
		return
	}
	if strings.HasPrefix(a.Node, "new-") && m.Instance.Revision.ID == step.Record.Target.ID && r.run == "r1" {
		r.fail("E33", "new node %s is fenced, because it has no labels", a.Node)
	}
	if m.Node.Annotations[nodemark.AnnotationRun] == step.Record.Run && !m.Node.Spec.Unschedulable {
		r.fail("pause", "node %s is fenced again after an admin uncordoned it", a.Node)
	}
	if p := step.Record.Phase; p != record.PhaseScaleUp && p != record.PhaseUpgrade && p != record.PhaseCordonBlue && p != record.PhaseWait && p != record.PhaseDrainBlue && p != record.PhaseDeleteBlue {
		r.fail("I10", "node %s is fenced in phase %q", a.Node, step.Record.Phase)
	}
	if !r.undisturbed || (step.Record.Phase != record.PhaseScaleUp && step.Record.Phase != record.PhaseCordonBlue) {
		return
	}
	want, usable, books := 0, map[string]int{}, step.Record.Ledger.Books()
	for zone, z := range books.Zones {
		want += z.Surge
		usable[zone] = 0
	}
	most := min(step.Record.Request.Surge, step.Record.Total)
	if r.c.plan.zonesTakeTurns() {
		most = min(most, countOutdatedIn(w, step.Record.Turn))
	}
	if want != most {
		r.fail("E21", "the surge is %d, want %d", want, most)
	}
	fit := 0
	for i := range w.Members {
		m := &w.Members[i]
		if m.Node != nil && !m.Outdated && m.Instance.State == nodegroup.InstanceInService && isNodeReady(m.Node) && !slices.Contains(books.Known, m.Name()) {
			fit++
		}
	}
	if fit < want && !r.c.plan.Spot && step.Record.Replaced+len(step.Record.Nodes) == 0 {
		r.fail("E26", "node %s is fenced with %d of %d new nodes ready", a.Node, fit, want)
	}
}

func (r *rules) checkUnfence(w *upgrade.World, step *upgrade.Step, a nodemark.Unfence) {
	m := memberNamed(w, a.Node)
	if m == nil || m.Node == nil || m.Node.Annotations[nodemark.AnnotationRun] == "" {
		r.fail("I4", "node %s is unfenced, but the upgrade did not fence it", a.Node)
		return
	}
	if _, started := step.Record.Nodes[a.Node]; started && m.Outdated && m.Node.Spec.Unschedulable {
		r.fail("stop", "node %s was started, and is unfenced", a.Node)
	}
}

// checkNodeStarted checks I6 and I7 for an action on a node: the node is outdated, and its start is in the record. It returns the
// node's member, or nil if the node is not outdated.
func (r *rules) checkNodeStarted(w *upgrade.World, stored *record.Record, name string, action nodegroup.Action) *nodegroup.Member {
	m := memberNamed(w, name)
	if m == nil || m.Node == nil || !m.Outdated {
		r.fail("I6", "%s: node %s is not outdated", action, name)
		return nil
	}
	n, ok := stored.Nodes[name]
	if !ok {
		n, ok = stored.Nodes[m.Instance.ID]
	}
	if _, start := action.(nodemark.StartDrain); start && n.State == record.NodeDrained {
		return m // the node was empty from the start
	}
	if !ok || n.State == record.NodeQuarantined || n.State == record.NodeDrained {
		r.fail("I7", "%s: node %s is %q in the record", action, name, n.State)
	}
	return m
}

// checkPodAction checks I3 and E47: a pod is evicted or deleted only by its UID, and only from its own node. That node is fenced and
// being drained. It returns the pod, or nil if the pod is not on the node.
func (r *rules) checkPodAction(w *upgrade.World, stored *record.Record, node, uid string, action nodegroup.Action) *corev1.Pod {
	m := r.checkNodeStarted(w, stored, node, action)
	if m == nil {
		return nil
	}
	i := slices.IndexFunc(m.Pods, func(p *corev1.Pod) bool { return string(p.UID) == uid })
	switch {
	case i < 0:
		r.fail("I3", "%s: the pod is not on node %s", action, node)
		return nil
	case m.Pods[i].DeletionTimestamp != nil || !mustLeave(m.Pods[i], false):
		r.fail("I3", "%s: the pod is leaving or may stay", action)
	case !m.Node.Spec.Unschedulable || !slices.ContainsFunc(m.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == fenceTaint(r.c.plan.Provider).Key }):
		r.fail("E47", "%s: node %s is not fenced", action, node)
	}
	return m.Pods[i]
}

// checkEviction checks I5: an eviction is sent only if the budgets that the process saw allow it, and not before the budget was
// charged for the previous eviction.
func (r *rules) checkEviction(p *process, w *upgrade.World, stored *record.Record, a schedule.Eviction) {
	pod := r.checkPodAction(w, stored, a.Node, string(a.UID), a)
	if pod == nil {
		return
	}
	r.noteEvictedPod(memberNamed(w, a.Node).Node.UID, pod)
	r.checkEvictionOrder(w, pod, a.Node, a)
	r.checkFencedFirst(w, stored, a)
	r.checkNotMoving(p, w, stored, pod, a)
	if len(pod.OwnerReferences) == 0 && !stored.Request.EvictUnmanaged {
		r.fail("unmanaged", "%s, but no controller replaces the pod", a)
	}
	if isProtected(pod) && isLeftToEnd(stored, pod) {
		r.fail("POD008", "%s, but the pod's annotation forbids a disruption", a)
	}
	spends, err := answerEviction(pod, p.seen.budgets, w.EndingNamespaces[namespace])
	if err != nil && w.Now.Equal(r.c.now) { // in other worlds, the process may have seen more while it stored the record
		r.fail("I5", "%s, but the API server would refuse it: %v", a, err)
	}
	if budget := p.seen.budgets[spends]; budget != nil && !stored.Request.NoImplicitBudgets && w.Now.Equal(r.c.now) {
		st := budget.Status
		if shaky := countShaky(p.seen.pods, budget, pod, w.Now); shaky > 0 && st.CurrentHealthy-shaky <= st.DesiredHealthy {
			r.fail("I5", "%s: the budget needs %d pods and counts %d, and %d of these were restarted and have just become ready", a, st.DesiredHealthy, st.CurrentHealthy, shaky)
		}
	}
	r.checkEvictionRate(p, w.Now, a, spends)
}

// countShaky counts the budget's pods that may crash again, except the evicted pod; see isShaky.
func countShaky(pods map[types.UID]*corev1.Pod, budget *policyv1.PodDisruptionBudget, leaver *corev1.Pod, now time.Time) (n int32) {
	for uid, pod := range pods {
		if uid != leaver.UID && budgetCovers(budget, pod) && isPodReady(pod) && pod.DeletionTimestamp == nil && isShaky(pod, now) {
			n++
		}
	}
	return n
}

// hasCrashedUnderSameBudget reports whether a pod that shares a budget with the evicted pod crashed within the last second. The budget
// may not have noticed that yet.
func (c *cluster) hasCrashedUnderSameBudget(leaver types.UID) bool {
	left := c.pods[leaver]
	if left == nil {
		return false
	}
	for _, pdb := range c.budgets {
		if !budgetCovers(pdb, left) {
			continue
		}
		for _, pod := range c.pods {
			if budgetCovers(pdb, pod) && (isCrashing(pod) || c.brieflyUnready[pod.UID]) && c.now.Sub(pod.Status.Conditions[0].LastTransitionTime.Time) < time.Second {
				return true
			}
		}
	}
	return false
}

// checkTermination checks I2: a machine is terminated only after all pods that must leave have left its node. A forced node may still
// have pods if its record gives the reason. The node must have been empty for the settle time (E44), and its annotations must show the
// drain.
func (r *rules) checkTermination(w *upgrade.World, step *upgrade.Step, stored *record.Record, a nodegroup.Terminate) {
	var m *nodegroup.Member
	if i := slices.IndexFunc(w.Members, func(m nodegroup.Member) bool { return m.Instance.ID == a.Instance }); i >= 0 {
		m = &w.Members[i]
	}
	r.checkOwnMachine(a)
	n, ok := stored.Nodes[a.Node]
	if m == nil || !ok || n.State != record.NodeRemoving || n.Shrink != a.Shrink || n.Instance != a.Instance {
		r.fail("I7", "%s: the record has %+v", a, n)
		return
	}
	if m.Instance.Protected && m.Outdated && w.Record.Nodes[a.Node].State != record.NodeRemoving {
		r.fail("protection", "node %s is removed, and its instance was seen to be protected", a.Node)
	}
	again := step.Record.Stopping == "" && !n.Terminated.Equal(w.Now)
	var left []*corev1.Pod
	for _, pod := range m.Pods {
		if mustLeave(pod, isSilent(m.Node, w.Now)) {
			left = append(left, pod)
		}
	}
	switch {
	case !m.Outdated && len(left) > 0:
		r.fail("I6", "current node %s is removed with pod %s on it", a.Node, left[0].Name)
	case m.Outdated && step.Record.Stopping == record.Aborted:
		r.fail("abort", "node %s, which is none of the new ones, is removed", a.Node)
	case !m.Outdated && step.Record.Stopping != record.NodeCreationFailure && step.Record.Stopping != record.Aborted && !r.c.plan.hasActor(TargetMoves):
		r.fail("I6", "current node %s is removed", a.Node)
	case len(left) > 0 && n.Reason == "" && !again:
		r.fail("I2", "node %s is removed with pod %s on it", a.Node, left[0].Name)
	case len(left) > 0 && !again:
		r.checkGraceOver(w, m, n, left)
	case len(left) == 0 && n.Reason == "" && m.Outdated && m.Node != nil && step.Record.Stopping == "" && !again:
		r.checkSettled(w, stored, m, n)
		r.checkTargetsGone(w, m)
	}
}

// checkSettled checks E44 and E45: the upgrade waits for the settle time, counted from when the node was really empty. It also waits
// until the node's volumes are detached.
func (r *rules) checkSettled(w *upgrade.World, stored *record.Record, m *nodegroup.Member, n record.NodeRecord) {
	since := n.Began
	if at := r.c.emptied[m.Node.Name]; at.After(since) && isNodeReady(m.Node) {
		since = at
	}
	kept := !r.c.plan.hasActor(NodeSilent) // drains do not wait for pods of a silent node, so these pods may end later
	if rested := w.Now.Sub(since); kept && rested < stored.Request.Settle.Duration {
		r.fail("E44", "node %s is removed %s after it was empty, want %s", m.Name(), rested, stored.Request.Settle)
	}
	if m.Node.Annotations[nodemark.AnnotationDeadline] == "" || m.Node.Labels[corev1.LabelNodeExcludeBalancers] == "" {
		r.fail("E46", "node %s is removed and was not taken out of the load balancers", m.Name())
	}
	staying := slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool { return len(p.Spec.Volumes) > 0 })
	if len(m.Node.Status.VolumesAttached) > 0 && !staying && w.Now.Sub(since) < 6*time.Minute {
		r.fail("detach", "node %s is removed with volumes attached", m.Name())
	}
}

// checkEnoughServing checks I1 for serving nodes: at most MaxUnavailable fewer nodes serve than before the upgrade.
func (r *rules) checkEnoughServing(record *record.Record) {
	if (!r.c.plan.hasSize() && !record.Request.WaitReplacement) || r.c.plan.Spot || r.c.plan.isAutoscaled() {
		return // new Spot nodes are not waited for (GKE G23)
	}
	if serving := r.countServing(*record); serving < r.servingBefore-record.Request.MaxUnavailable {
		r.fail("I1", "%d nodes serve, of %d, with %d allowed to be unavailable", serving, r.servingBefore, record.Request.MaxUnavailable)
	}
}

// checkResult checks the result of an action against the rules.
func (r *rules) checkResult(p *process, action nodegroup.Action, err error) {
	switch a := action.(type) {
	case schedule.Eviction:
		steady := r.undisturbed && p.request.OnTimeout != record.Force // deletions past a budget show in it later
		if steady && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) && !r.c.hasCrashedUnderSameBudget(a.UID) {
			r.fail("I5", "%s is refused: %v", a, err)
		}
		if err == nil {
			r.checkMovesOnce(a)
		}
	case schedule.Restart:
		if p.dead && err == nil {
			r.tally.count("move", orphaned)
		}
	case nodegroup.Terminate:
		var refused *provider.Error
		if r.undisturbed && errors.As(err, &refused) && refused.Outcome == nodegroup.OutcomeExhausted {
			r.fail("minimum", "%s is refused: %v", a, err)
		}
		r.zonesChanged = r.zonesChanged || !a.Shrink // the group replaces it in a zone of its choice
		if r.c.cloud.shrunk[a.Instance] > 1 {
			r.fail("I10", "instance %s is terminated with shrinking %d times", a.Instance, r.c.cloud.shrunk[a.Instance])
		}
	}
	if record := &p.stored.record; record.Run != "" && !r.c.plan.isDelegated() {
		r.checkSize(record)
	}
}

// checkMovesOnce checks E62: no pod moves twice. Pods of a StatefulSet are recognized by their names, which stay the same. The only
// pod of a Deployment is recognized without a name.
func (r *rules) checkMovesOnce(a schedule.Eviction) {
	app, _, _ := strings.Cut(a.Pod, "-")
	m := r.c.controllers[app]
	switch {
	case m == nil:
	case m.Kind == StatefulSet:
		r.checkMoveCount(m, a.Pod)
	case m.deployment != nil && m.Replicas == 1:
		r.noteOnlyPodMoved(m, a.UID)
	}
}

func (r *rules) checkMoveCount(m *controller, pod string) {
	if !r.undisturbed || m.Tolerant {
		return
	}
	if r.moveCounts[pod]++; r.moveCounts[pod] > 1 {
		r.fail("E62", "pod %s is moved twice", pod)
	}
}

func memberNamed(w *upgrade.World, name string) *nodegroup.Member {
	for i := range w.Members {
		if w.Members[i].Name() == name {
			return &w.Members[i]
		}
	}
	return nil
}
