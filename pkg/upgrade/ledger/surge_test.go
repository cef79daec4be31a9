package ledger_test

import (
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

func TestSurgeIsSpreadEvenlyOverZones(t *testing.T) {
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

func TestNoZoneGetsSecondSurgeNodeBeforeOthersGetFirst(t *testing.T) { rapid.Check(t, fairSpread) }

func FuzzSpreadSurge(f *testing.F) {
	f.Add([]byte("\x06a3b1c"))
	f.Fuzz(rapid.MakeFuzz(fairSpread))
}

// fairSpread assigns surge to random zones. No zone gets more nodes than it has outdated ones, and no zone gets its
// second node before each other one has its first.
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

func TestScaleUpIsCompleteOnlyIfAllNewNodesAreUsable(t *testing.T) {
	cases := map[string]struct {
		zone   ledger.Zone
		change func(*ledger.View)
		want   bool
	}{
		"all are there":                         {ledger.Zone{Surge: 1, Launched: 1}, func(*ledger.View) {}, true},
		"E26 one is not ready":                  {ledger.Zone{Surge: 1, Launched: 1}, func(v *ledger.View) { v.Counts.Usable = 0 }, false},
		"E24 another new one is not":            {ledger.Zone{Surge: 1, Launched: 1}, func(v *ledger.View) { v.Counts.Fresh = 2 }, false},
		"one is not launched":                   {ledger.Zone{Surge: 2, Launched: 1}, func(*ledger.View) {}, false},
		"an answer is missing":                  {ledger.Zone{Surge: 1, Launched: 1, Open: []ledger.Launch{{N: 1}}}, func(*ledger.View) {}, false},
		"E61 an autoscaler took it":             {ledger.Zone{Surge: 1, Launched: 1}, func(v *ledger.View) { v.Counts = ledger.Counts{Instances: 4} }, true},
		"that is not known by an older reading": {ledger.Zone{Surge: 1, Launched: 1}, func(v *ledger.View) { v.Counts = ledger.Counts{Instances: 4}; v.Group.Observed = start }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(zoneA(c.zone))
			v.Group.Desired, v.Counts.Usable, v.Counts.Fresh, v.Counts.UsableIn = 4, 1, 1, map[string]int{"a": 1}
			v.Counts.Instances = 3
			c.change(&v)
			if got := l.Keeper(v).IsSurgeUsable(1); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

func TestShrinkDependsOnAddedNodesAndGroupMinimum(t *testing.T) {
	cases := map[string]struct {
		books  ledger.Books
		zone   string
		change func(*ledger.View)
		want   bool
	}{
		"where launches name the zone":             {zoneA(ledger.Zone{}), "a", func(*ledger.View) {}, true},
		"where more are left than were added":      {whole(ledger.Zone{Launched: 1}), "", func(*ledger.View) {}, false},
		"E60 where as many are left as were added": {whole(ledger.Zone{Launched: 2}), "", func(*ledger.View) {}, true},
		"E50 a group at its minimum":               {zoneA(ledger.Zone{}), "a", func(v *ledger.View) { v.Group.Min = 4 }, false},
		"one that others are about to bring there": {zoneA(ledger.Zone{}), "a", func(v *ledger.View) { v.Group.Min = 3; v.Counts.Shrinking["b"] = 1 }, false},
		"by the books, where the reading is old":   {zoneA(ledger.Zone{Launched: 1}), "a", func(v *ledger.View) { v.Group.Min, v.Group.Observed = 4, start }, true},
		"a group without a size":                   {zoneA(ledger.Zone{}), "a", func(v *ledger.View) { v.Group.Can.Resize = false }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(c.books)
			c.change(&v)
			if got := l.Keeper(v).ShouldShrink(c.zone); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// E61: the result compares with the group without the upgrade, and is limited by what the group's own size lacks.
func TestUnavailableCountComparesWithGroupWithoutUpgrade(t *testing.T) {
	cases := map[string]struct {
		zone       ledger.Zone
		notServing int
		change     func(*ledger.View)
		want       int
	}{
		"one is removed and not replaced":      {ledger.Zone{Removed: 1, Shrunk: 1, Launched: 1}, 0, func(v *ledger.View) { v.Counts.Serving = 3 }, 1},
		"its replacement is there":             {ledger.Zone{Removed: 1, Shrunk: 1, Launched: 1}, 0, func(v *ledger.View) { v.Counts.Usable = 1 }, 0},
		"surge is to spare":                    {ledger.Zone{Launched: 1}, 0, func(v *ledger.View) { v.Counts.Usable, v.Counts.Serving, v.Group.Desired = 1, 5, 5 }, -1},
		"what was carried over is not missing": {ledger.Zone{Removed: 1, Carried: 1, Launched: 1}, 0, func(v *ledger.View) { v.Counts.Serving = 3 }, 0},
		"what was carried over is not up yet":  {ledger.Zone{Removed: 1, Carried: 1, Launched: 1}, 1, func(v *ledger.View) { v.Group.Desired, v.Counts.Serving = 5, 4 }, 1},
		"an autoscaler took one":               {ledger.Zone{Removed: 1, Shrunk: 1, Launched: 1}, 0, func(v *ledger.View) { v.Group.Desired, v.Counts.Serving = 3, 3 }, 0},
		"which an older reading does not show": {ledger.Zone{Removed: 1, Shrunk: 1, Launched: 1}, 0, func(v *ledger.View) { v.Group.Desired, v.Counts.Serving, v.Group.Observed = 3, 3, start }, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(zoneA(c.zone))
			c.change(&v)
			if got := l.Keeper(v).CountUnavailable(c.notServing, 0); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// A rollback counts the added nodes as launched surge, except those that are still missing.
func TestRollbackCountsAddedNodesAsLaunchedSurge(t *testing.T) {
	v, l := view(), ledger.FromBooks(zoneA(ledger.Zone{Surge: 2, Launched: 3, Shrunk: 1, Removed: 1}))
	l.Keeper(v).CarryOver([]string{"old-a-1"}, map[string]int{"a": 1})
	if got := l.Books(); !reflect.DeepEqual(got.Zones["a"], ledger.Zone{Surge: 2, Launched: 3, Shrunk: 1, Carried: 1, Replaced: 1}) || got.Known[0] != "old-a-1" {
		t.Errorf("got %+v", got)
	}
}

// TestOneZoneGetsAllSurgeThatItNeeds: surge that other zones still have is not given to it (GKE G13, G14).
func TestOneZoneGetsAllSurgeThatItNeeds(t *testing.T) {
	cases := map[string]struct {
		zones       map[string]ledger.Zone
		surge, left int
		want        map[string]int
	}{
		"no more than it has nodes":   {nil, 3, 2, map[string]int{"b": 2}},
		"dealt to others":             {map[string]ledger.Zone{"a": {Surge: 1}, "c": {Surge: 1}}, 2, 5, map[string]int{"a": 0, "b": 2, "c": 0}},
		"one is there in another":     {map[string]ledger.Zone{"a": {Surge: 2, Launched: 1}}, 2, 5, map[string]int{"a": 0, "b": 1}},
		"given back by another":       {map[string]ledger.Zone{"a": {Surge: 2, Launched: 2, Shrunk: 2}}, 2, 5, map[string]int{"a": 0, "b": 2}},
		"taken and not replaced":      {map[string]ledger.Zone{"a": {Shrunk: 1}}, 2, 5, map[string]int{"a": 0, "b": 2}},
		"more in others than allowed": {map[string]ledger.Zone{"a": {Launched: 2}, "c": {Launched: 2}}, 2, 5, map[string]int{"a": 0, "b": 0, "c": 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := ledger.FromBooks(ledger.Books{Zonal: true, Zones: c.zones})
			v := view()
			v.Limits.Surge, v.Counts.Left = c.surge, map[string]int{"b": c.left}
			l.Keeper(v).AssignAllSurge("b")
			got := map[string]int{}
			for zone, z := range l.Books().Zones {
				got[zone] = z.Surge
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
