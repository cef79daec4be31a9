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

// disruption simulates the disruption controller and the eviction API.
type disruption struct {
	clock            *clock
	budgets          []*policyv1.PodDisruptionBudget
	index            drain.Budgets
	endingNamespaces map[string]bool
	// countsPods are the budgets that expect exactly the pods that exist.
	countsPods map[*policyv1.PodDisruptionBudget]bool
	disrupted  map[types.NamespacedName]time.Time
	// watched are the budgets that the upgrade waits for. Only a change of these, or of any if watchesAll, wakes it.
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

// admitEviction returns the eviction API's answer, classified as in package runner, and applies its effect on the
// budget (registry/core/pod/storage/eviction.go; Kubernetes K10).
func (d *disruption) admitEviction(u *simPod) (nodegroup.Outcome, string) {
	pod := u.pod
	ending := d.endingNamespaces[pod.Namespace]
	if !ending && (isFinished(pod) || pod.DeletionTimestamp != nil) {
		return nodegroup.OutcomeDone, ""
	}
	switch p := drain.Predict(pod, d.index, nil, ending); {
	case p.Spends:
		// The pod is in disruptedPods from now until the disruption controller sees the pod's deletion. In the
		// simulation, that happens at the same moment.
		d.disrupted[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = d.clock.now
		return nodegroup.OutcomeDone, ""
	case p.Admitted():
		return nodegroup.OutcomeDone, ""
	case p.Kind == drain.NamespaceEnding:
		return nodegroup.OutcomeLater, fmt.Sprintf("namespace %s is being terminated", pod.Namespace)
	case p.Kind == drain.TwoBudgets:
		return nodegroup.OutcomeUnclear, "this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"
	default:
		return evictionRefusal(u.budgets[0], p.Kind)
	}
}

// evictionRefusal returns the answer to an eviction that the budget blocks.
func evictionRefusal(budget *drain.Budget, kind drain.ObstacleKind) (nodegroup.Outcome, string) {
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

// updateHealthyCount updates the status of the pod's budgets as the disruption controller does when a ready pod is added or
// begins to leave.
func (d *disruption) updateHealthyCount(u *simPod, change int32) {
	if change < 0 && !drain.Ready(u.pod) {
		return
	}
	for _, budget := range u.budgets {
		budget.Status.CurrentHealthy += change
		d.updateStatus(budget.PodDisruptionBudget)
	}
}

// wakeForWorkload wakes the upgrade if it waits for the pod's workload. The upgrade sees the workload's state only in
// its pods.
func (d *disruption) wakeForWorkload(u *simPod) {
	if d.awaited[upgrade.WatchedWorkload(u.pod)] {
		d.clock.changed = true
	}
}

// updateExpectedCount updates what the pod's budgets expect, if that is the number of existing pods: minAvailable is a
// number.
func (d *disruption) updateExpectedCount(u *simPod, change int32) {
	for _, budget := range u.budgets {
		if d.countsPods[budget.PodDisruptionBudget] {
			budget.Status.ExpectedPods += change
			d.updateStatus(budget.PodDisruptionBudget)
		}
	}
}

// updateStatus does what updatePdbStatus in disruption.go does. A budget whose status could not be computed stays
// closed.
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

// watchBudgets sets the budgets that the upgrade waits for. While its window is full, these are only the budgets that
// block a pod. The others matter only when a node may be started.
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

// coverage counts the pods of one budget at the beginning.
type coverage struct {
	matched, healthy int32
	owners           map[types.UID]bool
	unknown          bool
}

// initStatuses computes each budget's status from its spec (disruption.go, trySync) if all necessary data is known.
// The other budgets keep their status from the Spec, and only changes are added to it.
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

// expectedReplicas returns the sum of the controllers' scales.
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
		return // the Spec's status already has the failure
	}
	d.countsPods[budget] = byNumber
	budget.Status.ExpectedPods, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy = expected, desired, c.healthy
	budget.Status.ObservedGeneration = budget.Generation
	d.updateStatus(budget)
}

// desiredHealthy returns how many healthy pods a budget needs. All percentages are rounded up (disruption.go,
// getExpectedPodCount).
func desiredHealthy(spec *policyv1.PodDisruptionBudgetSpec, expected int32) (int32, error) {
	if spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		return max(0, expected-int32(n)), err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
	return int32(n), err
}
