package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

func TestLaunchesKeepEachZoneAtItsSurge(t *testing.T) {
	asks := func(all ...nodegroup.Action) ledger.Decision { return ledger.Decision{Poll: true, Actions: all} }
	first := nodegroup.AddCapacity{N: 2, Desired: 4, Max: 6, Token: ledger.Token("r1", "", 1)}
	cases := map[string]struct {
		books  ledger.Books
		change func(*ledger.View)
		want   ledger.Decision
	}{
		"one at a time where it names the zone": {zoneA(ledger.Zone{Surge: 2}), nil, asks(actionToLaunchIn("a", 1), actionToLaunchIn("a", 2))},
		"all at once where it does not":         {whole(ledger.Zone{Surge: 2}), nil, asks(first)},
		"no more than outdated nodes are left": {
			zoneA(ledger.Zone{Surge: 2}), func(v *ledger.View) { v.Counts.Left["a"] = 1 }, asks(actionToLaunchIn("a", 1)),
		},
		"what is there is not launched again": {zoneA(ledger.Zone{Surge: 2, Launched: 2, Serial: 2}), nil, ledger.Decision{}},
		"what a termination took is launched": {zoneA(ledger.Zone{Surge: 1, Launched: 1, Shrunk: 1, Serial: 1}), nil, asks(actionToLaunchIn("a", 2))},
		"but not before it has begun": {
			zoneA(ledger.Zone{Surge: 1, Launched: 1, Shrunk: 1, Serial: 1}), func(v *ledger.View) { v.Counts.Shrinking["a"] = 1 }, ledger.Decision{},
		},
		"an open one is asked for again": {zoneA(ledger.Zone{Surge: 1, Launched: 1, Serial: 1, Open: []ledger.Launch{{Serial: 1, N: 1}}}), nil, asks(actionToLaunchIn("a", 1))},
		"a refused one waits for its time": {
			zoneA(ledger.Zone{Surge: 1, Refusal: "no capacity", RetryAt: start.Add(time.Hour)}), nil, ledger.Decision{},
		},
		"none in a zone where that is unsupported": {
			zoneA(ledger.Zone{Surge: 1}), func(v *ledger.View) { answered(v, actionToLaunchIn("b", 1), nodegroup.OutcomeUnsupported) }, ledger.Decision{},
		},
		"none of a group without a size": {zoneA(ledger.Zone{Surge: 1}), func(v *ledger.View) { v.Group.Can = nodegroup.Capabilities{} }, ledger.Decision{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(c.books)
			if c.change != nil {
				c.change(&v)
			}
			wantDecision(t, l.Keeper(v).KeepSurgeLaunched(), c.want)
		})
	}
}

// S6: if no node may be unavailable, the surge that one zone has given back is used for the next zone.
func TestSurgeOfFinishedZoneIsUsedForNextZone(t *testing.T) {
	cases := map[string]struct {
		unavailable int
		want        []int // the surge of zones a and b
	}{
		"where none may be missing": {0, []int{0, 1}},
		"where one may":             {1, []int{1, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(zoneA(ledger.Zone{Surge: 1, Launched: 1, Shrunk: 1, Serial: 1}))
			v.Limits = ledger.Limits{Surge: 1, MaxUnavailable: c.unavailable}
			v.Counts.Left = map[string]int{"b": 2}
			l.Keeper(v).KeepSurgeLaunched()
			zones := l.Books().Zones
			if got := []int{zones["a"].Surge, zones["b"].Surge}; !reflect.DeepEqual(got, c.want) {
				t.Errorf("surge %v, want %v", got, c.want)
			}
		})
	}
}

