package preflight

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// explainClosedBudget sets a finding's rule and remedy by the reason why the budget is closed. Otherwise
// the finding keeps the rule of its obstacle: PDB001 or PDB002.
func explainClosedBudget(covers *coverage, pod *corev1.Pod, obstacle drain.Obstacle, f *Finding) {
	w := covers.world
	covering := w.Budgets.Covering(pod)
	if len(covering) != 1 {
		return
	}
	budget := covering[0]
	isNever := obstacle.Kind == drain.BudgetNever
	switch failure := drain.SyncFailure(&budget.Status); {
	// The disruption controller never processes a budget whose first computation fails.
	case failure != nil && (isNever || obstacle.Kind == drain.BudgetPending):
		f.Message = fmt.Sprintf("PDB %s allows no eviction, because the disruption controller cannot compute it: %s", obstacle.Budget, failure.Message)
		f.Rule, f.Remedy = explainSyncFailure(failure.Message, pod)
	case isNever && countsNoPods(budget):
		f.Rule, f.Remedy = "PDB004", "write minAvailable as a number of pods: percentages and maxUnavailable count only pods that have a controller"
	case isNever && budget.Status.ExpectedPods == 1:
		f.Rule, f.Remedy = "PDB009", adviseMoveBySurge(w, pod)+"run 2 replicas and set maxUnavailable: 1 in the budget, or pass --on-timeout=force"
		if _, why := w.Movable.FindDeployment(pod); w.Request.Move == record.MoveBySurge && why != "" {
			f.Message += "; --move=surge cannot move it, because " + why
		}
	case obstacle.Kind == drain.BudgetUnhealthy && budget.Status.DesiredHealthy == 0:
		covers.explainUnreadyPods(budget, pod, f)
		f.Rule = "PDB007"
		f.Message = fmt.Sprintf("PDB %s needs no healthy pod, but it does not allow the eviction of unready pods while no pod is healthy", obstacle.Budget)
		f.Remedy = "set unhealthyPodEvictionPolicy: AlwaysAllow, repair its pods or pass --on-timeout=force"
	case obstacle.Kind == drain.BudgetUnhealthy || obstacle.Kind == drain.BudgetSpent:
		covers.explainUnreadyPods(budget, pod, f)
	}
}

// adviseMoveBySurge returns advice to pass --move=surge for the only pod of a Deployment. It returns "" if
// the flag was passed or does not help. If Deployments were not read, it advises it for every
// Deployment.
func adviseMoveBySurge(w *upgrade.World, pod *corev1.Pod) string {
	isMovable := w.Movable.CanMoveWithoutEviction(pod) || (!w.Movable.IsKnown() && drain.WorkloadOf(pod).Kind == "Deployment")
	if !isMovable || w.Request.Move == record.MoveBySurge || w.Request.Strategy.Traits().ByCloud {
		return ""
	}
	return "pass --move=surge to start another pod first, "
}

// explainSyncFailure returns rule PDB003 or PDB005 by the message of the disruption controller
// (disruption.go, getExpectedScale, getScaleController).
func explainSyncFailure(message string, pod *corev1.Pod) (rule, remedy string) {
	switch {
	case strings.Contains(message, "does not implement the scale subresource"), drain.OwnerKind(pod) == "Job":
		return "PDB005", "write minAvailable as a number of pods: percentages and maxUnavailable need the scale of the pods' controller, and this kind has none"
	case strings.Contains(message, "found no controllers for pod"):
		return "PDB003", "delete that pod, whose controller was deleted, or change its labels so that the budget does not cover it"
	default:
		return "PDB003", "fix the cause in the message, or write minAvailable as a number of pods, which needs no controller"
	}
}

// countsNoPods reports whether the budget was computed and counts no pods.
func countsNoPods(budget *drain.Budget) bool {
	st := &budget.Status
	return st.ObservedGeneration > 0 && st.ExpectedPods == 0 && drain.SyncFailure(st) == nil
}

// closedBudget is a budget that keeps pods of a workload.
type closedBudget struct {
	scene    *Scene
	workload *Workload
	budget   *drain.Budget
}

// closedBudgetRule returns a rule of CheckUpgrade about budgets, with severity Block. setRemedy sets the
// remedy with the numbers of the budget and the workload.
func closedBudgetRule(id string, setRemedy func(*closedBudget, *Finding), text, source string) Rule {
	rule := upgradeRule(id, Block, text, source)
	find := rule.find
	rule.find = func(s *Scene) []Finding {
		found := find(s)
		fixed := map[string]Finding{} // all pods of one workload get the same remedy
		for i := range found {
			f := &found[i]
			key := f.Workload + " " + f.Blocker
			first, ok := fixed[key]
			if !ok {
				if closed := s.closedBudgetOf(f); closed != nil {
					setRemedy(closed, f)
				}
				first = *f
				fixed[key] = first
			}
			f.Remedy, f.Fix = first.Remedy, first.Fix
		}
		return found
	}
	return rule
}

// closedBudgetOf returns the budget that a finding names as the blocker, nil if it is not one of
// the workload's budgets.
func (s *Scene) closedBudgetOf(f *Finding) *closedBudget {
	w := s.byName[f.Workload]
	if w == nil {
		return nil
	}
	for _, budget := range w.Budgets {
		if "PDB "+budget.Key().String() == f.Blocker {
			return &closedBudget{s, w, budget}
		}
	}
	return nil
}

