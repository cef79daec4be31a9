package ledger_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

func TestSpreadSurge(t *testing.T) {
	cases := map[string]struct {
		surge    int
		outdated map[string]int
		want     map[string]int
	}{
		"E22 one zone, two more":            {2, map[string]int{"a": 5}, map[string]int{"a": 2}},
		"E22 three zones, six more":         {6, map[string]int{"a": 5, "b": 5, "c": 5}, map[string]int{"a": 2, "b": 2, "c": 2}},
		"E22 three zones, seven more":       {7, map[string]int{"a": 5, "b": 5, "c": 5}, map[string]int{"a": 3, "b": 2, "c": 2}},
		"E22 five zones, ten more":          {10, map[string]int{"a": 9, "b": 9, "c": 9, "d": 9, "e": 9}, map[string]int{"a": 2, "b": 2, "c": 2, "d": 2, "e": 2}},
		"E22 five zones, twenty more":       {20, map[string]int{"a": 9, "b": 9, "c": 9, "d": 9, "e": 9}, map[string]int{"a": 4, "b": 4, "c": 4, "d": 4, "e": 4}},
		"E20 only where outdated nodes are": {6, map[string]int{"b": 3}, map[string]int{"b": 3}},
		"E23 never more than are outdated":  {6, map[string]int{"a": 1, "b": 2}, map[string]int{"a": 1, "b": 2}},
		"E25 a zone's first before seconds": {3, map[string]int{"a": 9, "b": 1, "c": 1}, map[string]int{"a": 1, "b": 1, "c": 1}},
		"a full zone's share goes on":       {5, map[string]int{"a": 9, "b": 1}, map[string]int{"a": 4, "b": 1}},
		"fewer than zones":                  {1, map[string]int{"a": 1, "b": 1}, map[string]int{"a": 1}},
		"none":                              {0, map[string]int{"a": 1}, map[string]int{}},
		"nothing outdated":                  {6, nil, map[string]int{}},
		"the whole group is one zone":       {4, map[string]int{"": 9}, map[string]int{"": 4}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ledger.SpreadSurge(c.surge, c.outdated); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestSpreadSurgeIsFair(t *testing.T) { rapid.Check(t, fairSpread) }

func FuzzSpreadSurge(f *testing.F) {
	f.Add([]byte("\x06a3b1c"))
	f.Fuzz(rapid.MakeFuzz(fairSpread))
}

// fairSpread deals surge out to zones at random: none gets more than it has use for, nor a second
// before another its first.
func fairSpread(t *rapid.T) {
	n := rapid.IntRange(-2, 40).Draw(t, "surge")
	outdated := rapid.MapOfN(rapid.StringMatching("[a-f]"), rapid.IntRange(0, 9), 0, 6).Draw(t, "outdated")
	surge := ledger.SpreadSurge(n, outdated)

	sum, total := 0, 0
	for zone, has := range outdated {
		sum, total = sum+surge[zone], total+has
		if surge[zone] > has {
			t.Errorf("zone %s gets %d for %d outdated nodes", zone, surge[zone], has)
		}
		for other := range outdated {
			if surge[zone] < has && surge[other] > surge[zone]+1 {
				t.Errorf("zone %s gets %d and zone %s %d, though the first has room", zone, surge[zone], other, surge[other])
			}
			if has > 0 && surge[zone] == 0 && surge[other] > 1 {
				t.Errorf("E25: zone %s gets its second before zone %s its first", other, zone)
			}
		}
	}
	if want := min(max(n, 0), total); sum != want {
		t.Errorf("%d dealt out, want %d", sum, want)
	}
}
