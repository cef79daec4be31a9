package preflight

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// FirstRefusal returns the first finding that forbids an upgrade, nil if there is none.
func FirstRefusal(findings []Finding) *Finding {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Severity == Refuse })
	if i < 0 {
		return nil
	}
	return &findings[i]
}

// UnknownLabel returns the first key in current that no node of the group has as a label; "" if
// there is none. With a mistyped key every node would be outdated.
func UnknownLabel(current map[string]string, members []nodegroup.Member) string {
	for _, key := range slices.Sorted(maps.Keys(current)) {
		if !slices.ContainsFunc(members, func(m nodegroup.Member) bool { return m.Node != nil && labels.Set(m.Node.Labels).Has(key) }) {
			return key
		}
	}
	return ""
}