// patchCommand returns the command that changes the budget's spec.
func (c *closedBudget) patchCommand(spec fields) string {
	return patchCommand(mergePatch, "pdb", c.budget.Namespace, c.budget.Name, fields{"spec": spec})
}

// allowOneUnavailable returns the command that sets the budget's maxUnavailable to 1.
func (c *closedBudget) allowOneUnavailable() string {
	return c.patchCommand(fields{"minAvailable": nil, "maxUnavailable": 1})
}

// setStrictRemedy sets the remedy of PDB001: a budget that needs all of several pods.
func (c *closedBudget) setStrictRemedy(f *Finding) {
	if c.setOtherRemedy(f) {
		return
	}
	more := ""
	if least := c.budget.Spec.MinAvailable; least != nil && least.Type == intstr.Int {
		more = fmt.Sprintf(", run %d replicas", least.IntVal+1)
	}
	f.Remedy = fmt.Sprintf("write maxUnavailable: 1 in place of %s%s or pass --on-timeout=force", describeLimit(c.budget), more)
	f.Fix = c.allowOneUnavailable()
}

// setOtherRemedy sets the remedy of PDB001 and PDB009 if changing the number of replicas does not
// help. Only the operator can change an operator's budget, and a controller without a scale needs a
// minAvailable that is a number. It reports whether it set a remedy.
func (c *closedBudget) setOtherRemedy(f *Finding) (done bool) {
	switch operator := operatorOf(c.budget); {
	case operator != "":
		f.Remedy = "change the settings of " + operator + ", which manages the budget, or wait until it allows an eviction"
	case !c.workload.IsScaled():
		f.Remedy, f.Fix = c.adviseOneLess()
		f.Remedy += " or pass --on-timeout=force"
	default:
		return false
	}
	return true
}

// setUncountedRemedy sets the remedy of PDB004 and PDB005. Only minAvailable as a number works without a
// controller that has a scale.
func (c *closedBudget) setUncountedRemedy(f *Finding) {
	if operator := operatorOf(c.budget); operator != "" {
		return
	}
	f.Remedy, f.Fix = c.adviseOneLess()
	f.Remedy += ", because only a number counts pods whose controller has no scale"
}

// adviseOneLess returns the remedy that makes the budget need one pod fewer than it covers, as a
// number.
func (c *closedBudget) adviseOneLess() (remedy, fix string) {
	least := max(0, c.countCovered()-1)
	return fmt.Sprintf("write minAvailable: %d in place of %s", least, describeLimit(c.budget)), c.patchCommand(fields{"maxUnavailable": nil, "minAvailable": least})
}

// countCovered counts the pods that the budget covers and that have not ended.
func (c *closedBudget) countCovered() (n int) {
	for _, pod := range c.scene.Pods {
		if pod.Namespace != c.budget.Namespace || hasPodEnded(pod) {
			continue
		}
		for _, budget := range c.scene.World.Budgets.Covering(pod) {
			if budget.Name == c.budget.Name {
				n++
			}
		}
	}
	return n
}

// setUnhealthyPolicyFix sets the command for PDB007: the policy that allows the eviction of unready pods.
func (c *closedBudget) setUnhealthyPolicyFix(f *Finding) {
	if operatorOf(c.budget) == "" {
		f.Fix = c.patchCommand(fields{"unhealthyPodEvictionPolicy": policyv1.AlwaysAllow})
	}
}

// setSingleReplicaRemedy sets the remedy of PDB009: a second replica, and a budget that allows one of two
// pods to be missing.
func (c *closedBudget) setSingleReplicaRemedy(f *Finding) {
	if c.setOtherRemedy(f) {
		return
	}
	w := c.workload
	grown, second := w.String()+" to 2 replicas", w.secondReplicaCommand()
	if scaler := w.Scaler; scaler != nil {
		grown = fmt.Sprintf("minReplicas of HorizontalPodAutoscaler %s/%s to 2", scaler.Namespace, scaler.Name)
		if scaler.Spec.MaxReplicas < 2 {
			grown += ", and maxReplicas to no less"
		}
	}
	f.Remedy, f.Fix = adviseMoveBySurge(c.scene.World, w.Model())+"raise "+grown, second
	if isClosedWithPods(c.budget, 2) {
		f.Remedy += " and write maxUnavailable: 1 in place of " + describeLimit(c.budget)
		if second != "" {
			f.Fix += " && " + c.allowOneUnavailable()
		}
	}
	f.Remedy += ", or pass --on-timeout=force"
}

// isClosedWithPods reports whether the budget would be closed with this many pods, all of them healthy.
// Percentages are rounded up (disruption.go, getExpectedPodCount).
func isClosedWithPods(budget *drain.Budget, pods int) bool {
	if most := budget.Spec.MaxUnavailable; most != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(most, pods, true)
		return err == nil && n == 0
	}
	if least := budget.Spec.MinAvailable; least != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(least, pods, true)
		return err == nil && n >= pods
	}
	return pods == 1 // minAvailable is 1 by default
}
