package upgrade_test

import (
	"slices"
	"testing"

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
				if err := record.Allows(verb); (err == nil) != slices.Contains(want, verb) {
					t.Errorf("%s, phase %q, verb %s: got error %v", strategy, phase, verb, err)
				}
			}
		}
	}
	record := upgrade.Record{Request: upgrade.Request{Strategy: upgrade.Surge}, Phase: upgrade.PhaseUpgrade}
	checkError(t, record.Allows(upgrade.VerbComplete), "its strategy is surge, which has no soak to end")
	record.Phase = upgrade.PhaseDone
	checkError(t, record.Allows(upgrade.VerbPause), `it is in the phase "done", in which the verb pause is not possible`)
}
