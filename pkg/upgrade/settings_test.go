package upgrade_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func settings(change func(*upgrade.Settings)) upgrade.Settings {
	s := upgrade.Settings{BootTimeout: 20 * time.Minute}
	change(&s)
	return s
}

func zones(n int) []string { return []string{"a", "b", "c", "d", "e"}[:n] }

func TestSurgeAndWindowAreResolvedFromFlags(t *testing.T) {
	number := func(n int) *nodegroup.Quantity { return &nodegroup.Quantity{N: n} }
	perZone := func(n int) *nodegroup.Quantity { return &nodegroup.Quantity{N: n, PerZone: true} }
	cases := map[string]struct {
		like           string
		zones          int
		unavailable    *nodegroup.Quantity
		surge          *nodegroup.Quantity
		size, outdated int
		want           [3]int // max-unavailable, surge, window
	}{
		"E22 five zones, one unavailable":         {"eks", 5, nil, nil, 50, 50, [3]int{1, 10, 1}},
		"E22 five zones, twenty unavailable":      {"eks", 5, number(20), nil, 50, 50, [3]int{20, 20, 20}},
		"E22 five zones, ten unavailable":         {"eks", 5, number(10), nil, 50, 50, [3]int{10, 10, 10}},
		"E22 one zone":                            {"eks", 1, nil, nil, 50, 50, [3]int{1, 2, 1}},
		"E22 three zones, seven unavailable":      {"eks", 3, number(7), nil, 50, 50, [3]int{7, 7, 7}},
		"E23 never more than are outdated":        {"eks", 5, nil, nil, 50, 4, [3]int{1, 4, 1}},
		"E08 a percentage of the whole group":     {"eks", 3, &nodegroup.Quantity{N: 10, Percent: true}, nil, 50, 9, [3]int{5, 6, 5}},
		"a surge of one's own":                    {"eks", 3, nil, number(2), 50, 50, [3]int{1, 2, 1}},
		"no surge":                                {"eks", 3, nil, number(0), 50, 50, [3]int{1, 0, 1}},
		"none unavailable, with surge":            {"eks", 3, number(0), number(2), 50, 50, [3]int{0, 2, 2}},
		"a surge of one's own, by zone":           {"eks", 3, nil, perZone(2), 50, 50, [3]int{1, 6, 1}},
		"G10 G14 one, in a zone at a time":        {"gke", 3, nil, nil, 50, 50, [3]int{0, 1, 1}},
		"G10 G14 of a zone, whether said or not":  {"gke", 3, perZone(1), perZone(2), 50, 50, [3]int{1, 2, 3}},
		"G12 parallel is surge and unavailable":   {"gke", 1, number(1), number(2), 5, 5, [3]int{1, 2, 3}},
		"G12 at most twenty":                      {"gke", 3, number(15), number(15), 50, 50, [3]int{5, 15, 20}},
		"G12 at most twenty are added":            {"gke", 5, nil, perZone(25), 50, 50, [3]int{0, 20, 20}},
		"G12 at most twenty are missing":          {"gke", 1, number(50), number(0), 50, 50, [3]int{20, 0, 20}},
		"G19 surge 2, unavailable 1, five nodes":  {"gke", 1, number(1), number(2), 5, 5, [3]int{1, 2, 3}},
		"G20 balanced":                            {"gke", 3, number(0), number(1), 50, 50, [3]int{0, 1, 1}},
		"G20 fast without surge":                  {"gke", 3, number(20), number(0), 50, 50, [3]int{20, 0, 20}},
		"G20 fast with little disruption":         {"gke", 3, number(0), number(20), 50, 50, [3]int{0, 20, 20}},
		"G20 slow without surge":                  {"gke", 3, number(1), number(0), 50, 50, [3]int{1, 0, 1}},
		"nothing outdated needs neither":          {"gke", 3, nil, nil, 50, 0, [3]int{0, 0, 0}},
		"a percentage as surge, of a small group": {"gke", 1, nil, &nodegroup.Quantity{N: 10, Percent: true}, 5, 5, [3]int{0, 1, 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			group := &nodegroup.Group{Provider: "aws", Can: nodegroup.FullControl(), Zones: zones(c.zones), Desired: c.size, Max: c.size}
			req, err := settings(func(s *upgrade.Settings) {
				s.Like, s.MaxUnavailable, s.MaxSurge = c.like, c.unavailable, c.surge
			}).ResolveRequest(group, c.size, c.outdated)
			if err != nil {
				t.Fatal(err)
			}
			if got := [3]int{req.MaxUnavailable, req.Surge, req.Window}; got != c.want {
				t.Errorf("max-unavailable, surge, window are %v, want %v", got, c.want)
			}
		})
	}
}

