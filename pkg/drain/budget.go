package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Budget is a PodDisruptionBudget with its selector parsed once.
type Budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

// Key is the budget's namespace and name.
func (b *Budget) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

// Budgets finds the budgets that cover a pod. The zero value covers nothing.
type Budgets struct {
	byNamespace map[string][]*Budget
}

// NewBudgets indexes PodDisruptionBudgets by namespace. As the API server does, a
// selector that cannot be parsed covers nothing, a nil one covers nothing and an
// empty one covers its whole namespace (policy/v1).
func NewBudgets(pdbs []*policyv1.PodDisruptionBudget) Budgets {
	index := map[string][]*Budget{}
	for _, pdb := range pdbs {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue
		}
		index[pdb.Namespace] = append(index[pdb.Namespace], &Budget{PodDisruptionBudget: pdb, selector: selector})
	}
	for _, budgets := range index {
		slices.SortFunc(budgets, func(a, b *Budget) int { return cmp.Compare(a.Name, b.Name) })
	}
	return Budgets{byNamespace: index}
}

// Covering returns the budgets whose selector matches the pod, by name.
// The API server refuses to evict a running pod that has more than one.
func (b Budgets) Covering(pod *corev1.Pod) []*Budget {
	var covering []*Budget
	for _, budget := range b.byNamespace[pod.Namespace] {
		if budget.selector.Matches(labels.Set(pod.Labels)) {
			covering = append(covering, budget)
		}
	}
	return covering
}

// Structural says why a budget can never open by itself, or "" when it may.
// A person has to change the budget or its workload (semantics PDB001, PDB003, PDB004).
func (b *Budget) Structural() string {
	st := b.Status
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			return "its status cannot be computed: " + c.Message
		}
	}
	switch {
	case st.ObservedGeneration == 0:
		return ""
	case st.ExpectedPods == 0:
		return "it counts no pods, so its budget stays 0"
	case st.DesiredHealthy >= st.ExpectedPods:
		return "it needs every pod it covers"
	}
	return ""
}
