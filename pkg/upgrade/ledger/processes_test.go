package ledger_test

import (
	"slices"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

func TestOnlyRunningProcessesAreSuspended(t *testing.T) {
	v := view()
	v.Group.Quiesce, v.Group.Suspended = []string{"AZRebalance", "AlarmNotification"}, []string{"AlarmNotification"}
	v.Quiesce = v.Group.Quiesce
	ours, decided := ledger.SuspendProcesses(v)
	wantDecision(t, decided, ledger.Decision{Poll: true, Actions: actions(nodegroup.Quiesce{Processes: []string{"AZRebalance"}})})
	if !slices.Equal(ours, []string{"AZRebalance"}) {
		t.Errorf("the upgrade suspended %v", ours)
	}
	v.Suspended, v.Group.Suspended = ours, v.Group.Quiesce
	ours, decided = ledger.SuspendProcesses(v)
	wantDecision(t, decided, ledger.Decision{Done: true})
	if !slices.Equal(ours, v.Suspended) {
		t.Errorf("then the upgrade suspended %v", ours)
	}
}

func TestOnlyOwnSuspendedProcessesAreResumed(t *testing.T) {
	process := []string{"AZRebalance"}
	cases := map[string]struct {
		change func(*ledger.View)
		want   ledger.Decision
	}{
		"ours":                     {func(*ledger.View) {}, ledger.Decision{Poll: true, Actions: actions(nodegroup.Resume{Processes: process})}},
		"another actor's":          {func(v *ledger.View) { v.Suspended = nil }, ledger.Decision{Done: true}},
		"resumed by another actor": {func(v *ledger.View) { v.Group.Suspended = nil }, ledger.Decision{Done: true}},
		"the zones are uneven":     {func(v *ledger.View) { v.Counts.Zones = map[string]int{"a": 4, "b": 2} }, ledger.Decision{Done: true}},
		"others of ours do no harm then": {func(v *ledger.View) {
			v.Suspended = []string{"AZRebalance", "AlarmNotification"}
			v.Counts.Zones, v.Group.Suspended = map[string]int{"a": 4, "b": 2}, v.Suspended
		}, ledger.Decision{Poll: true, Actions: actions(nodegroup.Resume{Processes: []string{"AlarmNotification"}})}},
		"they were so at the start":  {func(v *ledger.View) { v.Counts.Zones = map[string]int{"a": 4, "b": 2}; v.Before.Zones = v.Counts.Zones }, ledger.Decision{Poll: true, Actions: actions(nodegroup.Resume{Processes: process})}},
		"it is just being suspended": {func(v *ledger.View) { v.Open["quiesce"] = nodegroup.Attempt{InFlight: true} }, ledger.Decision{Poll: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := view()
			v.Suspended, v.Group.Suspended, v.Group.Quiesce = process, process, process
			c.change(&v)
			wantDecision(t, ledger.ResumeProcesses(v), c.want)
		})
	}
}
