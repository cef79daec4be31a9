package drain

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Budget is a PodDisruptionBudget with its selector parsed once.
type Budget struct {
	*policyv1.PodDisruptionBudget
	// OfLastReady is true for a budget without an object: it keeps the last ready pod of a workload that has no
	// PodDisruptionBudget; see Budgets.WithLastReady.
	OfLastReady bool
	selector    labels.Selector
	// certain is true if the budget covers all pods with the label under which it is indexed.
	certain bool
}

// Key returns the budget's namespace and name.
func (b *Budget) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

// Room returns how many pods may be missing while all others are healthy. leaving is how many of the budget's pods are
// being deleted. With a numeric minAvailable the disruption controller expects the existing pods, including those being
// deleted (disruption.go, getExpectedPodCount). Otherwise it expects as many as their controllers should have.
func (b *Budget) Room(leaving int32) int32 {
	expected := b.Status.ExpectedPods
	if least := b.Spec.MinAvailable; least != nil && least.Type == intstr.Int {
		expected -= leaving
	}
	return expected - b.Status.DesiredHealthy
}

// Budgets finds the budgets that cover a pod. The zero value covers nothing.
type Budgets struct {
	byNamespace map[string]*namespaceBudgets
	workloads   Workloads
}

// namespaceBudgets has the budgets of a namespace. Budgets whose selector requires one value of a label are indexed by
// it. The others are tried on every pod.
type namespaceBudgets struct {
	all    []*Budget
	labels []byLabel
	others []*Budget
}

// byLabel has budgets by the value that they require of one label, sorted by name.
type byLabel struct {
	key    string
	values map[string][]*Budget
}

// label is a label key with its value.
type label struct{ key, value string }

// NewBudgets indexes PodDisruptionBudgets. As in the API server, a selector that cannot be parsed and a nil selector
// cover nothing. An empty selector covers its whole namespace (policy/v1).
func NewBudgets(pdbs []*policyv1.PodDisruptionBudget) Budgets { return Budgets{}.Renew(pdbs) }

// Renew indexes PodDisruptionBudgets again. It reuses the parsed selectors of budgets with the same UID and generation,
// because usually only the status changes.
func (b Budgets) Renew(pdbs []*policyv1.PodDisruptionBudget) Budgets {
	known := map[types.UID]*Budget{}
	for _, x := range b.byNamespace {
		for _, budget := range x.all {
			known[budget.UID] = budget
		}
	}
	byNamespace := map[string][]*Budget{}
	for _, pdb := range pdbs {
		if budget := newBudget(pdb, known[pdb.UID]); budget != nil {
			byNamespace[pdb.Namespace] = append(byNamespace[pdb.Namespace], budget)
		}
	}
	index := make(map[string]*namespaceBudgets, len(byNamespace))
	for namespace, budgets := range byNamespace {
		slices.SortFunc(budgets, compareBudgetNames)
		index[namespace] = newNamespaceBudgets(budgets)
	}
	return Budgets{byNamespace: index}
}

// WithLastReady returns the budgets, and adds budgets that keep the last ready pod of each workload behind a Service. The
// added budgets apply only to pods that no other budget covers.
func (b Budgets) WithLastReady(workloads Workloads) Budgets {
	return Budgets{byNamespace: b.byNamespace, workloads: workloads}
}

// CountsReady reports whether the budget for the last ready pod of a workload counts the pod as ready.
func (b Budgets) CountsReady(workload Workload, pod types.UID) bool {
	return b.workloads.countsReady(workload, pod)
}

// IsOfLastReady reports whether the name is that of a budget that keeps a last ready pod. No object can have such a name.
func IsOfLastReady(budget types.NamespacedName) bool { return strings.Contains(budget.Name, "/") }

// newBudget parses the budget's selector, or reuses that of the previous version. It returns nil if the selector cannot
// be parsed.
func newBudget(pdb *policyv1.PodDisruptionBudget, before *Budget) *Budget {
	if before != nil && pdb.UID != "" && before.Generation == pdb.Generation {
		return &Budget{PodDisruptionBudget: pdb, selector: before.selector}
	}
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		return nil
	}
	return &Budget{PodDisruptionBudget: pdb, selector: selector}
}

func compareBudgetNames(a, b *Budget) int { return cmp.Compare(a.Name, b.Name) }

