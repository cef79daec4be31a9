package worlds_test

import (
	"reflect"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/worlds"
)

// sample is how many worlds a run of the tests lives through; make worlds has many more.
const sample = 300

// TestWorlds upgrades the first few worlds. One that breaks a rule is told by its seed:
// go run ./test/worlds/cmd/worlds -first SEED -n 1 -v shrinks it and tells what happens.
func TestWorlds(t *testing.T) {
	seeds := []uint64{5906, 12820, 15176, 16008, 19922, 26500, 27036, 28272, 33278, 36908, 38652, 39960, 50398, 50571, 51827, 55284, 57323, 68149, 75887, 83297, 92164, 92401, 97701, 382, 757, 7558, 9148, 24426, 30962, 595, 6559, 208722} // they broke a rule once
	for seed := uint64(1); seed <= sample; seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		if v := worlds.Run(worlds.Generate(seed), nil); v.Broken != "" {
			t.Errorf("seed %d: %s", seed, v.Broken)
		}
	}
}

// TestAWorldIsAFunctionOfItsSeed holds two worlds of one seed to one course of events.
func TestAWorldIsAFunctionOfItsSeed(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		var first, second []string
		worlds.Run(worlds.Generate(seed), func(line string) { first = append(first, line) })
		worlds.Run(worlds.Generate(seed), func(line string) { second = append(second, line) })
		if !reflect.DeepEqual(first, second) {
			t.Errorf("seed %d: two courses of events", seed)
		}
		if len(first) == 0 {
			t.Errorf("seed %d: nothing happens", seed)
		}
	}
}
