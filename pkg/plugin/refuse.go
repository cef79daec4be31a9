package plugin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// refusal is the first finding that forbids an upgrade, nil when none does.
func refusal(findings []preflight.Finding) *preflight.Finding {
	i := slices.IndexFunc(findings, func(f preflight.Finding) bool { return f.Severity == preflight.Refuse })
	if i < 0 {
		return nil
	}
	return &findings[i]
}

// rejectUnknownLabels refuses a label of current nodes that no node of the group has, whatever its
// value: mistyped, it would make every node outdated.
func (g *groupContext) rejectUnknownLabels(current map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(current)) {
		if !slices.ContainsFunc(g.members, func(m nodegroup.Member) bool { return labelled(&m, key) }) {
			return usage(fmt.Errorf("--current=%s=%s: no node of group %q has a label %q: check the spelling, or give the outdated nodes one too, of another value",
				key, current[key], g.group.Name, key))
		}
	}
	return nil
}

func labelled(m *nodegroup.Member, key string) bool {
	if m.Node == nil {
		return false
	}
	_, has := m.Node.Labels[key]
	return has
}
