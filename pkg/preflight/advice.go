package preflight

import (
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// adviseSurge returns advice to add this many nodes before the first one is drained. It returns "" if the upgrade has no such
// setting, since a remedy must not name a flag that is refused.
func adviseSurge(w *upgrade.World, nodes int) string {
	r := &w.Request
	switch managed := w.Group.Managed; {
	case managed != nil && managed.AddFirst != "":
		return "make " + nodegroup.InfoOf(w.Group.Provider).Manager.Name + " add nodes first: run " + managed.AddFirst
	case !r.Strategy.Traits().TakesWidth || !w.Group.Can.Resize:
		return ""
	case r.Surge == 0: // --update-strategy=minimal sets 0, too
		return fmt.Sprintf("add nodes first with --max-surge=%d or more (not together with --update-strategy=minimal)", max(1, nodes))
	default:
		return fmt.Sprintf("add more nodes first with --max-surge=%d or more", nodes)
	}
}

// adviseFewerNodes returns advice to drain fewer nodes concurrently.
func adviseFewerNodes(w *upgrade.World) string {
	if m := w.Group.Managed; m != nil && m.ChangeWidth != "" {
		return "drain fewer nodes at a time: run " + m.ChangeWidth
	}
	return "drain fewer nodes at a time"
}

// obeysDrainFlags reports whether the flags about drains have an effect. A cloud that drains nodes itself uses its own rules, and
// short-lived nodes are not drained.
func obeysDrainFlags(r *record.Request) bool {
	return r.Strategy.Traits().Drains
}

// waitCompleted is the label of pods whose completion a drain waits for.
const waitCompleted = drain.Label + "=wait-completed"

// adviseWaiting returns advice to wait for pods that end by themselves.
func adviseWaiting(r *record.Request, pods, them string) string {
	if !obeysDrainFlags(r) {
		return "start the upgrade after its work has finished"
	}
	return fmt.Sprintf("label %s %s: the drain then waits for %s, up to --drain-timeout", pods, waitCompleted, them)
}

// adviseTimeCheck returns advice to check the time limit of a node's drain.
func adviseTimeCheck(r *record.Request) string {
	remedy := fmt.Sprintf("check that %s is enough for it", describeSpan(r.DrainTimeout.Duration))
	if obeysDrainFlags(r) {
		remedy += " (--drain-timeout)"
	}
	return remedy
}

// joinAlternatives joins two remedies with "or". The first may be empty.
func joinAlternatives(first, second string) string {
	if first == "" {
		return second
	}
	return first + ", or " + second
}
