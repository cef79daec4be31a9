package simulate

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// maxDisruptedPods is the size of status.disruptedPods above which every eviction is refused
// (eviction.go, MaxDisruptedPodSize).
const maxDisruptedPods = 2000

// admit is the eviction API's answer, sorted as package runner does, and what it does to the budget
// (registry/core/pod/storage/eviction.go; Kubernetes K10).
func (c *Cluster) admit(u *unit) (nodegroup.Outcome, string) {
	pod := u.pod
	switch {
	case c.ending[pod.Namespace]:
		return nodegroup.OutcomeLater, fmt.Sprintf("namespace %s is being terminated", pod.Namespace)
	case pod.Status.Phase == corev1.PodPending, finished(pod), pod.DeletionTimestamp != nil, len(u.budgets) == 0:
		return nodegroup.OutcomeDone, ""
	case len(u.budgets) > 1:
		return nodegroup.OutcomeUnclear, "this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"
	}
	budget := u.budgets[0]
	st := &budget.Status
	if !drain.Ready(pod) && evictsUnready(budget) {
		return nodegroup.OutcomeDone, ""
	}
	switch {
	case st.ObservedGeneration < budget.Generation:
		return nodegroup.OutcomeRefused, fmt.Sprintf("the disruption budget %s is still being processed by the server", budget.Name)
	case st.DisruptionsAllowed < 0:
		return nodegroup.OutcomeFatal, "pdb disruptions allowed is negative"
	case len(st.DisruptedPods) > maxDisruptedPods:
		return nodegroup.OutcomeLater, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
	case st.DisruptionsAllowed == 0:
		return nodegroup.OutcomeRefused, refusal(budget)
	}
	// The pod stands in disruptedPods from now until the disruption controller sees that it is
	// being deleted, which here is at once.
	c.disrupted[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = c.now
	return nodegroup.OutcomeDone, ""
}

func evictsUnready(budget *drain.Budget) bool {
	if p := budget.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

func refusal(budget *drain.Budget) string {
	if budget.Status.CurrentHealthy > budget.Status.DesiredHealthy {
		return fmt.Sprintf("the disruption budget %s does not allow evicting pods currently", budget.Name)
	}
	return fmt.Sprintf("the disruption budget %s needs %d healthy pods and has %d currently",
		budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy)
}

// recount keeps the budgets' status as the disruption controller would: a ready pod came, or began
// to leave.
func (c *Cluster) recount(u *unit, change int32) {
	if change < 0 && !drain.Ready(u.pod) {
		return
	}
	for _, budget := range u.budgets {
		budget.Status.CurrentHealthy += change
		c.resync(budget.PodDisruptionBudget)
	}
}

// expect keeps what a budget expects where that is the number of its pods: with minAvailable as a
// number.
func (c *Cluster) expect(u *unit, change int32) {
	for _, budget := range u.budgets {
		if c.counted[budget.PodDisruptionBudget] {
			budget.Status.ExpectedPods += change
			c.resync(budget.PodDisruptionBudget)
		}
	}
}

// resync is disruption.go's updatePdbStatus. A budget whose status could not be computed stays
// closed.
func (c *Cluster) resync(budget *policyv1.PodDisruptionBudget) {
	st := &budget.Status
	st.DisruptionsAllowed = 0
	if st.ExpectedPods > 0 && !syncFailed(st) {
		st.DisruptionsAllowed = max(0, st.CurrentHealthy-st.DesiredHealthy)
	}
	budget.ResourceVersion = c.touch()
	c.news = c.news || c.heedAll || c.heeded[types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}]
}

func syncFailed(st *policyv1.PodDisruptionBudgetStatus) bool {
	for i := range st.Conditions {
		if st.Conditions[i].Type == policyv1.DisruptionAllowedCondition && st.Conditions[i].Reason == policyv1.SyncFailedReason {
			return true
		}
	}
	return false
}

// pods of one budget at the beginning.
type covered struct {
	matched, healthy int32
	owners           map[types.UID]bool
	unknown          bool
}

// recompute gives each budget the status that follows from its spec (disruption.go, trySync), if
// all that goes into it is known; the others keep theirs, and are kept by the differences alone.
func (c *Cluster) recompute() {
	if c.workloads == nil {
		return
	}
	sums := map[*policyv1.PodDisruptionBudget]*covered{}
	for _, budget := range c.budgets {
		sums[budget] = &covered{owners: map[types.UID]bool{}}
	}
	for _, units := range []map[types.UID]*unit{c.units, c.waiting} {
		for _, u := range units {
			for _, budget := range u.budgets {
				sums[budget.PodDisruptionBudget].add(c, u)
			}
		}
	}
	for _, budget := range c.budgets {
		c.initBudget(budget, sums[budget])
	}
}

func (s *covered) add(c *Cluster, u *unit) {
	s.matched++
	if drain.Ready(u.pod) && u.pod.DeletionTimestamp == nil {
		s.healthy++
	}
	if id := u.shape.owner; id != "" {
		_, known := c.workloads[id]
		s.unknown = s.unknown || !known || u.shape.kind == daemonSet || u.shape.kind == "Job"
		s.owners[id] = true
	}
}

func (c *Cluster) initBudget(budget *policyv1.PodDisruptionBudget, s *covered) {
	spec := &budget.Spec
	expected := s.matched
	byNumber := spec.MaxUnavailable == nil && spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int
	if !byNumber {
		if s.unknown || (spec.MinAvailable == nil && spec.MaxUnavailable == nil) {
			return
		}
		expected = 0
		counted := map[types.UID]bool{}
		for id := range s.owners {
			scaled := c.workloads[id]
			if of := cmp.Or(scaled.Of, id); !counted[of] {
				counted[of] = true
				expected += scaled.Replicas
			}
		}
	}
	desired, err := desired(spec, expected)
	if err != nil {
		return // the live status says that it failed
	}
	c.counted[budget] = byNumber
	budget.Status.ExpectedPods, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy = expected, desired, s.healthy
	budget.Status.ObservedGeneration = budget.Generation
	c.resync(budget)
}

// desired is how many healthy pods a budget needs; percentages are rounded up, either way
// (disruption.go, getExpectedPodCount).
func desired(spec *policyv1.PodDisruptionBudgetSpec, expected int32) (int32, error) {
	if spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		return max(0, expected-int32(n)), err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
	return int32(n), err
}
