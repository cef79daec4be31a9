package upgrade

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// WithoutCloud is what the record and the cluster tell of an upgrade whose group cannot be read
// from its cloud: the nodes that were started, and what keeps their pods from leaving. Sizes and
// zones of the group are not known then. The view needs the pods of Record.InFlight alone.
func WithoutCloud(r *Record, view *View, now time.Time) (Status, []Blocked) {
	s := Status{
		Group: r.Request.Group, Back: r.Back, Phase: r.Phase, Since: r.PhaseBegan,
		Total: r.Total, Replaced: r.Replaced, Outdated: max(0, r.Total-r.Replaced), Owed: r.Ledger.Contribution(),
	}
	var blocked []Blocked
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) {
		n := r.Nodes[name]
		status := NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
		for _, pod := range view.Pods[name] {
			verdict := drain.Judge(pod, r.Request.Policy(), false)
			if verdict.Fate == drain.Stay {
				status.Staying++
				continue
			}
			status.Pods++
			if o := drain.FindObstacle(pod, verdict, view.Budgets, view.EndingNamespaces); o.Kind != drain.NoObstacle && isInDrain(n.State) {
				key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
				blocked = append(blocked, Blocked{Node: name, Pod: key, Obstacle: o, Since: now, Forces: r.Request.OnTimeout == Force})
			}
		}
		if !n.Added && n.State != NodeDrained {
			s.Outdated = max(0, s.Outdated-1)
		}
		s.Nodes = append(s.Nodes, status)
	}
	return s, blocked
}