func TestLedgerRecordsAnswersToLaunches(t *testing.T) {
	open := zoneA(ledger.Zone{Surge: 1, Launched: 1, Serial: 1, Open: []ledger.Launch{{Serial: 1, N: 1}}})
	asked := ledger.Launch{Serial: 1, N: 1, Desired: 4, Max: 7}
	raised := whole(ledger.Zone{Surge: 1, Launched: 1, Serial: 1, Open: []ledger.Launch{asked}})
	raised.MaxFrom, raised.MaxTo = 6, 7
	doubted := whole(ledger.Zone{Surge: 1, Launched: 1, Serial: 1, Open: []ledger.Launch{{Serial: 1, N: 1, Desired: 4, Max: 7, Doubt: true}}})
	doubted.MaxFrom, doubted.MaxTo = 6, 7
	lost := zoneA(ledger.Zone{Surge: 1, Launched: 1, Serial: 1, Open: []ledger.Launch{{Serial: 1, N: 1, Doubt: true}}})
	add := nodegroup.AddCapacity{N: 1, Desired: 4, Max: 6, Token: ledger.Token("r1", "", 1)}
	cases := map[string]struct {
		books          ledger.Books
		change         func(*ledger.View)
		launched, open int
		maximum        int
	}{
		"no answer":                  {open, nil, 1, 1, 0},
		"accepted":                   {open, func(v *ledger.View) { answered(v, actionToLaunchIn("a", 1), nodegroup.OutcomeDone) }, 1, 0, 0},
		"no capacity":                {open, func(v *ledger.View) { answered(v, actionToLaunchIn("a", 1), nodegroup.OutcomeExhausted) }, 0, 0, 0},
		"lost":                       {open, func(v *ledger.View) { answered(v, actionToLaunchIn("a", 1), nodegroup.OutcomeUnclear) }, 1, 1, 0},
		"lost, and seen":             {raised, func(v *ledger.View) { v.Group.Max = 7 }, 1, 0, 7},
		"refused with its raise":     {raised, func(v *ledger.View) { answered(v, add, nodegroup.OutcomeExhausted) }, 0, 0, 0},
		"forbidden":                  {open, func(v *ledger.View) { answered(v, actionToLaunchIn("a", 1), nodegroup.OutcomeFatal) }, 0, 0, 0},
		"lost, then forbidden":       {lost, func(v *ledger.View) { answered(v, actionToLaunchIn("a", 1), nodegroup.OutcomeFatal) }, 1, 1, 0},
		"lost, then no capacity":     {lost, func(v *ledger.View) { answered(v, actionToLaunchIn("a", 1), nodegroup.OutcomeExhausted) }, 0, 0, 0},
		"another raised the maximum": {raised, func(v *ledger.View) { answered(v, add, nodegroup.OutcomeMoved); v.Group.Max = 9 }, 0, 0, 0},
		"moved, by an old reading": {doubted, func(v *ledger.View) {
			answered(v, add, nodegroup.OutcomeMoved)
			v.Group.Observed = start.Add(20 * time.Second)
		}, 1, 1, 7},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(c.books)
			l = l.Clone() // the cases share their ledger
			if c.change != nil {
				c.change(&v)
			}
			l.Keeper(v).RecordAnswers()
			if got := l.Books(); l.OpenLaunches() != c.open || l.Contribution() != c.launched || got.MaxTo != c.maximum {
				t.Errorf("%d open, %d contributed, max to %d; want %d, %d, %d", l.OpenLaunches(), l.Contribution(), got.MaxTo, c.open, c.launched, c.maximum)
			}
		})
	}
}

// A launch without a token and without an answer is resolved by a later reading. One with a token is repeated.
func TestOpenLaunchIsRepeatedOnlyWithToken(t *testing.T) {
	cases := map[string]struct {
		books ledger.Books
		want  ledger.Decision
	}{
		"none":            {zoneA(ledger.Zone{}), ledger.Decision{Done: true}},
		"with a token":    {zoneA(ledger.Zone{Launched: 1, Open: []ledger.Launch{{Serial: 1, N: 1}}}), ledger.Decision{Poll: true, Actions: actions(actionToLaunchIn("a", 1))}},
		"without a token": {whole(ledger.Zone{Launched: 1, Open: []ledger.Launch{{Serial: 1, N: 1, Max: 7}}}), ledger.Decision{Poll: true, Done: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := ledger.FromBooks(c.books)
			wantDecision(t, l.Keeper(view()).ResolveOpenLaunches(), c.want)
		})
	}
}

// E20: a removed node is launched again in its own zone. A group that names no zones replaces terminated nodes by itself,
// and only lacks a node if it was shrunk while it named zones.
func TestRemovedNodeIsLaunchedAgainInItsZone(t *testing.T) {
	missing := func(z ledger.Zone) ledger.Zone { z.Shrunk++; return z }
	retry := start.Add(time.Hour)
	cases := map[string]struct {
		books   ledger.Books
		desired int
		want    ledger.Decision
	}{
		"nothing was taken":        {zoneA(ledger.Zone{Launched: 1}), 4, ledger.Decision{Done: true}},
		"a node was taken":         {zoneA(missing(ledger.Zone{})), 4, ledger.Decision{Poll: true, Actions: actions(actionToLaunchIn("a", 1))}},
		"launching it was refused": {zoneA(missing(ledger.Zone{Refusal: "no capacity"})), 4, ledger.Decision{Done: true}},
		"the group is larger than it was read": {
			zoneA(missing(ledger.Zone{Refusal: "the desired size is 4 now", Stale: true})), 4, ledger.Decision{Poll: true, Actions: actions(actionToLaunchIn("a", 1))},
		},
		"and not read again yet": {zoneA(missing(ledger.Zone{Refusal: "the desired size is 4 now", Stale: true, RetryAt: retry})), 4, ledger.Decision{Poll: true, Wake: retry}},
		"and has no room":        {zoneA(missing(ledger.Zone{Refusal: "above max value 6", Stale: true})), 6, ledger.Decision{Done: true}},
		"the group turned out to name no zones": {
			whole(missing(ledger.Zone{})), 4, ledger.Decision{Poll: true, Actions: actions(nodegroup.AddCapacity{N: 1, Desired: 4, Max: 6, Token: ledger.Token("r1", "", 1)})},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, v := ledger.FromBooks(c.books), view()
			v.Group.Desired = c.desired
			wantDecision(t, l.Keeper(v).LaunchMissing(), c.want)
		})
	}
}
