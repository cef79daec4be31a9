package upgrade_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestSurgeHasFivePhasesInOrder checks EKS E01.
func TestSurgeHasFivePhasesInOrder(t *testing.T) {
	want := []record.Phase{record.PhaseSetup, record.PhaseScaleUp, record.PhaseUpgrade, record.PhaseScaleDown, record.PhaseDone}
	if got := upgrade.Phases(record.Surge); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPhaseDecidesWhichVerbsAreAllowed checks each phase of each strategy (GKE G25, G28).
func TestPhaseDecidesWhichVerbsAreAllowed(t *testing.T) {
	undo := []record.Verb{record.VerbPause, record.VerbRollback, record.VerbAbort}
	forth := []record.Verb{record.VerbPause, record.VerbAbort}
	cases := map[record.Strategy]map[record.Phase][]record.Verb{
		record.Surge: {record.PhaseSetup: undo, record.PhaseScaleUp: undo, record.PhaseUpgrade: undo, record.PhaseScaleDown: undo, record.PhaseDone: nil},
		record.BlueGreen: {
			record.PhaseSetup: undo, record.PhaseCreateGreen: undo, record.PhaseCordonBlue: undo, record.PhaseDrainBlue: undo,
			record.PhaseSoak:       append([]record.Verb{record.VerbComplete}, undo...),
			record.PhaseDeleteBlue: {record.VerbAbort}, record.PhaseScaleDown: {record.VerbAbort}, record.PhaseDone: nil,
		},
		record.AutoscaledBlueGreen: { // G78: no rollback
			record.PhaseSetup: forth, record.PhaseCordonBlue: forth, record.PhaseWait: forth, record.PhaseDrainBlue: forth,
			record.PhaseDeleteBlue: {record.VerbAbort}, record.PhaseScaleDown: {record.VerbAbort}, record.PhaseDone: nil,
		},
		record.ShortLived: {record.PhaseSetup: {record.VerbAbort}, record.PhaseExpire: {record.VerbAbort}, record.PhaseDone: nil},
		record.Delegated: {
			record.PhaseSetup: {record.VerbAbort}, record.PhaseFollow: {record.VerbAbort}, record.PhaseSoak: {record.VerbAbort, record.VerbComplete},
			record.PhaseDeleteBlue: {record.VerbAbort}, record.PhaseExpire: {record.VerbAbort}, record.PhaseDone: nil,
		},
	}
	for _, strategy := range record.Strategies() {
		for _, phase := range upgrade.Phases(strategy) {
			want, listed := cases[strategy][phase]
			if !listed {
				t.Errorf("%s: phase %q is not in the table", strategy, phase)
			}
			rec := record.Record{Request: record.Request{Strategy: strategy}, Phase: phase}
			for _, verb := range []record.Verb{record.VerbPause, record.VerbRollback, record.VerbAbort, record.VerbComplete} {
				if err := upgrade.Allows(&rec, verb); (err == nil) != slices.Contains(want, verb) {
					t.Errorf("%s, phase %q, verb %s: got error %v", strategy, phase, verb, err)
				}
			}
		}
	}
	rec := record.Record{Request: record.Request{Strategy: record.Surge}, Phase: record.PhaseUpgrade}
	checkError(t, upgrade.Allows(&rec, record.VerbComplete), "its strategy is surge, which has no soak to end")
	rec.Phase = record.PhaseDone
	checkError(t, upgrade.Allows(&rec, record.VerbPause), `it is in phase "done", which does not allow pause`)
}

func TestPlanDescribesStrategyWithItsLimits(t *testing.T) {
	minutes := func(n int) record.Duration { return record.Duration{Duration: time.Duration(n) * time.Minute} }
	limits := record.Request{Like: "eks", Window: 3, MaxUnavailable: 2, Surge: 1, DrainTimeout: minutes(15), OnTimeout: record.Fail, Settle: minutes(1), WaitForDrain: minutes(60)}
	for want, change := range map[string]func(*record.Request){
		"surge, with EKS's numbers: at most 3 nodes at a time, 2 unavailable; 15m to drain each, else the upgrade stops; 1m from empty to terminated":                           func(r *record.Request) { r.Strategy = record.Surge },
		"surge, with GKE's numbers: at most 3 nodes at a time, 2 unavailable, one zone after the other; 15m to drain each, else the upgrade stops; 1m from empty to terminated": func(r *record.Request) { r.Strategy, r.Like = record.Surge, "gke" },
		"blue-green without a drain: a new node for each outdated one; then the outdated nodes are deleted":                                                                     func(r *record.Request) { r.Strategy, r.BlueGreen = record.BlueGreen, &record.BlueGreenRequest{} },
		"blue-green without a drain: a new node for each outdated one; then":                                                                                                    func(r *record.Request) { r.Strategy = record.BlueGreen },
		"blue-green, one node at a time: a new node for each outdated one; 15m to drain each, pods that are left are deleted at the end; then the": func(r *record.Request) {
			r.Strategy, r.BlueGreen = record.BlueGreen, &record.BlueGreenRequest{Batch: 1}
		},
		"blue-green, 4 nodes at a time: a new node for each outdated one; 15m to drain each, pods that are left are deleted at the end; 5m after each batch; a soak of 1h before": func(r *record.Request) {
			r.Strategy, r.BlueGreen = record.BlueGreen, &record.BlueGreenRequest{Batch: 4, BatchSoak: minutes(5), Soak: minutes(60)}
		},
		"autoscaled-blue-green: all outdated nodes are fenced; for 1h only idle ones are removed; then at most 3 nodes are drained at a time; 15m to drain each": func(r *record.Request) { r.Strategy = record.AutoscaledBlueGreen },
		"short-lived: new nodes are current; no node is fenced, drained or removed":                                                                              func(r *record.Request) { r.Strategy = record.ShortLived },
		"EKS upgrades the group itself, rolling update: at most 2 unavailable; 15m to drain a node, then the update fails":                                       func(r *record.Request) { r.Strategy, r.Window = record.Delegated, 2 },
		"EKS upgrades the group itself, force update: at most 2 unavailable; 15m to drain a node, then its pods are deleted even against":                        func(r *record.Request) { r.Strategy, r.Window, r.OnTimeout = record.Delegated, 2, record.Force },
	} {
		r := limits
		change(&r)
		if got := upgrade.DescribeRequest(&r, "aws"); !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}
