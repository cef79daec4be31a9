package preflight

import (
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// adviseSurge returns how to have so many nodes added before the first is drained. It is empty where
// the upgrade takes no such number: no remedy may name a flag that is refused.
func adviseSurge(w *upgrade.World, nodes int) string {
	r := &w.Request
	switch managed := w.Group.Managed; {
	case managed != nil && managed.AddFirst != "":
		return "have " + nodegroup.InfoOf(w.Group.Provider).Manager.Name + " add nodes first with " + managed.AddFirst
	case !r.Strategy.Traits().TakesWidth || !w.Group.Can.Resize:
		return ""
	case r.Surge == 0: // which --update-strategy=minimal asks for, too
		return fmt.Sprintf("add nodes first with --max-surge=%d or more, without --update-strategy=minimal", max(1, nodes))
	default:
		return fmt.Sprintf("add more nodes first with --max-surge=%d or more", nodes)
	}
}

// adviseNarrower returns how to have fewer nodes drained at once.
func adviseNarrower(w *upgrade.World) string {
	if m := w.Group.Managed; m != nil && m.ChangeWidth != "" {
		return "drain fewer at a time with " + m.ChangeWidth
	}
	return "drain fewer at a time"
}

// obeysFlags reports whether the upgrade takes flags that say how nodes are drained. A group's own cloud drains
// by its own rules, and short-lived nodes are not drained.
func obeysFlags(r *record.Request) bool {
	return r.Strategy.Traits().Drains
}

// waitCompleted is the label of pods that are waited for.
const waitCompleted = drain.Label + "=wait-completed"

// adviseWaiting has the pods waited for that end by themselves.
func adviseWaiting(r *record.Request, pods, them string) string {
	if !obeysFlags(r) {
		return "begin the upgrade after the end of its work"
	}
	return fmt.Sprintf("label %s %s to have %s waited for, within --drain-timeout", pods, waitCompleted, them)
}

// adviseEnoughTime has the reader look at the time of a node's drain.
func adviseEnoughTime(r *record.Request) string {
	remedy := fmt.Sprintf("see that %s is enough for it", describeSpan(r.DrainTimeout.Duration))
	if obeysFlags(r) {
		remedy += ", which --drain-timeout says"
	}
	return remedy
}

// either joins two remedies; the first may be empty.
func either(first, second string) string {
	if first == "" {
		return second
	}
	return first + ", or " + second
}
