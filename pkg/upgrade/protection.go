package upgrade

import (
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// watchProtection stops the upgrade when somebody protects one of its outdated instances against
// removal: AWS would not keep us from terminating it, since its protection is against scale-in
// alone. What is on its way out already goes.
func (t *turn) watchProtection() {
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if !m.Outdated || !m.Instance.Protected || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if n, started := t.rec.started(m); started && n.State == NodeRemoving {
			continue
		}
		t.fail(Paused, fmt.Sprintf("instance %s (node %s) was protected against scale-in by another actor during the upgrade: take that away and run "+
			"kubectl nodeupgrade resume %s to continue, or kubectl nodeupgrade abort %s", m.Instance.ID, m.Name(), t.w.Group.Name, t.w.Group.Name))
		return
	}
}
