package worlds_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/worlds"
)

// sample is the number of worlds in one run of the tests; make worlds runs many more.
const sample = 300

// TestSimulatedUpgradesBreakNoRule runs the first worlds, and the stored worlds that once broke a rule. To shrink a world that breaks a rule, and to print
// its events, run: go run ./test/worlds/cmd/worlds -first SEED -n 1 -v
func TestSimulatedUpgradesBreakNoRule(t *testing.T) {
	found, err := worlds.StoredPlans()
	if err != nil || len(found) == 0 {
		t.Fatalf("%d worlds were found: %v", len(found), err)
	}
	for i, plan := range found {
		if v := worlds.Run(plan, nil); v.Broken != "" {
			t.Errorf("found %d: %s", i+1, v.Broken)
		}
	}
	for _, seed := range firstSeeds(sample) {
		if v := worlds.Run(worlds.Generate(seed), nil); v.Broken != "" {
			t.Errorf("seed %d: %s", seed, v.Broken)
		}
	}
}

// TestSameSeedGivesSameEvents checks that all runs of a seed have the same events.
func TestSameSeedGivesSameEvents(t *testing.T) {
	const tries = 4                                   // draws in map order are equal now and then
	seeds := append([]uint64{271}, firstSeeds(20)...) // 271 once had different events in each run
	for _, seed := range seeds {
		var first []string
		worlds.Run(worlds.Generate(seed), func(line string) { first = append(first, line) })
		if len(first) == 0 {
			t.Errorf("seed %d: nothing happens", seed)
		}
		for range tries {
			var again []string
			worlds.Run(worlds.Generate(seed), func(line string) { again = append(again, line) })
			if !reflect.DeepEqual(first, again) {
				t.Errorf("seed %d: two runs had different events", seed)
				break
			}
		}
	}
}

func firstSeeds(n uint64) (seeds []uint64) {
	for seed := uint64(1); seed <= n; seed++ {
		seeds = append(seeds, seed)
	}
	return seeds
}

// TestStoredPlansAreReadBackUnchanged checks that the plans of the first worlds survive being written to a line and read back.
func TestStoredPlansAreReadBackUnchanged(t *testing.T) {
	for _, seed := range firstSeeds(sample) {
		plan := worlds.Generate(seed)
		line, err := plan.Line()
		if err != nil {
			t.Fatal(err)
		}
		var back worlds.Plan
		if err := json.Unmarshal(line, &back); err != nil || !reflect.DeepEqual(plan, back) {
			t.Errorf("seed %d: %v: got\n%+v, want\n%+v", seed, err, back, plan)
		}
	}
}
