package simulate

import (
	"cmp"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Forecast is what an upgrade would do, seen in virtual time.
type Forecast struct {
	// Nodes are the outdated nodes in the order they would be started.
	Nodes []NodeForecast
	// Peak is the largest desired size of the group.
	Peak int
	// Result is how it would end; nodes that cannot be drained are set aside for it.
	Result upgrade.Result
}

// NodeForecast is one node's part.
type NodeForecast struct {
	Name  string
	Batch int
	// Stuck says what would keep the node from being drained in its time; empty when nothing would.
	Stuck string
}

// Predict runs the upgrade in a copy of the cluster. A node that would not be empty in its time is
// set aside, so that the forecast tells of all nodes.
func Predict(spec Spec, req upgrade.Request) (Forecast, error) {
	req.OnTimeout, req.WaitReplacement = upgrade.Skip, false
	req.Run = cmp.Or(req.Run, "forecast") // the run gets its name when it begins
	c := New(spec)
	var f Forecast
	seen := map[string]int{}
	record, err := c.Run(req, func(w upgrade.World, step upgrade.Step) {
		f.Peak = max(f.Peak, w.Group.Desired)
		fresh := len(f.Nodes)
		for name, n := range step.Record.Nodes {
			i, known := seen[name]
			if !known && n.Batch > 0 {
				i = len(f.Nodes)
				seen[name] = i
				f.Nodes = append(f.Nodes, NodeForecast{Name: name, Batch: n.Batch})
			}
			if n.State == upgrade.NodeQuarantined {
				f.Nodes[i].Stuck = n.Reason
			}
		}
		slices.SortFunc(f.Nodes[fresh:], func(a, b NodeForecast) int {
			return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Name, b.Name))
		})
		for i := fresh; i < len(f.Nodes); i++ {
			seen[f.Nodes[i].Name] = i
		}
	})
	f.Result = record.Result
	return f, err
}
