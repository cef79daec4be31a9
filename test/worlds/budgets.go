package worlds

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
)

// disruptedFor is how long the disruption controller charges a budget for an evicted pod that is not deleted (disruption.go,
// DeletionTimeout).
const disruptedFor = 2 * time.Minute

func budgetName(i int, b Budget) string { return fmt.Sprintf("%s-%d", b.Workload, i) }

func newBudget(i int, b Budget) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: budgetName(i, b), Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": b.Workload}}},
	}
	value := intstr.FromInt(b.N)
	if b.Percent {
		value = intstr.FromString(fmt.Sprintf("%d%%", b.N))
	}
	if b.Shape == MinAvailable {
		pdb.Spec.MinAvailable = &value
	} else {
		pdb.Spec.MaxUnavailable = &value
	}
	switch b.Shape {
	case Everything:
		pdb.Spec.Selector = &metav1.LabelSelector{}
	case Nothing:
		pdb.Spec.Selector = nil
	case Invalid:
		pdb.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
	}
	if b.AlwaysAllow {
		policy := policyv1.AlwaysAllow
		pdb.Spec.UnhealthyPodEvictionPolicy = &policy
	}
	return pdb
}

func (c *cluster) putBudget(pdb *policyv1.PodDisruptionBudget) {
	pdb.ResourceVersion = c.nextVersion()
	c.budgets[pdb.Name] = pdb
	c.onChange(change{budget: pdb})
}

func (c *cluster) deleteBudget(name string) {
	if pdb, ok := c.budgets[name]; ok {
		delete(c.budgets, name)
		c.onChange(change{budget: pdb, gone: true})
	}
}

// budgetCovers reports whether the budget selects the pod. It supports only the selectors that newBudget creates.
func budgetCovers(pdb *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector := pdb.Spec.Selector
	switch {
	case selector == nil || len(selector.MatchExpressions) > 0:
		return false
	case len(selector.MatchLabels) == 0:
		return true
	default:
		return selector.MatchLabels["app"] == pod.Labels["app"]
	}
}

// scheduleBudgetSync schedules the disruption controller for the budgets of a changed pod.
func (c *cluster) scheduleBudgetSync(pod *corev1.Pod) {
	for _, name := range sortedKeys(c.budgets) {
		if budgetCovers(c.budgets[name], pod) && !c.stale[name] {
			c.stale[name] = true
			lag := 50 * time.Millisecond
			if c.drawFault(BudgetSlow) {
				lag = 1500 * time.Millisecond
			}
			c.after(lag, func() { c.syncBudget(name) })
		}
	}
}

// syncBudget computes a budget's status, as the disruption controller does (Kubernetes K11).
func (c *cluster) syncBudget(name string) {
	c.stale[name] = false
	old, ok := c.budgets[name]
	if !ok {
		return
	}
	pdb := old.DeepCopy()
	pdb.Status = c.budgetStatus(old)
	if equalStatus(&old.Status, &pdb.Status) {
		return
	}
	if len(pdb.Status.DisruptedPods) > 0 {
		c.after(disruptedFor, func() { c.syncBudget(name) })
	}
	c.putBudget(pdb)
}

func (c *cluster) budgetStatus(pdb *policyv1.PodDisruptionBudget) policyv1.PodDisruptionBudgetStatus {
	disrupted := map[string]metav1.Time{}
	matched, healthy := 0, 0
	scale := map[string]int{}
	for _, pod := range c.pods {
		if !budgetCovers(pdb, pod) {
			continue
		}
		matched++
		m := c.controllers[pod.Labels["app"]]
		scale[m.Name] = m.scale
		if m.Kind == Bare || m.Kind == Mirror || m.Kind == Finished || m.Kind == Ending || m.Kind == DaemonSet {
			scale[m.Name] = 0
		}
		at, evicted := pdb.Status.DisruptedPods[pod.Name]
		evicted = evicted && pod.DeletionTimestamp == nil && c.now.Sub(at.Time) < disruptedFor
		if evicted {
			disrupted[pod.Name] = at
		}
		if !evicted && pod.DeletionTimestamp == nil && isPodReady(pod) {
			healthy++
		}
	}
	expected, desired := expectedPods(pdb, matched, scale)
	allowed := max(0, healthy-desired)
	if expected <= 0 {
		allowed = 0
	}
	return policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: pdb.Generation, ExpectedPods: int32(expected), CurrentHealthy: int32(healthy),
		DesiredHealthy: int32(desired), DisruptionsAllowed: int32(allowed), DisruptedPods: disrupted,
	}
}

