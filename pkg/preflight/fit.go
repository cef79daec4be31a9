package preflight

import (
	"cmp"
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// longestSurge is how long a pod may take to shut down where nodes are replaced one after the other
// (GKE G07, G15).
const longestSurge = time.Hour

// checkStrategy is STR001: another strategy suits the pods better than the one that was asked for.
func checkStrategy(w *upgrade.World) []Finding {
	if w.Request.Strategy == upgrade.Delegated {
		return nil
	}
	fits, reason := FitStrategy(w.Members, w.Request.Policy())
	if fits == cmp.Or(w.Request.Strategy, upgrade.Surge) || (fits == upgrade.BlueGreen && !w.Group.Sized) {
		return nil
	}
	return []Finding{{Rule: "STR001", Severity: Warn, Message: fmt.Sprintf("--strategy=%s fits better: %s", fits, reason)}}
}

// FitStrategy is the strategy that suits the pods which have to move, and why (GKE G07).
func FitStrategy(members []nodegroup.Member, policy drain.Policy) (strategy upgrade.Strategy, reason string) {
	longest := time.Duration(0)
	name := ""
	for i := range members {
		if !members[i].Outdated {
			continue
		}
		for _, pod := range members[i].Pods {
			grace := pod.Spec.TerminationGracePeriodSeconds
			if grace == nil || drain.Judge(pod, policy, false).Fate == drain.Stay {
				continue
			}
			if g := time.Duration(*grace) * time.Second; g > longest {
				longest, name = g, pod.Namespace+"/"+pod.Name
			}
		}
	}
	if longest > longestSurge {
		return upgrade.BlueGreen, fmt.Sprintf("pod %s may take %s to shut down, and a surge is for pods that need an hour at most", name, longest)
	}
	return upgrade.Surge, "every pod that must move is to shut down within an hour, and no second node is paid for each"
}
