package worlds

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// checkNodeTime checks E41 and E42: a node is given up only after its drain limit, and only if a pod still has to leave it. Time
// during which the node waits only for other nodes of the run does not count.
func (r *rules) checkNodeTime(p *process, w *upgrade.World, step *upgrade.Step) {
	for _, name := range sortedKeys(step.Record.Nodes) {
		n := step.Record.Nodes[name]
		before, known := w.Record.Nodes[name]
		if !known || before.State != record.NodeDraining || step.Record.Result != "" {
			continue
		}
		m := memberNamed(w, name)
		if m == nil || m.Node == nil || m.Node.UID != n.UID {
			continue
		}
		failed := w.Record.Stopping == "" && step.Record.Stopping == record.PodEvictionFailure && strings.Contains(step.Record.Message, `node "`+name+`"`)
		r.noteWait(p, w, step, m)
		if n.State == record.NodeForcing || n.State == record.NodeQuarantined || (n.State == record.NodeParked && n.Reason != "") || failed {
			r.checkGivenUp(w, m, n)
		}
	}
}

func (r *rules) checkGivenUp(w *upgrade.World, m *nodegroup.Member, n record.NodeRecord) {
	if over := n.Deadline.Add(r.duties.waited[n.UID]); w.Now.Before(over) {
		r.fail("E41", "node %s is given up %s before its time is over", m.Name(), over.Sub(w.Now))
	}
	if !slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return mustLeave(pod, isSilent(m.Node, w.Now)) }) {
		r.fail("E42", "node %s is given up, and no pod has to leave it", m.Name())
	}
}

// noteWait adds up the time during which a node waits only for other nodes of the run.
func (r *rules) noteWait(p *process, w *upgrade.World, step *upgrade.Step, m *nodegroup.Member) {
	uid, now := m.Node.UID, w.Now.Sub(worldStart())
	if !r.isBlockedByOthers(p, w, step, m) {
		delete(r.duties.waitingAt, uid)
		return
	}
	if since, was := r.duties.waitingAt[uid]; was {
		r.duties.waited[uid] += now - since
	}
	r.duties.waitingAt[uid] = now
}

// isBlockedByOthers reports whether all pods that have to leave the node are blocked by budgets that pods of other draining nodes have
// used up.
func (r *rules) isBlockedByOthers(p *process, w *upgrade.World, step *upgrade.Step, m *nodegroup.Member) bool {
	if w.EndingNamespaces[namespace] {
		return false
	}
	waits := false
	for _, pod := range m.Pods {
		if !mustLeave(pod, false) {
			continue
		}
		if _, begun := p.open[schedule.Eviction{UID: pod.UID}.Key()]; begun || isLeftToEnd(&w.Record, pod) || isMoving(step, pod) || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			return false
		}
		pdb := exhaustedBudget(pod, p.seen.budgets)
		if pdb == nil || !hasEarlierLeaver(w, step, m, pdb) {
			return false
		}
		waits = true
	}
	return waits
}

// exhaustedBudget returns the only budget of the pod, if it allows no disruption now although all required pods are healthy. It
// returns nil otherwise.
func exhaustedBudget(pod *corev1.Pod, budgets map[string]*policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	var only *policyv1.PodDisruptionBudget
	for _, pdb := range budgets {
		if budgetCovers(pdb, pod) {
			if only != nil {
				return nil
			}
			only = pdb
		}
	}
	if only == nil || !isPodReady(pod) {
		return nil
	}
	st := &only.Status
	if st.ObservedGeneration < only.Generation || st.DisruptionsAllowed > 0 || st.CurrentHealthy < st.DesiredHealthy || st.CurrentHealthy == 0 || st.DesiredHealthy >= st.ExpectedPods {
		return nil
	}
	return only
}

// hasEarlierLeaver reports whether one of the budget's pods has to leave another draining node that was started before this one.
func hasEarlierLeaver(w *upgrade.World, step *upgrade.Step, m *nodegroup.Member, pdb *policyv1.PodDisruptionBudget) bool {
	mine := step.Record.Nodes[m.Name()]
	for name, n := range step.Record.Nodes {
		earlier := cmp.Or(n.Began.Compare(mine.Began), strings.Compare(name, m.Name())) < 0
		if n.State != record.NodeDraining || !earlier {
			continue
		}
		other := memberNamed(w, name)
		if other == nil || other.Node == nil || other.Node.UID != n.UID || other.Instance.State == nodegroup.InstanceLeaving {
			continue // another process terminates the node, so the upgrade no longer drains it
		}
		lost := isSilent(other.Node, w.Now)
		if slices.ContainsFunc(other.Pods, func(pod *corev1.Pod) bool {
			return mustLeave(pod, lost) && !isLeftToEnd(&w.Record, pod) && budgetCovers(pdb, pod) && len(pod.OwnerReferences) > 0
		}) {
			return true
		}
	}
	return false
}

// checkGraceOver checks E43: the pods that are left on a forced node were deleted after its drain limit, and their grace periods are
// over.
func (r *rules) checkGraceOver(w *upgrade.World, m *nodegroup.Member, n record.NodeRecord, left []*corev1.Pod) {
	for _, pod := range left {
		switch {
		case pod.DeletionTimestamp == nil && !pod.CreationTimestamp.After(n.Deadline):
			r.fail("E43", "node %s is removed with pod %s, which was not deleted", m.Name(), pod.Name)
		case pod.DeletionTimestamp != nil && w.Now.Before(pod.DeletionTimestamp.Time):
			r.fail("E43", "node %s is removed %s before the grace of pod %s is over", m.Name(), pod.DeletionTimestamp.Sub(w.Now), pod.Name)
		}
	}
}
