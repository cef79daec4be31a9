package drain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// With a numeric minAvailable, pods that are leaving count as expected (disruption.go, getExpectedPodCount).
func TestBudgetAllowsDisruptionsFromItsSpec(t *testing.T) {
	number, share := intstr.FromInt32(7), intstr.FromString("50%")
	cases := map[string]struct {
		spec              policyv1.PodDisruptionBudgetSpec
		expected, desired int32
		leaving, want     int32
	}{
		"maxUnavailable":                          {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &number}, 8, 7, 0, 1},
		"maxUnavailable, one leaves":              {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &number}, 8, 7, 1, 1},
		"minAvailable, a share, two leave":        {policyv1.PodDisruptionBudgetSpec{MinAvailable: &share}, 8, 4, 2, 4},
		"minAvailable, a number":                  {policyv1.PodDisruptionBudgetSpec{MinAvailable: &number}, 8, 7, 0, 1},
		"minAvailable, a number, one leaves":      {policyv1.PodDisruptionBudgetSpec{MinAvailable: &number}, 9, 7, 1, 1},
		"minAvailable, a number, of fewer by now": {policyv1.PodDisruptionBudgetSpec{MinAvailable: &number}, 6, 7, 1, -2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pdb := build.Budget("web", build.Counts(c.expected, c.expected, c.desired))
			pdb.Spec = c.spec
			budget := drain.Budget{PodDisruptionBudget: pdb}
			if got := budget.Room(c.leaving); got != c.want {
				t.Errorf("room for %d, want %d", got, c.want)
			}
		})
	}
}

// drawLabels returns up to three random labels with few keys and values, so that they often match.
func drawLabels(r *rand.Rand) map[string]string {
	set := map[string]string{}
	for range r.IntN(4) {
		set[fmt.Sprintf("key-%d", r.IntN(3))] = fmt.Sprintf("value-%d", r.IntN(3))
	}
	return set
}

func drawSelector(r *rand.Rand) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: drawLabels(r)}
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	for range r.IntN(2) {
		e := metav1.LabelSelectorRequirement{Key: fmt.Sprintf("key-%d", r.IntN(3)), Operator: operators[r.IntN(len(operators))]}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + r.IntN(2) {
				e.Values = append(e.Values, fmt.Sprintf("value-%d", r.IntN(3)))
			}
		}
		selector.MatchExpressions = append(selector.MatchExpressions, e)
	}
	return selector
}

// The index finds the same budgets as trying each one. After a change of its spec a budget covers the pods of the new
// selector. A change of its status does not change which pods it covers.
func TestRenewedBudgetIndexUsesChangedSelector(t *testing.T) {
	budget := func(uid types.UID, generation int64, app string) *policyv1.PodDisruptionBudget {
		pdb := build.Budget(app, build.Counts(4, 4, 2))
		pdb.Name, pdb.UID, pdb.Generation = "budget", uid, generation
		return pdb
	}
	web := build.Pod("web-0", build.App("web"))
	before := drain.NewBudgets([]*policyv1.PodDisruptionBudget{budget("1", 1, "web")})
	for name, c := range map[string]struct {
		now  *policyv1.PodDisruptionBudget
		want int
	}{
		"the same":                    {budget("1", 1, "web"), 1},
		"another selector":            {budget("1", 2, "cart"), 0},
		"another of the name":         {budget("2", 1, "cart"), 0},
		"nothing that tells it apart": {budget("", 1, "cart"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := before.Renew([]*policyv1.PodDisruptionBudget{c.now}).Covering(web)
			if len(got) != c.want || (len(got) == 1 && got[0].PodDisruptionBudget != c.now) {
				t.Errorf("covered by %v, want %d", got, c.want)
			}
		})
	}
}

func TestBudgetCoversPodsThatItsSelectorMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	found := 0
	for range 300 {
		var pdbs []*policyv1.PodDisruptionBudget
		for i := range r.IntN(8) {
			pdbs = append(pdbs, build.Budget(fmt.Sprintf("budget-%d", i), build.Selecting(drawSelector(r))))
		}
		budgets := drain.NewBudgets(pdbs)
		for range 10 {
			pod := build.Pod("web-0", func(p *corev1.Pod) { p.Labels = drawLabels(r) })
			var want, got []string
			for _, pdb := range pdbs {
				selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
				if err != nil {
					t.Fatal(err)
				}
				if selector.Matches(labels.Set(pod.Labels)) {
					want = append(want, pdb.Name)
				}
			}
			for _, budget := range budgets.Covering(pod) {
				got = append(got, budget.Name)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("labels %v: got %v, want %v", pod.Labels, got, want)
			}
			found += len(got)
		}
	}
	if found < 1000 {
		t.Errorf("only %d budgets matched", found)
	}
}
