package simulate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// disruption is the disruption controller and the eviction API with their budgets.
type disruption struct {
	clock            *clock
	budgets          []*policyv1.PodDisruptionBudget
	index            drain.Budgets
	endingNamespaces map[string]bool
	// countsPods are the budgets that expect as many pods as they have.
	countsPods map[*policyv1.PodDisruptionBudget]bool
	disrupted  map[types.NamespacedName]time.Time
	// A change of a budget is one that an upgrade might act on only if it is watched.
	watched    map[types.NamespacedName]bool
	watchesAll bool
	// awaited are the workloads whose ready pods the upgrade waits for.
	awaited map[drain.Workload]bool
}

func newDisruption(spec *Spec, clock *clock) *disruption {
	d := &disruption{
		clock: clock, endingNamespaces: spec.EndingNamespaces, countsPods: map[*policyv1.PodDisruptionBudget]bool{},
		disrupted: map[types.NamespacedName]time.Time{}, watched: map[types.NamespacedName]bool{}, awaited: map[drain.Workload]bool{},
	}
	for _, budget := range spec.Budgets {
		d.budgets = append(d.budgets, budget.DeepCopy())
	}
	d.index = drain.NewBudgets(d.budgets)
	return d
}

// admitEviction is the eviction API's answer, sorted as package runner does, and what it does to
// the budget (registry/core/pod/storage/eviction.go; Kubernetes K10).
func (d *disruption) admitEviction(u *simPod) (nodegroup.Outcome, string) {
	pod := u.pod
	ending := d.endingNamespaces[pod.Namespace]
	if !ending && (isFinished(pod) || pod.DeletionTimestamp != nil) {
		return nodegroup.OutcomeDone, ""
	}
	switch p := drain.Predict(pod, d.index, nil, ending); {
	case p.Spends:
		// The pod stands in disruptedPods from now until the disruption controller sees that it is
		// being deleted, which here is at once.
		d.disrupted[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = d.clock.now
		return nodegroup.OutcomeDone, ""
	case p.Admitted():
		return nodegroup.OutcomeDone, ""
	case p.Kind == drain.NamespaceEnding:
		return nodegroup.OutcomeLater, fmt.Sprintf("namespace %s is being terminated", pod.Namespace)
	case p.Kind == drain.TwoBudgets:
		return nodegroup.OutcomeUnclear, "this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"
	default:
		return refuseEviction(u.budgets[0], p.Kind)
	}
}

// refuseEviction is the answer to an eviction that the budget is an obstacle to.
func refuseEviction(budget *drain.Budget, kind drain.ObstacleKind) (nodegroup.Outcome, string) {
	st := &budget.Status
	switch {
	case st.ObservedGeneration < budget.Generation:
		return nodegroup.OutcomeRefused, fmt.Sprintf("the disruption budget %s is still being processed by the server", budget.Name)
	case st.DisruptionsAllowed < 0:
		return nodegroup.OutcomeFatal, "pdb disruptions allowed is negative"
	case kind == drain.BudgetPending:
		return nodegroup.OutcomeLater, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
	case st.CurrentHealthy > st.DesiredHealthy:
		return nodegroup.OutcomeRefused, fmt.Sprintf("the disruption budget %s does not allow evicting pods currently", budget.Name)
	default:
		return nodegroup.OutcomeRefused, fmt.Sprintf("the disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, st.DesiredHealthy, st.CurrentHealthy)
	}
}

// countHealthy keeps the budgets' status as the disruption controller would: a ready pod came, or
// began to leave.
func (d *disruption) countHealthy(u *simPod, change int32) {
	if change < 0 && !drain.Ready(u.pod) {
		return
	}
	for _, budget := range u.budgets {
		budget.Status.CurrentHealthy += change
		d.updateStatus(budget.PodDisruptionBudget)
	}
}

// wakeForWorkload has the upgrade look at a workload that it waits for: it is the pods themselves
// that tell of it.
func (d *disruption) wakeForWorkload(u *simPod) {
	if d.awaited[upgrade.WatchedWorkload(u.pod)] {
		d.clock.changed = true
	}
}

// countExpected keeps what a budget expects where that is the number of its pods: with minAvailable
// as a number.
func (d *disruption) countExpected(u *simPod, change int32) {
	for _, budget := range u.budgets {
		if d.countsPods[budget.PodDisruptionBudget] {
			budget.Status.ExpectedPods += change
			d.updateStatus(budget.PodDisruptionBudget)
		}
	}
}

// updateStatus is disruption.go's updatePdbStatus. A budget whose status could not be computed
// stays closed.
func (d *disruption) updateStatus(budget *policyv1.PodDisruptionBudget) {
	st := &budget.Status
	st.DisruptionsAllowed = 0
	if st.ExpectedPods > 0 && drain.SyncFailure(st) == nil {
		st.DisruptionsAllowed = max(0, st.CurrentHealthy-st.DesiredHealthy)
	}
	budget.ResourceVersion = d.clock.nextVersion()
	if d.watchesAll || d.watched[types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}] {
		d.clock.changed = true
	}
}

// watchBudgets notes which budgets the upgrade waits for. While its window is full that is none but
// those that block a pod: the others are looked at only when a node may be started.
func (d *disruption) watchBudgets(step *upgrade.Step) {
	clear(d.watched)
	clear(d.awaited)
	for _, b := range step.Blocked {
		d.watched[b.Budget] = true
		if kind, name, found := strings.Cut(b.Budget.Name, "/"); found {
			d.awaited[drain.Workload{Namespace: b.Budget.Namespace, Kind: kind, Name: name}] = true
		}
	}
	for _, w := range step.Awaited {
		d.awaited[w] = true
	}
	d.watchesAll = step.Choosing
}

// coverage is the pods of one budget at the beginning.
type coverage struct {
	matched, healthy int32
	owners           map[types.UID]bool
	unknown          bool
}

// initStatuses gives each budget the status that follows from its spec (disruption.go, trySync), if
// all that goes into it is known; the others keep theirs, and are kept by the differences alone.
func (d *disruption) initStatuses(pods []*simPod, workloads map[types.UID]Workload) {
	if workloads == nil {
		return
	}
	covered := map[*policyv1.PodDisruptionBudget]*coverage{}
	for _, budget := range d.budgets {
		covered[budget] = &coverage{owners: map[types.UID]bool{}}
	}
	for _, u := range pods {
		_, known := workloads[u.key.owner]
		for _, budget := range u.budgets {
			covered[budget.PodDisruptionBudget].addCoveredPod(u, known)
		}
	}
	for _, budget := range d.budgets {
		d.initStatus(budget, covered[budget], workloads)
	}
}

func (c *coverage) addCoveredPod(u *simPod, known bool) {
	c.matched++
	if drain.Ready(u.pod) && u.pod.DeletionTimestamp == nil {
		c.healthy++
	}
	if id := u.key.owner; id != "" {
		c.unknown = c.unknown || !known || u.key.kind == daemonSet || u.key.kind == "Job"
		c.owners[id] = true
	}
}

// expectedReplicas sums up the scales of the controllers.
func (c *coverage) expectedReplicas(workloads map[types.UID]Workload) (sum int32) {
	counted := map[types.UID]bool{}
	for id := range c.owners {
		scaled := workloads[id]
		if of := cmp.Or(scaled.Of, id); !counted[of] {
			counted[of] = true
			sum += scaled.Replicas
		}
	}
	return sum
}

func (d *disruption) initStatus(budget *policyv1.PodDisruptionBudget, c *coverage, workloads map[types.UID]Workload) {
	spec := &budget.Spec
	expected := c.matched
	byNumber := spec.MaxUnavailable == nil && spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int
	if !byNumber {
		if c.unknown || (spec.MinAvailable == nil && spec.MaxUnavailable == nil) {
			return
		}
		expected = c.expectedReplicas(workloads)
	}
	desired, err := desiredHealthy(spec, expected)
	if err != nil {
		return // the live status says that it failed
	}
	d.countsPods[budget] = byNumber
	budget.Status.ExpectedPods, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy = expected, desired, c.healthy
	budget.Status.ObservedGeneration = budget.Generation
	d.updateStatus(budget)
}

// desiredHealthy is how many healthy pods a budget needs; percentages are rounded up, either way
// (disruption.go, getExpectedPodCount).
func desiredHealthy(spec *policyv1.PodDisruptionBudgetSpec, expected int32) (int32, error) {
	if spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		return max(0, expected-int32(n)), err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
	return int32(n), err
}
