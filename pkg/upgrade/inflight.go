package upgrade

import (
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// mayBeBooting reports whether a member has no node yet, or one that joined since the upgrade began
// or so shortly before that it may still have been booting then.
func mayBeBooting(r *record.Record, m *nodegroup.Member) bool {
	return m.Node == nil || m.Node.CreationTimestamp.After(r.Started.Add(-r.Request.BootTimeout.Duration))
}

// describeRollback says that the way back is at its end.
func describeRollback(r *record.Record) string {
	if !r.Back {
		return ""
	}
	return "rolled back to " + r.Target.Name
}
