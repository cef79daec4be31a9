package ledger_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

func TestLedgerRaisesMaxOnlyIfSurgeNeedsIt(t *testing.T) {
	cases := map[string]struct {
		zone   ledger.Zone
		change func(*ledger.View)
		want   ledger.Decision
	}{
		"there is room":       {ledger.Zone{Surge: 2}, nil, ledger.Decision{Done: true}},
		"there is not enough": {ledger.Zone{Surge: 2}, func(v *ledger.View) { v.Group.Max = 5 }, ledger.Decision{Poll: true, Actions: actions(nodegroup.RaiseMax{From: 5, Max: 6})}},
		"a zone whose turn comes": {ledger.Zone{Surge: 1}, func(v *ledger.View) {
			v.Group.Max, v.Limits.TakesTurns, v.Counts.Left = 4, true, map[string]int{"a": 1, "b": 4}
		}, ledger.Decision{Poll: true, Actions: actions(nodegroup.RaiseMax{From: 4, Max: 6})}},
		"it is to be kept":        {ledger.Zone{Surge: 2}, func(v *ledger.View) { v.Group.Max, v.Limits.KeepMax = 5, true }, ledger.Decision{Done: true}},
		"the group has no size":   {ledger.Zone{Surge: 2}, func(v *ledger.View) { v.Group.Max, v.Group.Can = 5, nodegroup.Capabilities{} }, ledger.Decision{Done: true}},
		"the surge is there, too": {ledger.Zone{Surge: 2, Launched: 2}, func(v *ledger.View) { v.Group.Max = 4 }, ledger.Decision{Done: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := view(), ledger.FromBooks(zoneA(c.zone))
			if c.change != nil {
				c.change(&v)
			}
			wantDecision(t, l.Keeper(v).RaiseMaximum(), c.want)
		})
	}
}

func TestLedgerLowersOnlyMaxThatItRaised(t *testing.T) {
	cases := map[string]struct {
		from, to int
		change   func(*nodegroup.Group)
		want     ledger.Decision
	}{
		"it was not raised":                {0, 0, nil, ledger.Decision{Done: true}},
		"E60 back to what it was":          {4, 6, nil, ledger.Decision{Poll: true, Actions: actions(nodegroup.LowerMax{From: 6, Max: 4})}},
		"E53 never below the desired size": {4, 6, func(g *nodegroup.Group) { g.Desired = 5 }, ledger.Decision{Poll: true, Actions: actions(nodegroup.LowerMax{From: 6, Max: 5})}},
		"E61 another actor raised it":      {4, 6, func(g *nodegroup.Group) { g.Max = 9 }, ledger.Decision{Done: true}},
		"the reading may be an old one":    {4, 6, func(g *nodegroup.Group) { g.Max, g.Observed = 4, start }, ledger.Decision{Poll: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, books := view(), zoneA(ledger.Zone{})
			books.MaxFrom, books.MaxTo = c.from, c.to
			l := ledger.FromBooks(books)
			if c.change != nil {
				c.change(v.Group)
			}
			wantDecision(t, l.Keeper(v).LowerMaximum(), c.want)
		})
	}
}

// TestLowerMaximumKeepsTheRaiseOfAnOpenLaunch: a stop finds an unanswered launch that raises the maximum again. The
// ledger keeps the whole raise.
func TestLowerMaximumKeepsTheRaiseOfAnOpenLaunch(t *testing.T) {
	v, books := view(), zoneA(ledger.Zone{Launched: 3, Serial: 1, Open: []ledger.Launch{{Serial: 1, N: 3, Desired: 4, Max: 9}}})
	books.MaxFrom, books.MaxTo, v.Group.Max = 4, 9, 6
	l := ledger.FromBooks(books)
	wantDecision(t, l.Keeper(v).LowerMaximum(), ledger.Decision{Done: true})
	if got := l.Books(); got.MaxFrom != 4 || got.MaxTo != 9 {
		t.Errorf("the raise is from %d to %d on the books, want from 4 to 9", got.MaxFrom, got.MaxTo)
	}
}

func TestLedgerDetectsLoweredGroupMax(t *testing.T) {
	cases := map[string]struct {
		seen, low, is int
		seenAt        time.Time
		before        int
		polls         bool
	}{
		"never seen":          {0, 0, 6, time.Time{}, 0, false},
		"as it was":           {6, 0, 6, start, 0, false},
		"raised":              {5, 0, 6, start, 0, false},
		"lowered":             {8, 0, 6, start, 8, false},
		"lowered by us":       {8, 6, 6, start, 0, false},
		"an old reading":      {8, 0, 6, start.Add(time.Minute), 0, true},
		"lowered to one less": {7, 0, 6, start, 7, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, books := view(), zoneA(ledger.Zone{})
			books.MaxSeen, books.MaxSeenAt, books.MaxLow, v.Group.Max = c.seen, c.seenAt, c.low, c.is
			l := ledger.FromBooks(books)
			if before, d := l.Keeper(v).WatchMaximum(); before != c.before || d.Poll != c.polls {
				t.Errorf("before %d, polls %t, want %d, %t", before, d.Poll, c.before, c.polls)
			}
		})
	}
}

// G77: room for new nodes is made once, however the group's size changes.
func TestGroupMaxIsRaisedOnceForNewNodes(t *testing.T) {
	raise := ledger.Decision{Poll: true, Actions: actions(nodegroup.RaiseMax{From: 6, Max: 9})}
	cases := map[string]struct {
		from, to int
		change   func(*ledger.View)
		want     ledger.Decision
	}{
		"G77 by as many nodes":  {0, 0, nil, raise},
		"G77 asked for again":   {6, 9, nil, raise},
		"G77 once":              {3, 6, func(v *ledger.View) { v.Group.Desired = 6 }, ledger.Decision{Done: true}},
		"it is to be kept":      {0, 0, func(v *ledger.View) { v.Limits.KeepMax = true }, ledger.Decision{Done: true}},
		"the group has no size": {0, 0, func(v *ledger.View) { v.Group.Can = nodegroup.Capabilities{} }, ledger.Decision{Done: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, books := view(), zoneA(ledger.Zone{})
			books.MaxFrom, books.MaxTo = c.from, c.to
			l := ledger.FromBooks(books)
			if c.change != nil {
				c.change(&v)
			}
			wantDecision(t, l.Keeper(v).RaiseMaximumOnce(3), c.want)
		})
	}
}