// expectedPods returns the number of pods that a budget expects, and the number of healthy pods that it requires (disruption.go,
// getExpectedPodCount).
func expectedPods(pdb *policyv1.PodDisruptionBudget, matched int, scale map[string]int) (expected, desired int) {
	total := 0
	for _, n := range scale {
		total += n
	}
	share := func(v *intstr.IntOrString) int {
		if v.Type == intstr.Int {
			return v.IntValue()
		}
		n, _ := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
		return int(math.Ceil(float64(total*n) / 100))
	}
	switch {
	case pdb.Spec.MaxUnavailable != nil:
		return total, max(0, total-share(pdb.Spec.MaxUnavailable))
	case pdb.Spec.MinAvailable.Type == intstr.Int:
		return matched, pdb.Spec.MinAvailable.IntValue()
	default:
		return total, share(pdb.Spec.MinAvailable)
	}
}

func equalStatus(a, b *policyv1.PodDisruptionBudgetStatus) bool {
	if len(a.DisruptedPods) != len(b.DisruptedPods) {
		return false
	}
	for name := range a.DisruptedPods {
		if _, ok := b.DisruptedPods[name]; !ok {
			return false
		}
	}
	return a.ObservedGeneration == b.ObservedGeneration && a.ExpectedPods == b.ExpectedPods && a.CurrentHealthy == b.CurrentHealthy &&
		a.DesiredHealthy == b.DesiredHealthy && a.DisruptionsAllowed == b.DisruptionsAllowed
}

func isPodReady(pod *corev1.Pod) bool {
	return len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}

// answerEviction returns the eviction API's answer for a pod (eviction.go). It changes nothing. spends names the budget to which an
// accepted eviction is charged; "" for none.
func answerEviction(pod *corev1.Pod, budgets map[string]*policyv1.PodDisruptionBudget, ending bool) (spends string, err error) {
	if ending {
		return "", errForbidden("namespace is being terminated", corev1.NamespaceTerminatingCause)
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return "", nil
	}
	var mine []*policyv1.PodDisruptionBudget
	for _, pdb := range budgets {
		if budgetCovers(pdb, pod) {
			mine = append(mine, pdb)
		}
	}
	if len(mine) == 0 {
		return "", nil
	}
	if len(mine) > 1 {
		return "", apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
	}
	pdb, st := mine[0], &mine[0].Status
	always := pdb.Spec.UnhealthyPodEvictionPolicy != nil && *pdb.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
	switch {
	case !isPodReady(pod) && (always || (st.CurrentHealthy >= st.DesiredHealthy && st.DesiredHealthy > 0)):
		return "", nil
	case st.ObservedGeneration < pdb.Generation:
		return "", errBudgetRefuses(10, "is still being processed by the server")
	case st.DisruptionsAllowed <= 0:
		return "", errBudgetRefuses(0, fmt.Sprintf("needs %d healthy pods and has %d currently", st.DesiredHealthy, st.CurrentHealthy))
	}
	return pdb.Name, nil
}

// evictPod simulates the eviction API. An eviction with the wrong UID fails only after the budget was charged for it (Kubernetes K01).
func (c *cluster) evictPod(a schedule.Eviction) error {
	var pod *corev1.Pod
	for _, p := range c.pods {
		if p.Name == a.Pod {
			pod = p
		}
	}
	if pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), a.Pod)
	}
	spends, err := answerEviction(pod, c.budgets, c.namespaceEnding)
	if err != nil {
		return err
	}
	if spends != "" {
		c.chargeBudget(spends, pod.Name)
	}
	if pod.UID != a.UID {
		return errConflict("pods", a.Pod)
	}
	if evicted := pod.DeepCopy(); pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
		evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Time{Time: c.now},
		})
		c.putPod(evicted)
	}
	c.deletePod(pod.UID)
	return nil
}

func (c *cluster) chargeBudget(budget, pod string) {
	pdb := c.budgets[budget].DeepCopy()
	pdb.Status.DisruptionsAllowed--
	if pdb.Status.DisruptedPods == nil {
		pdb.Status.DisruptedPods = map[string]metav1.Time{}
	}
	pdb.Status.DisruptedPods[pod] = metav1.Time{Time: c.now}
	c.putBudget(pdb)
	c.chargedAt[pod] = c.now
	c.after(disruptedFor, func() { c.syncBudget(budget) })
}

func errBudgetRefuses(after int, why string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", after)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + why}}
	return err
}

func errForbidden(why string, cause metav1.CauseType) error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(why))
	err.ErrStatus.Code = http.StatusForbidden
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause}}
	return err
}

func errConflict(resource, name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New("the object has been modified"))
}