// TestUpdateStrategyDecidesIfNodesAreAddedFirst: the strategies are those of EKS (EKS E09).
func TestUpdateStrategyDecidesIfNodesAreAddedFirst(t *testing.T) {
	number := func(n int) *nodegroup.Quantity { return &nodegroup.Quantity{N: n} }
	cases := map[string]struct {
		change func(*upgrade.Settings)
		surge  int
		err    string
	}{
		"DEFAULT":                     {func(s *upgrade.Settings) { s.UpdateStrategy = "default" }, 6, ""},
		"MINIMAL":                     {func(s *upgrade.Settings) { s.UpdateStrategy = "minimal" }, 0, ""},
		"MINIMAL, said twice":         {func(s *upgrade.Settings) { s.UpdateStrategy, s.MaxSurge = "minimal", number(0) }, 0, ""},
		"MINIMAL with a surge":        {func(s *upgrade.Settings) { s.UpdateStrategy, s.MaxSurge = "minimal", number(2) }, 0, "--update-strategy=minimal adds no node: remove --max-surge=2"},
		"none of EKS's":               {func(s *upgrade.Settings) { s.UpdateStrategy = "rolling" }, 0, "--update-strategy=rolling is not known: use default or minimal"},
		"of another strategy":         {func(s *upgrade.Settings) { s.UpdateStrategy, s.Strategy = "minimal", record.BlueGreen }, 0, "remove it or --strategy=blue-green"},
		"MINIMAL, none may be missed": {func(s *upgrade.Settings) { s.UpdateStrategy, s.MaxUnavailable = "minimal", number(0) }, 0, "no node may be drained"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			group := &nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: zones(3), Desired: 9, Min: 9, Max: 9}
			req, err := settings(c.change).ResolveRequest(group, 9, 9)
			checkError(t, err, c.err)
			if req.Surge != c.surge && c.err == "" {
				t.Errorf("surge %d, want %d", req.Surge, c.surge)
			}
		})
	}
}

func TestDefaultsDependOnProvider(t *testing.T) {
	cases := map[string]struct {
		provider string
		want     record.Request
	}{
		"E41 E42 E44 as EKS": {"aws", record.Request{Like: "eks", DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), OnTimeout: record.Fail}},
		"G10 G15 as GKE":     {"gke", record.Request{Like: "gke", DrainTimeout: duration(time.Hour), OnTimeout: record.Force}},
		"manual as EKS":      {"manual", record.Request{Like: "eks", DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), OnTimeout: record.Fail}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			group := &nodegroup.Group{Provider: c.provider, Can: nodegroup.FullControl(), Zones: zones(3), Max: 9, Desired: 9}
			got, err := settings(func(*upgrade.Settings) {}).ResolveRequest(group, 9, 9)
			if err != nil {
				t.Fatal(err)
			}
			if got.Like != c.want.Like || got.DrainTimeout != c.want.DrainTimeout || got.Settle != c.want.Settle || got.OnTimeout != c.want.OnTimeout || got.Strategy != record.Surge {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	number := func(n int) *nodegroup.Quantity { return &nodegroup.Quantity{N: n} }
	span := func(d time.Duration) *time.Duration { return &d }
	perZone := func(n int) *nodegroup.Quantity { return &nodegroup.Quantity{N: n, PerZone: true} }
	cases := map[string]struct {
		change func(*upgrade.Settings)
		sized  bool
		max    int
		want   string
	}{
		"an unknown model":             {func(s *upgrade.Settings) { s.Like = "aks" }, true, 20, "--like=aks"},
		"an unknown strategy":          {func(s *upgrade.Settings) { s.Strategy = "canary" }, true, 20, "--strategy=canary"},
		"an unknown end":               {func(s *upgrade.Settings) { s.OnTimeout = "retry" }, true, 20, "--on-timeout=retry"},
		"no time to drain":             {func(s *upgrade.Settings) { s.DrainTimeout = span(0) }, true, 20, "--drain-timeout=0s"},
		"no time to boot":              {func(s *upgrade.Settings) { s.BootTimeout = 0 }, true, 20, "--boot-timeout=0s"},
		"a negative settle":            {func(s *upgrade.Settings) { s.Settle = span(-time.Second) }, true, 20, "--settle=-1s"},
		"E06 too many unavailable":     {func(s *upgrade.Settings) { s.MaxUnavailable = number(101) }, true, 20, "--max-unavailable"},
		"G29 no surge, none available": {func(s *upgrade.Settings) { s.MaxUnavailable, s.MaxSurge = number(0), number(0) }, true, 20, "raise --max-unavailable or --max-surge"},
		"a surge without a cloud":      {func(s *upgrade.Settings) { s.MaxSurge = number(1) }, false, 0, "--max-surge=1"},
		"a surge of no zone":           {func(s *upgrade.Settings) { s.Like, s.MaxSurge = "gke", perZone(2) }, false, 0, `--max-surge=2/zone: group "workers" has no zones: write 2`},
		"G10 unavailable in no zone":   {func(s *upgrade.Settings) { s.Like, s.MaxUnavailable = "gke", perZone(2) }, false, 0, `--max-unavailable=2/zone: group "workers" has no zones: write 2`},
		"a zone's, and not as GKE":     {func(s *upgrade.Settings) { s.MaxUnavailable = perZone(2) }, true, 20, "--max-unavailable: max-unavailable counts nodes of the whole group"},
		"--keep-max at the max":        {func(s *upgrade.Settings) { s.KeepMax = true }, true, 9, "at its max of 9"},
		"G10 as GKE without a cloud":   {func(s *upgrade.Settings) { s.Like = "gke" }, false, 0, "--like=gke adds a node before it drains one, but groups of labelled nodes (provider manual) cannot be made larger"},
		"G10 as GKE without a surge":   {func(s *upgrade.Settings) { s.Like, s.MaxSurge = "gke", number(0) }, true, 20, "--like=gke allows no unavailable node, so no node may be drained: pass --max-unavailable=1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			group := &nodegroup.Group{Name: "workers", Provider: "aws", Can: map[bool]nodegroup.Capabilities{true: nodegroup.FullControl()}[c.sized], Zones: zones(3), Desired: 9, Max: c.max}
			if !c.sized {
				group.Provider, group.Zones = "manual", nil
			}
			_, err := settings(c.change).ResolveRequest(group, 9, 9)
			checkError(t, err, c.want)
		})
	}
}