// newNamespaceBudgets indexes each budget under the label that the fewest others require.
func newNamespaceBudgets(budgets []*Budget) *namespaceBudgets {
	asking := map[label]int{}
	for _, budget := range budgets {
		for _, l := range budget.selectorLabels() {
			asking[l]++
		}
	}
	x := &namespaceBudgets{all: budgets}
	for _, budget := range budgets {
		asked := budget.selectorLabels()
		if len(asked) == 0 {
			x.others = append(x.others, budget)
			continue
		}
		requirements, _ := budget.selector.Requirements()
		budget.certain = len(requirements) == 1
		x.addBudget(budget, slices.MinFunc(asked, func(a, b label) int { return cmp.Compare(asking[a], asking[b]) }))
	}
	return x
}

func (x *namespaceBudgets) addBudget(budget *Budget, under label) {
	i := slices.IndexFunc(x.labels, func(l byLabel) bool { return l.key == under.key })
	if i < 0 {
		i = len(x.labels)
		x.labels = append(x.labels, byLabel{key: under.key, values: map[string][]*Budget{}})
	}
	x.labels[i].values[under.value] = append(x.labels[i].values[under.value], budget)
}

// selectorLabels returns the labels that the selector requires with one value.
func (b *Budget) selectorLabels() (all []label) {
	requirements, _ := b.selector.Requirements()
	for i := range requirements {
		switch r := &requirements[i]; r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				all = append(all, label{r.Key(), values[0]})
			}
		}
	}
	return all
}

// Covering returns the budgets whose selector matches the pod, sorted by name. The caller must not change the slice.
// The API server refuses to evict a running pod that more than one budget covers.
func (b Budgets) Covering(pod *corev1.Pod) []*Budget {
	if covering := b.coveringObjects(pod); len(covering) > 0 {
		return covering
	}
	if r := b.workloads.Of(pod); r != nil {
		return r.last
	}
	return nil
}

// Covers reports whether the budget's selector matches the pod.
func (b Budgets) Covers(budget types.NamespacedName, pod *corev1.Pod) bool {
	return slices.ContainsFunc(b.Covering(pod), func(covering *Budget) bool { return covering.Key() == budget })
}

// coveringObjects returns the PodDisruptionBudgets that cover the pod.
func (b Budgets) coveringObjects(pod *corev1.Pod) []*Budget {
	x := b.byNamespace[pod.Namespace]
	if x == nil {
		return nil
	}
	covering := matchingBudgets(nil, x.others, pod)
	for i := range x.labels {
		if value, labelled := pod.Labels[x.labels[i].key]; labelled {
			covering = matchingBudgets(covering, x.labels[i].values[value], pod)
		}
	}
	if len(covering) > 1 {
		slices.SortFunc(covering, compareBudgetNames)
	}
	return covering
}

// matchingBudgets appends the budgets that match the pod to covering. A single match is returned as a part of its list,
// without a copy.
func matchingBudgets(covering, budgets []*Budget, pod *corev1.Pod) []*Budget {
	for i, budget := range budgets {
		switch {
		case !budget.certain && !budget.selector.Matches(labels.Set(pod.Labels)):
		case covering == nil:
			covering = budgets[i : i+1 : i+1]
		default:
			covering = append(covering, budget)
		}
	}
	return covering
}

// WhyNeverOpens returns why the budget can never open by itself, or "" if it may. The user must change the budget or its
// workload (PDB001, PDB003, PDB004).
func (b *Budget) WhyNeverOpens() string {
	st := b.Status
	failure := SyncFailure(&st)
	switch {
	case failure != nil:
		return "its status cannot be computed: " + failure.Message
	case st.ObservedGeneration == 0:
		return ""
	case st.ExpectedPods == 0:
		return "it counts no pods, so its budget stays 0"
	case st.DesiredHealthy >= st.ExpectedPods:
		return "it needs every pod that it covers"
	}
	return ""
}

// SyncFailure returns the condition that the disruption controller cannot compute the status, or nil (disruption.go,
// updatePdbStatus). Such a budget stays closed.
func SyncFailure(st *policyv1.PodDisruptionBudgetStatus) *metav1.Condition {
	allowed := meta.FindStatusCondition(st.Conditions, policyv1.DisruptionAllowedCondition)
	if allowed == nil || allowed.Reason != policyv1.SyncFailedReason {
		return nil
	}
	return allowed
}
