package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// findMistypedBudgets implements rule PDB011.
func findMistypedBudgets(s *Scene) []Finding {
	covers := map[types.NamespacedName]bool{}
	for _, pod := range s.Pods {
		for _, budget := range s.World.Budgets.Covering(pod) {
			covers[budget.Key()] = true
		}
	}
	var found []Finding
	for _, budget := range s.Budgets {
		if covers[types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}] || budget.Spec.Selector == nil {
			continue
		}
		for _, w := range s.Workloads {
			if w.Namespace != budget.Namespace || len(w.Budgets) > 0 || !w.IsScaled() {
				continue
			}
			if typos := findLabelTypos(budget.Spec.Selector.MatchLabels, w.Model().Labels); len(typos) > 0 {
				found = append(found, describeLabelTypos(budget, w, typos))
			}
		}
	}
	return found
}

// labelTypo is a label of a selector that has a typing error.
type labelTypo struct{ key, value, meantKey, meantValue string }

// findLabelTypos returns the typing errors in a selector, compared with the labels of pods. It returns
// nil if all labels match, or if a label differs by more than a typing error.
func findLabelTypos(selector, labels map[string]string) []labelTypo {
	var typos []labelTypo
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		value := selector[key]
		has, ok := labels[key]
		switch {
		case ok && has == value:
		case ok && isMistyped(value, has):
			typos = append(typos, labelTypo{key, value, key, has})
		case ok:
			return nil // the label belongs to another app
		default:
			meant := keyOfValue(labels, value)
			if meant == "" {
				return nil
			}
			typos = append(typos, labelTypo{key, value, meant, value})
		}
	}
	return typos
}

// keyOfValue returns the key of the label with the value, "" if there is none.
func keyOfValue(labels map[string]string, value string) string {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] == value {
			return key
		}
	}
	return ""
}

// minTypoLength is the minimum length of a value in which a missing letter counts as a typing
// error. Shorter values are more often different names.
const minTypoLength = 5

// isMistyped reports whether the values differ only in case, in separators, or by one added,
// missing or swapped letter. A digit or a single character after a separator counts as a different
// workload: worker-1, worker-a.
func isMistyped(a, b string) bool {
	plain := func(text string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(text))
	}
	if plain(a) == plain(b) {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < minTypoLength {
		return false
	}
	same := 0
	for same < len(a) && a[same] == b[same] {
		same++
	}
	if len(a) == len(b) {
		return same+1 < len(a) && a[same] == b[same+1] && a[same+1] == b[same] && a[same+2:] == b[same+2:]
	}
	return isLetter(b[same]) && a[same:] == b[same+1:]
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func describeLabelTypos(budget *policyv1.PodDisruptionBudget, w *Workload, typos []labelTypo) Finding {
	labels, meant := fields{}, []string{}
	typed := []string{}
	for _, s := range typos {
		typed, meant = append(typed, s.key+"="+s.value), append(meant, s.meantKey+"="+s.meantValue)
		if s.key != s.meantKey {
			labels[s.key] = nil
		}
		labels[s.meantKey] = s.meantValue
	}
	return Finding{
		Object: fmt.Sprintf("PDB %s/%s", budget.Namespace, budget.Name), Workload: w.String(),
		Message: fmt.Sprintf("it covers no pod: it selects %s, but the pods of %s have the labels %s and no budget", strings.Join(typed, ","), w, strings.Join(meant, ",")),
		Remedy:  "select " + strings.Join(meant, ","),
		Fix:     patchCommand(mergePatch, "pdb", budget.Namespace, budget.Name, fields{"spec": fields{"selector": fields{"matchLabels": labels}}}),
	}
}
