package ledger

import (
	"cmp"
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// RaiseMaximum makes room for the surge. If launches name a zone, the maximum is raised first. Otherwise one request
// raises the maximum and the desired size together, and RaiseMaximum does nothing.
func (k Keeper) RaiseMaximum() Decision {
	return k.finishDecision(k.raiseMaximum())
}

func (k *Keeper) raiseMaximum() (done bool) {
	b, g := &k.l.books, k.Group
	if !g.Can.Bounds || !b.Zonal || k.Limits.KeepMax || ZoneLaunchRefusal(k.Open) != "" {
		return true
	}
	if g.Max < b.MaxSeen {
		k.pollCloudSoon("the group's maximum to be read again: a user or another process may have lowered it")
		return false
	}
	if b.MaxTo == 0 || g.Max >= b.MaxTo {
		missing := k.missingSurge()
		if g.Desired+missing <= g.Max {
			return true
		}
		b.MaxFrom = cmp.Or(b.MaxFrom, g.Max)
		b.MaxTo = g.Desired + missing
	}
	k.pollCloudSoon("")
	k.addAction(nodegroup.RaiseMax{From: g.Max, Max: b.MaxTo})
	return false
}

// RaiseMaximumOnce raises the maximum by n nodes, once, so that an autoscaler can add new nodes beside those that they replace
// (GKE G77).
func (k Keeper) RaiseMaximumOnce(n int) Decision {
	b, g := &k.l.books, k.Group
	switch {
	case k.Limits.KeepMax || !g.Can.Bounds || (b.MaxTo == 0 && n == 0):
		return k.finishDecision(true)
	case g.Max < b.MaxSeen:
		k.pollCloudSoon("the group's maximum to be read again: a user or another process may have lowered it")
		return k.decided
	case b.MaxTo == 0:
		b.MaxFrom, b.MaxTo = g.Max, g.Max+n
	case g.Max >= b.MaxTo:
		return k.finishDecision(true)
	}
	k.pollCloudSoon("")
	k.addAction(nodegroup.RaiseMax{From: g.Max, Max: b.MaxTo})
	return k.decided
}

// missingSurge returns for how many more nodes the group needs room. If zones take turns, it is the largest need of a
// zone.
func (k *Keeper) missingSurge() int {
	missing, most := 0, 0
	for zone, z := range k.l.books.Zones {
		missing += max(0, min(z.Surge, k.Counts.Left[zone])-z.Contribution())
	}
	if !k.Limits.TakesTurns {
		return missing
	}
	for _, left := range k.Counts.Left {
		most = max(most, min(k.Limits.Surge, left))
	}
	return max(missing, most-k.l.Contribution())
}

// maximumAfterLaunch records the raise of the maximum that comes with a launch of n nodes without a zone. It returns the
// new maximum.
func (k *Keeper) maximumAfterLaunch(n int) int {
	b, g := &k.l.books, k.Group
	b.MaxFrom = cmp.Or(b.MaxFrom, g.Max)
	from := g.Max
	if !g.IsFreshAfter(b.Changed) {
		from = max(from, b.MaxTo) // the reading may be older than our last raise
	}
	b.MaxTo = from + n
	return b.MaxTo
}

// settleRaise records the result of the raise that came with a launch. A raise that landed is recorded even if a stop
// closed the raise before its answer.
func (l *Ledger) settleRaise(launch Launch, landed bool) {
	b := &l.books
	switch {
	case launch.Max == 0:
	case landed && b.MaxTo < launch.Max:
		b.MaxFrom, b.MaxTo = cmp.Or(b.MaxFrom, launch.Max-launch.N), launch.Max
	case !landed && b.MaxTo == launch.Max:
		if b.MaxTo -= launch.N; b.MaxTo <= b.MaxFrom {
			b.MaxFrom, b.MaxTo = 0, 0
		}
	}
}

// WatchMaximum compares the group's maximum with the one seen before. If another process lowered it, it returns the
// previous maximum and removes the raise from the ledger; otherwise 0.
func (k Keeper) WatchMaximum() (before int, d Decision) {
	b, g := &k.l.books, k.Group
	switch {
	case !g.Can.Bounds:
	case g.Max >= b.MaxSeen, g.Max == b.MaxLow: // an earlier stop of the upgrade may have lowered it
		if g.Max != b.MaxSeen {
			b.MaxSeen, b.MaxSeenAt = g.Max, g.Observed
		}
	case !g.IsFreshAfter(b.MaxSeenAt):
		d.Poll = true
	default:
		before = b.MaxSeen
		k.l.closeRaise()
		b.MaxSeen = 0
	}
	return before, d
}

// ForgetMaximum clears the largest maximum that was read, so that a process that continues an upgrade accepts the current one.
func (l *Ledger) ForgetMaximum() { l.books.MaxSeen = 0 }

// LowerMaximum takes back the upgrade's raise of the maximum and nothing else. It never goes below the desired size,
// and does nothing if another process changed the maximum since (EKS E61).
func (k Keeper) LowerMaximum() Decision {
	b, g := &k.l.books, k.Group
	old := !g.IsFreshAfter(b.Changed)
	if old && k.mayNotShowRaise() {
		k.pollCloudSoon("")
		return k.decided
	}
	if b.MaxLow != 0 && g.Max == b.MaxLow {
		b.MaxTo, b.MaxLow = b.MaxLow, 0 // the raise is taken back, at least partly
	}
	if k.dropForeignRaise() {
		return k.finishDecision(true)
	}
	k.pollCloudSoon("")
	if g.Desired > b.MaxFrom && k.l.Contribution() <= 0 && old {
		k.pollCloudSoon("the group's desired size to show the removed nodes")
		return k.decided
	}
	low := max(b.MaxFrom, g.Desired)
	if low >= g.Max {
		return k.finishDecision(true)
	}
	b.MaxLow = low
	k.addAction(nodegroup.LowerMax{From: g.Max, Max: low})
	return k.decided
}

// dropForeignRaise forgets our raise if another process changed the maximum since. It reports whether nothing can be
// reverted now: there is no raise, or an open launch may be part of it. The process that continues resolves that launch.
func (k *Keeper) dropForeignRaise() (over bool) {
	b, g := &k.l.books, k.Group
	switch {
	case b.MaxTo > g.Max && k.l.OpenLaunches() > 0:
		return true
	case b.MaxTo <= b.MaxFrom, g.Max != b.MaxTo:
		k.l.closeRaise()
		return true
	}
	return false
}

// mayNotShowRaise reports whether the group's reading may be older than our raise of the maximum.
func (k Keeper) mayNotShowRaise() bool {
	b := &k.l.books
	return b.MaxTo > k.Group.Max && k.lastAttempt(nodegroup.LowerMax{Max: b.MaxLow}).Outcome != nodegroup.OutcomeDone
}

// closeRaise forgets a raise that was reverted or changed by another process. A later raise begins again.
func (l *Ledger) closeRaise() { l.books.MaxFrom, l.books.MaxTo, l.books.MaxLow = 0, 0, 0 }

// DescribeMaximum returns why the raise of the maximum is not completely taken back; "" if it is (EKS E61). desired is
// the group's desired size.
func (l *Ledger) DescribeMaximum(desired int) string {
	if l.books.MaxTo <= l.books.MaxFrom {
		return ""
	}
	return fmt.Sprintf("the group's max stays at %d instead of %d, because its desired size is now %d", l.books.MaxTo, l.books.MaxFrom, desired)
}
