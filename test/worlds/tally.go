package worlds

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Tally counts the worlds in which each thing was met, by what it is and its name.
type Tally map[[2]string]int

func (t Tally) met(what, name string) { t[[2]string{what, name}] = 1 }

// Add counts another tally's worlds in.
func (t Tally) Add(other Tally) {
	for key, n := range other {
		t[key] += n
	}
}

// Write prints the histogram. What every run must meet is listed also where it was not.
func (t Tally) Write(w io.Writer) error {
	for _, key := range expected() {
		t[key] += 0
	}
	keys := slices.SortedFunc(maps.Keys(t), func(a, b [2]string) int { return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) })
	for _, key := range keys {
		if _, err := fmt.Fprintf(w, "%-10s %-36s %8d\n", key[0], key[1], t[key]); err != nil {
			return fmt.Errorf("writing the histogram: %w", err)
		}
	}
	return nil
}

// Rare lists what was met in fewer worlds than least.
func (t Tally) Rare(least int) []string {
	var rare []string
	for _, key := range expected() {
		if t[key] < least {
			rare = append(rare, fmt.Sprintf("%s %s: %d", key[0], key[1], t[key]))
		}
	}
	return rare
}

// expected is all that the generator is to lead to.
func expected() [][2]string {
	var keys [][2]string
	for _, kind := range allFaults() {
		keys = append(keys, [2]string{"fault", string(kind)})
	}
	for _, kind := range allActors() {
		keys = append(keys, [2]string{"actor", string(kind)})
	}
	for _, state := range []upgrade.NodeState{
		upgrade.NodePending, upgrade.NodeFenced, upgrade.NodeDraining, upgrade.NodeForcing, upgrade.NodeEmpty,
		upgrade.NodeRemoving, upgrade.NodeQuarantined, upgrade.NodeDrained,
	} {
		keys = append(keys, [2]string{"state", string(state)})
	}
	for _, phase := range phases() {
		keys = append(keys, [2]string{"phase", string(phase)})
	}
	for _, result := range []upgrade.Result{
		upgrade.Succeeded, upgrade.LeftBehind, upgrade.PodEvictionFailure, upgrade.NodeCreationFailure, upgrade.Failed,
		upgrade.Interrupted, upgrade.Paused, upgrade.TargetMoved,
	} {
		keys = append(keys, [2]string{"result", string(result)})
	}
	for _, provider := range []string{"aws", "gke", "manual"} {
		keys = append(keys, [2]string{"provider", provider})
	}
	for _, like := range []string{"eks", "gke"} {
		keys = append(keys, [2]string{"like", like})
	}
	return keys
}

func phases() []upgrade.Phase {
	return []upgrade.Phase{upgrade.PhaseSetup, upgrade.PhaseScaleUp, upgrade.PhaseUpgrade, upgrade.PhaseScaleDown, upgrade.PhaseDone}
}

// kindOf is an action's kind, without what it is done to.
func kindOf(action upgrade.Action) string {
	kind, _, _ := strings.Cut(action.Key(), "/")
	return kind
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