// TestSettingsErrorNamesOnlyFlagsOfItsStrategy: an error about a strategy without widths names no width flag, neither as its cause nor as
// its remedy.
func TestSettingsErrorNamesOnlyFlagsOfItsStrategy(t *testing.T) {
	full := nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: zones(3), Desired: 9, Max: 9}
	notZonal := full
	notZonal.Can.NameZone = false
	cases := map[string]struct {
		group   nodegroup.Group
		keepMax bool
		want    string
	}{
		"a group to which no node can be added": {nodegroup.Group{Name: "workers", Provider: "manual"}, false, "--strategy=blue-green: this tool cannot add nodes to groups of provider manual: use surge"},
		"a group at its max":                    {full, true, "remove --keep-max, or raise its max"},
		"a group that grows with its max":       {notZonal, true, "can grow only if its max is raised too: remove --keep-max"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := settings(func(s *upgrade.Settings) { s.Strategy, s.KeepMax = record.BlueGreen, c.keepMax }).ResolveRequest(&c.group, 9, 9)
			checkError(t, err, c.want)
			if err != nil && strings.Contains(err.Error(), "--max-") {
				t.Errorf("it names a flag of another strategy: %v", err)
			}
		})
	}
}

func TestKeepMaxLimitsTheSurge(t *testing.T) {
	group := &nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: zones(3), Desired: 9, Max: 11}
	keep := settings(func(s *upgrade.Settings) { s.KeepMax = true })
	req, err := keep.ResolveRequest(group, 9, 9)
	if err != nil || req.Surge != 2 {
		t.Errorf("surge %d, %v, want the 2 nodes of room", req.Surge, err)
	}
	group.Can.NameZone = false
	_, err = keep.ResolveRequest(group, 9, 9)
	checkError(t, err, `group "workers" can grow only if its max is raised too`)
}

func TestDifferencesOfRequestsNameChangedFlags(t *testing.T) {
	mine := record.Request{Run: "r1", Surge: 4, MaxUnavailable: 1, Settle: duration(time.Minute)}
	cases := map[string]struct {
		change func(*record.Request)
		want   string
	}{
		"none":                     {func(*record.Request) {}, ""},
		"what the size made of it": {func(r *record.Request) { r.Run, r.Surge = "r2", 6 }, ""},
		"one":                      {func(r *record.Request) { r.MaxUnavailable = 3 }, "--max-unavailable 1, now 3"},
		"two":                      {func(r *record.Request) { r.MaxUnavailable, r.Settle = 3, duration(0) }, "--max-unavailable 1, now 3; --settle 1m0s, now 0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			other := mine
			c.change(&other)
			if got := mine.DescribeDifferences(other); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestContinuedRunTakesOnlyGivenSettings checks settings that are given again when a run continues.
func TestContinuedRunTakesOnlyGivenSettings(t *testing.T) {
	mine := record.Request{Run: "r1", Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 4, Settle: duration(time.Minute), KeepMax: true}
	other := record.Request{Run: "r2", Like: "gke", MaxUnavailable: 2, Window: 6, Surge: 6, OnTimeout: record.Force}
	cases := map[string]struct {
		given []string
		want  record.Request
	}{
		"none": {nil, mine},
		"one": {
			[]string{"max-unavailable"},
			record.Request{Run: "r1", Like: "eks", MaxUnavailable: 2, Window: 6, Surge: 4, Settle: duration(time.Minute), KeepMax: true},
		},
		"a switch that is turned off": {
			[]string{"keep-max"},
			record.Request{Run: "r1", Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 4, Settle: duration(time.Minute)},
		},
		"another model, with its numbers": {
			[]string{"like"},
			record.Request{Run: "r1", Like: "gke", MaxUnavailable: 2, Window: 6, Surge: 4, OnTimeout: record.Force, KeepMax: true},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mine.WithSettings(other, func(flag string) bool { return slices.Contains(c.given, flag) })
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want one that contains %q", err, want)
	}
}
