package report_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// An event is sent once if a workload does not recover, once if it has recovered, and for each action that
// users may notice.
func TestUnhealthyWorkloadIsReportedOnceUntilItRecovers(t *testing.T) {
	web := record.Unhealthy{Name: "shop/Deployment/web", Pod: "web-2", Node: "n2", Why: "container app is in CrashLoopBackOff", Ready: 1, Before: 2}
	sick := report.Moment{Status: record.Status{Group: "workers", Phase: record.PhaseUpgrade, Unhealthy: []record.Unhealthy{web}}}
	well := report.Moment{Status: record.Status{Group: "workers", Phase: record.PhaseUpgrade}}
	stopping := well
	stopping.Stopping = record.WorkloadUnhealthy
	sending := well
	sending.Sent = []nodegroup.Action{
		schedule.Eviction{Namespace: "shop", Pod: "web-1"},
		schedule.Eviction{Namespace: "shop", Pod: "api-1", LastReady: 2 * time.Minute, Workload: drain.Workload{Namespace: "shop", Kind: "Deployment", Name: "api"}},
		schedule.Restart{Namespace: "shop", Deployment: "solo", Node: "n1"},
	}
	for name, c := range map[string]struct {
		before, now report.Moment
		want        []string
	}{
		"it does not recover": {well, sick, []string{"workload shop/Deployment/web (1 of 2 ready): pod web-2 on node n2: container app is in CrashLoopBackOff: no further node is started"}},
		"it is as before":     {sick, sick, nil},
		"it has recovered":    {sick, well, []string{"workload shop/Deployment/web no longer delays the upgrade"}},
		"the upgrade stops":   {sick, stopping, nil},
		"what is sent": {well, sending, []string{
			"evict pod shop/api-1, the last ready one of Deployment/api: no other became ready within 2m0s", "restart Deployment shop/solo to move its pod from node n1",
		}},
	} {
		var got []string
		for _, e := range report.DescribeChanges(c.before, c.now) {
			got = append(got, e.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
