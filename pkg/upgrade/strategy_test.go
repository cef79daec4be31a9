package upgrade_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// TestPhasesOfSurge holds the phases and their order (EKS E01).
func TestPhasesOfSurge(t *testing.T) {
	want := []upgrade.Phase{upgrade.PhaseSetup, upgrade.PhaseScaleUp, upgrade.PhaseUpgrade, upgrade.PhaseScaleDown, upgrade.PhaseDone}
	if got := upgrade.Phases(upgrade.Surge); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestVerbsByPhase is the table of verbs that a user may ask for, strategy by strategy (GKE G25,
// G28).
func TestVerbsByPhase(t *testing.T) {
	undo := []upgrade.Verb{upgrade.VerbPause, upgrade.VerbRollback, upgrade.VerbAbort}
	forth := []upgrade.Verb{upgrade.VerbPause, upgrade.VerbAbort}
	cases := map[upgrade.Strategy]map[upgrade.Phase][]upgrade.Verb{
		upgrade.Surge: {upgrade.PhaseSetup: undo, upgrade.PhaseScaleUp: undo, upgrade.PhaseUpgrade: undo, upgrade.PhaseScaleDown: undo, upgrade.PhaseDone: nil},
		upgrade.BlueGreen: {
			upgrade.PhaseSetup: undo, upgrade.PhaseCreateGreen: undo, upgrade.PhaseCordonBlue: undo, upgrade.PhaseDrainBlue: undo,
			upgrade.PhaseSoak:       append([]upgrade.Verb{upgrade.VerbComplete}, undo...),
			upgrade.PhaseDeleteBlue: {upgrade.VerbAbort}, upgrade.PhaseScaleDown: {upgrade.VerbAbort}, upgrade.PhaseDone: nil,
		},
		upgrade.AutoscaledBlueGreen: { // G78: there is no way back
			upgrade.PhaseSetup: forth, upgrade.PhaseCordonBlue: forth, upgrade.PhaseWait: forth, upgrade.PhaseDrainBlue: forth,
			upgrade.PhaseDeleteBlue: {upgrade.VerbAbort}, upgrade.PhaseScaleDown: {upgrade.VerbAbort}, upgrade.PhaseDone: nil,
		},
		upgrade.ShortLived: {upgrade.PhaseSetup: {upgrade.VerbAbort}, upgrade.PhaseExpire: {upgrade.VerbAbort}, upgrade.PhaseDone: nil},
		upgrade.Delegated:  {upgrade.PhaseSetup: {upgrade.VerbAbort}, upgrade.PhaseFollow: {upgrade.VerbAbort}, upgrade.PhaseDone: nil},
	}
	for _, strategy := range upgrade.Strategies() {
		for _, phase := range upgrade.Phases(strategy) {
			want, listed := cases[strategy][phase]
			if !listed {
				t.Errorf("%s: phase %q is not in the table", strategy, phase)
			}
			record := upgrade.Record{Request: upgrade.Request{Strategy: strategy}, Phase: phase}
			for _, verb := range []upgrade.Verb{upgrade.VerbPause, upgrade.VerbRollback, upgrade.VerbAbort, upgrade.VerbComplete} {
				if err := upgrade.Allows(&record, verb); (err == nil) != slices.Contains(want, verb) {
					t.Errorf("%s, phase %q, verb %s: got error %v", strategy, phase, verb, err)
				}
			}
		}
	}
	record := upgrade.Record{Request: upgrade.Request{Strategy: upgrade.Surge}, Phase: upgrade.PhaseUpgrade}
	checkError(t, upgrade.Allows(&record, upgrade.VerbComplete), "its strategy is surge, which has no soak to end")
	record.Phase = upgrade.PhaseDone
	checkError(t, upgrade.Allows(&record, upgrade.VerbPause), `it is in the phase "done", in which the verb pause is not possible`)
}

// TestDescribe holds the line of a plan that says what each strategy does.
func TestDescribe(t *testing.T) {
	minutes := func(n int) upgrade.Duration { return upgrade.Duration{Duration: time.Duration(n) * time.Minute} }
	limits := upgrade.Request{Like: "eks", Window: 3, MaxUnavailable: 2, Surge: 1, DrainTimeout: minutes(15), OnTimeout: upgrade.Fail, Settle: minutes(1), WaitForDrain: minutes(60)}
	for want, change := range map[string]func(*upgrade.Request){
		"surge like eks: at most 3 in flight, 2 unavailable; 15m0s to drain a node, then fail; settle 1m0s":                               func(r *upgrade.Request) { r.Strategy = upgrade.Surge },
		"surge like gke: at most 3 in flight, 2 unavailable, one zone at a time; 15m0s to drain a node, then fail; settle 1m0s":           func(r *upgrade.Request) { r.Strategy, r.Like = upgrade.Surge, "gke" },
		"blue-green without a drain: a new node for each outdated one; 15m0s to drain, then what is left is deleted at the end; ":         func(r *upgrade.Request) { r.Strategy, r.BlueGreen = upgrade.BlueGreen, &upgrade.BlueGreenRequest{} },
		"blue-green without a drain: a new node for each outdated one; 15m0s to drain, then what is left is deleted at the end; 0s after": func(r *upgrade.Request) { r.Strategy = upgrade.BlueGreen },
		"blue-green, 1 node at once: a new node for each outdated one; ": func(r *upgrade.Request) {
			r.Strategy, r.BlueGreen = upgrade.BlueGreen, &upgrade.BlueGreenRequest{Batch: 1}
		},
		"blue-green, 4 nodes at once: a new node for each outdated one; ": func(r *upgrade.Request) {
			r.Strategy, r.BlueGreen = upgrade.BlueGreen, &upgrade.BlueGreenRequest{Batch: 4}
		},
		"autoscaled-blue-green: all outdated nodes are fenced, and idle ones removed for 1h0m0s; then at most 3 drain at once, 15m0s each": func(r *upgrade.Request) { r.Strategy = upgrade.AutoscaledBlueGreen },
		"short-lived: new nodes are current; nothing is fenced, drained or removed":                                                        func(r *upgrade.Request) { r.Strategy = upgrade.ShortLived },
		"EKS upgrades the group itself, rolling update: at most 2 unavailable; 15m0s to drain a node, then the update fails":               func(r *upgrade.Request) { r.Strategy = upgrade.Delegated },
		"EKS upgrades the group itself, force update: at most 2 unavailable; 15m0s to drain a node, then its pods are deleted past":        func(r *upgrade.Request) { r.Strategy, r.OnTimeout = upgrade.Delegated, upgrade.Force },
	} {
		r := limits
		change(&r)
		if got := upgrade.DescribeRequest(&r, "aws"); !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}
