package report

import (
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// maintenanceLines returns a line that says when the provider's cloud upgrades a group by itself. It returns nil if that was not read.
func maintenanceLines(m *nodegroup.Maintenance, provider string) []string {
	if m == nil {
		return nil
	}
	manager := managerName(provider)
	text := "it is unknown whether " + manager + " upgrades the group by itself"
	switch {
	case m.Automatic != nil && !*m.Automatic:
		text = manager + " does not upgrade the group by itself"
	case m.Automatic != nil && len(m.Windows) == 0:
		text = manager + " upgrades the group by itself, at any time of the day"
	case m.Automatic != nil:
		text = manager + " upgrades the group by itself"
	}
	if !m.Next.IsZero() {
		text += ", the next time at about " + m.Next.UTC().Format(time.RFC3339)
	}
	if len(m.Windows) > 0 {
		text += "; windows: " + strings.Join(m.Windows, ", ")
	}
	if len(m.Exclusions) > 0 {
		text += "; exclusions: " + strings.Join(m.Exclusions, ", ")
	}
	return []string{"Maintenance " + text}
}

// maintenanceLines returns a line that says when the group's cloud upgrades it by itself, also if that is not known.
func (s *UpgradeStatus) maintenanceLines() []string {
	if manager := nodegroup.InfoOf(s.OperationOf).Manager; s.Unread != "" && manager.Maintains {
		return []string{"Maintenance unknown: the group's settings at " + manager.Name + " were not read"}
	}
	return maintenanceLines(s.Maintenance, s.OperationOf)
}

// managerName returns the name of the service that upgrades groups of the provider.
func managerName(provider string) string {
	if name := nodegroup.InfoOf(provider).Manager.Name; name != "" {
		return name
	}
	return "the cloud"
}
