package ledger_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// zoneA returns the books of a group with one zone, whose launches name zones.
func zoneA(z ledger.Zone) ledger.Books {
	return ledger.Books{Zonal: true, Changed: start, Zones: map[string]ledger.Zone{"a": z}}
}

// whole returns the books of a group that grows without naming zones.
func whole(z ledger.Zone) ledger.Books {
	return ledger.Books{Changed: start, Zones: map[string]ledger.Zone{"": z}}
}

// view returns a view of a group of four nodes with room for six. Two of its nodes are outdated, and its reading shows
// all changes made at the start.
func view() ledger.View {
	return ledger.View{
		Now: start.Add(time.Minute), Run: "r1", PhaseBegan: start,
		Group: &nodegroup.Group{
			Name: "workers", Can: nodegroup.FullControl(), Desired: 4, Min: 1, Max: 6, Zones: []string{"a", "b"}, Observed: start.Add(time.Minute),
		},
		Open:   map[string]nodegroup.Attempt{},
		Counts: ledger.Counts{Left: map[string]int{"a": 2, "": 2}, Shrinking: map[string]int{}, Zones: map[string]int{"a": 2, "b": 2}, Instances: 4, Serving: 4},
		Limits: ledger.Limits{Surge: 2, MaxUnavailable: 1},
		Before: nodegroup.Sizes{Desired: 4, Min: 1, Max: 6, Zones: map[string]int{"a": 2, "b": 2}},
	}
}

// answered adds an answer to an action, given at the start.
func answered(v *ledger.View, a nodegroup.Action, outcome nodegroup.Outcome) {
	v.Open[a.Key()] = nodegroup.Attempt{Action: a, Begun: start, Ended: start, Outcome: outcome, Detail: "says the cloud", NotBefore: start.Add(5 * time.Minute)}
}

func actionToLaunchIn(zone string, serial int) nodegroup.AddCapacity {
	return nodegroup.AddCapacity{Zone: zone, N: 1, Token: ledger.Token("r1", zone, serial)}
}

// wantDecision compares decisions without their next time.
func wantDecision(t *testing.T, got, want ledger.Decision) {
	t.Helper()
	got.Wake = want.Wake
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func actions(all ...nodegroup.Action) []nodegroup.Action { return all }

func TestChangesOfReturnedBooksDoNotChangeLedger(t *testing.T) {
	l := ledger.FromBooks(zoneA(ledger.Zone{Open: []ledger.Launch{{Serial: 1}}}))
	before := l.Books()
	books := l.Books()
	books.Zones["a"].Open[0].Serial = 9
	books.Zones["b"] = ledger.Zone{}
	if !reflect.DeepEqual(l.Books(), before) {
		t.Errorf("the ledger became %+v", l)
	}
}

func TestLedgerSurvivesJSONRoundTrip(t *testing.T) {
	cases := map[string]struct {
		books ledger.Books
		want  string
	}{
		"nothing": {ledger.Books{}, `{}`},
		"a zone":  {ledger.Books{Zonal: true, Zones: map[string]ledger.Zone{"a": {Surge: 1, Launched: 1, Serial: 1}}}, `{"zonal":true,"zones":{"a":{"surge":1,"launched":1,"shrunk":0,"removed":0,"serial":1}}}`},
		"an open launch": {
			whole(ledger.Zone{Open: []ledger.Launch{{Serial: 1, N: 2, Desired: 4, Max: 8}}}),
			`{"changed":"2026-11-24T12:00:00Z","zones":{"":{"surge":0,"launched":0,"shrunk":0,"removed":0,"serial":0,"open":[{"serial":1,"n":2,"desired":4,"max":8}]}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(ledger.FromBooks(c.books))
			if err != nil || string(text) != c.want {
				t.Errorf("got %s, %v, want %s", text, err, c.want)
			}
			var read ledger.Ledger
			if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read.Books(), c.books) {
				t.Errorf("read %+v, %v, want %+v", read.Books(), err, c.books)
			}
		})
	}
}

func TestLedgerCountsLaunchesRemovalsAndReturns(t *testing.T) {
	cases := map[string]struct {
		book func(*ledger.Ledger)
		want ledger.Zone
	}{
		"a node that is replaced in its zone": {func(l *ledger.Ledger) { l.BookRemoval("a", true, false, start) }, ledger.Zone{Removed: 1, Shrunk: 1}},
		"a node that the group replaces":      {func(l *ledger.Ledger) { l.BookRemoval("a", false, false, start) }, ledger.Zone{Removed: 1}},
		"a new node that is given back":       {func(l *ledger.Ledger) { l.BookReturn("a", start) }, ledger.Zone{Shrunk: 1}},
		"shrinking that did not happen":       {func(l *ledger.Ledger) { l.BookRemoval("a", true, false, start); l.UnbookShrink("a") }, ledger.Zone{Removed: 1}},
		"an end that did not happen":          {func(l *ledger.Ledger) { l.BookRemoval("a", false, false, start); l.UnbookRemoval("a", false) }, ledger.Zone{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := ledger.FromBooks(ledger.Books{Zonal: true})
			c.book(&l)
			if got := l.Books().Zones["a"]; !reflect.DeepEqual(got, c.want) || !l.Changed().Equal(start) {
				t.Errorf("got %+v, changed %s, want %+v", got, l.Changed(), c.want)
			}
		})
	}
}

// Launches with unknown answers count as contribution but not as confirmed. Nodes that a termination took are pending
// until they are launched again.
func TestLedgerSumsLaunchedAndRemovedNodesOfAllZones(t *testing.T) {
	books := zoneA(ledger.Zone{Launched: 3, Shrunk: 1, Removed: 2, Carried: 1, Open: []ledger.Launch{{N: 1}}})
	books.Zones["b"] = ledger.Zone{Shrunk: 1, Removed: 1}
	l := ledger.FromBooks(books)
	got := []int{l.Contribution(), l.ContributionIn("a"), l.ContributionIn("b"), l.ConfirmedSurge(), l.Removed(), l.Carried(), l.OpenLaunches(), l.PendingLaunches()}
	if want := []int{1, 2, -1, 0, 3, 1, 1, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMergedZonesSumTheirCounts(t *testing.T) {
	books := zoneA(ledger.Zone{Surge: 1, Launched: 1, Serial: 4, Refusal: "no capacity"})
	books.Zones["b"] = ledger.Zone{Surge: 1, Launched: 2, Shrunk: 1, Removed: 1, Serial: 2}
	l := ledger.FromBooks(books)
	l.MergeZones()
	want := map[string]ledger.Zone{"": {Surge: 2, Launched: 3, Shrunk: 1, Removed: 1, Serial: 4}}
	if got := l.Books(); got.Zonal || !reflect.DeepEqual(got.Zones, want) {
		t.Errorf("zonal %t, %+v, want %+v", got.Zonal, got.Zones, want)
	}
}
