package report

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func TestMaintenanceOfUnreadSettingsIsUnknown(t *testing.T) {
	on, off := true, false
	for want, m := range map[string]*nodegroup.Maintenance{
		"": nil,
		"Maintenance it is unknown whether GKE upgrades the group by itself; windows: daily from 03:00 UTC for 4h":             {Windows: []string{"daily from 03:00 UTC for 4h"}},
		"Maintenance GKE does not upgrade the group by itself":                                                                 {Automatic: &off},
		"Maintenance GKE upgrades the group by itself, at any time of the day, the next time at about 2026-12-03T03:00:00Z":    {Automatic: &on, Next: time.Date(2026, 12, 3, 3, 0, 0, 0, time.UTC)},
		"Maintenance GKE upgrades the group by itself; windows: daily from 03:00 UTC for 4h; exclusions: no upgrades (freeze)": {Automatic: &on, Windows: []string{"daily from 03:00 UTC for 4h"}, Exclusions: []string{"no upgrades (freeze)"}},
	} {
		if got := strings.Join(maintenanceLines(m, "gke"), "\n"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for provider, want := range map[string]string{"gke": "Maintenance unknown: the group's settings at GKE were not read", "aws": ""} {
		if got := strings.Join((&UpgradeStatus{Unread: "denied", OperationOf: provider}).maintenanceLines(), "\n"); got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
}

func TestPlanNamesPodsThatCloudWillDelete(t *testing.T) {
	past := simulate.Deletion{Workload: "db/StatefulSet/pg", Pods: 3, PastBudget: 3, After: record.Duration{Duration: time.Hour}}
	slow := simulate.Deletion{Workload: "ml/Job/train", Pods: 1, After: record.Duration{Duration: time.Hour}}
	for want, deletions := range map[string][]simulate.Deletion{
		"GKE will delete 3 pods against their budgets: 3 of db/StatefulSet/pg after 60m":                                         {past},
		"GKE will delete 1 pod: 1 of ml/Job/train after 60m":                                                                     {slow},
		"GKE will delete 4 pods, 3 of them against their budgets: 3 of db/StatefulSet/pg after 60m, 1 of ml/Job/train after 60m": {past, slow},
	} {
		p := &Plan{Provider: "gke", Request: record.Request{Strategy: record.Delegated}, Deletions: deletions}
		if got := p.describeDeletions(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPlanShowsLongestGracePeriodOfGroup(t *testing.T) {
	group := &nodegroup.Group{Name: "workers", Provider: "gke", Wanted: nodegroup.Revision{ID: "2", Name: "workers:2"}, Managed: &nodegroup.Managed{}}
	members := []nodegroup.Member{{Outdated: true, Instance: nodegroup.Instance{ID: "i-1"}}}
	for grace, want := range map[time.Duration]string{0: "", 10 * time.Minute: "Grace       GKE gives pods at most 10m to end, as the group's settings say"} {
		group.Managed.MaxGrace = grace
		plan := NewPlan(Plan{}, group, members, &simulate.Forecast{}, false)
		lines := strings.Join(planHeaderLines(plan), "\n")
		if has := strings.Contains(lines, "Grace "); has != (want != "") || !strings.Contains(lines, want) {
			t.Errorf("got\n%s\nwant %q", lines, want)
		}
	}
}
