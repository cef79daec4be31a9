package preflight

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// FirstRefusal is the first finding that forbids an upgrade, nil when none does.
func FirstRefusal(findings []Finding) *Finding {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Severity == Refuse })
	if i < 0 {
		return nil
	}
	return &findings[i]
}

// UnknownLabel is the first key of the labels of current nodes that no node of the group has,
// whatever its value, "" when there is none: mistyped, it would make every node outdated.
func UnknownLabel(current map[string]string, members []nodegroup.Member) string {
	for _, key := range slices.Sorted(maps.Keys(current)) {
		if !slices.ContainsFunc(members, func(m nodegroup.Member) bool { return m.Node != nil && labels.Set(m.Node.Labels).Has(key) }) {
			return key
		}
	}
	return ""
}
