package preflight

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// keep records a pod that stays on its node until a user changes something. object is its name in findings.
func (c *coverage) keep(pod *corev1.Pod, object string) {
	if c.kept == nil {
		c.kept, c.keptOf = map[string]string{}, map[string]int{}
	}
	owner := object
	if w := drain.WorkloadOf(pod); w != (drain.Workload{}) {
		owner = w.String()
	}
	if c.kept[object] == "" {
		c.keptOf[owner]++
	}
	c.kept[object] = owner
}

// addDeletions adds to the findings about kept pods what a cloud that upgrades the group does with them at the end of the drain. It adds
// nothing if this tool drains the nodes, or if the cloud's upgrade would fail.
func (c *coverage) addDeletions(found []Finding) {
	request := &c.world.Request
	if !request.Strategy.Traits().ByCloud || request.OnTimeout != record.Force {
		return
	}
	manager, limit := nodegroup.InfoOf(c.world.Group.Provider).Manager.Name, describeSpan(request.DrainTimeout.Duration)
	for i := range found {
		f := &found[i]
		owner := c.kept[f.Object]
		if owner == "" || f.Severity != Block {
			continue
		}
		pods := "it"
		if owner != f.Object {
			pods = formatCount(c.keptOf[owner], "pod") + " of " + owner
		}
		if how := request.ReplacedBy().Traits(); how.KeepsNodes && !how.ByAutoscaler {
			f.Message += fmt.Sprintf("; %s goes on after %s, and will delete %s after the soak", manager, limit, pods)
		} else {
			f.Message += fmt.Sprintf("; %s will delete %s after %s", manager, pods, limit)
		}
	}
}
