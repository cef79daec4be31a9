package upgrade

import (
	"cmp"
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// maximum raises and lowers the group's maximum size.
type maximum struct{ *draft }

func maximumOf(d *draft) maximum { return maximum{d} }

// raiseMaximum makes room for the surge. Where launches name a zone the maximum is raised by itself
// first; elsewhere, and where such launches turn out not to be supported, one request raises
// maximum and desired size together, and this is a no-op.
func (d maximum) raiseMaximum() bool {
	l, g := &d.rec.Ledger, &d.w.Group
	if !g.Sized || !l.Zonal || d.rec.Request.KeepMax || d.w.zoneLaunchRefusal() != "" {
		return true
	}
	if g.Max < l.MaxSeen {
		d.waitForCloud("the group's maximum to be read again: another actor may have lowered it")
		return false
	}
	if l.MaxTo == 0 || g.Max >= l.MaxTo {
		missing := 0
		for zone, z := range l.Zones {
			missing += max(0, min(z.Surge, d.count.left[zone])-z.Contribution())
		}
		if g.Desired+missing <= g.Max {
			return true
		}
		l.MaxFrom = cmp.Or(l.MaxFrom, g.Max)
		l.MaxTo = g.Desired + missing
	}
	d.waitForCloud("")
	d.addAction(nodegroup.RaiseMax{From: g.Max, Max: l.MaxTo})
	return false
}

// watchMaximum stops the upgrade when another actor lowered the group's maximum: whether its surge
// and its replacements may still have the room that they need is for a person to say. It is not
// raised again by itself.
func (d maximum) watchMaximum() {
	l, g := &d.rec.Ledger, &d.w.Group
	switch {
	case !g.Sized:
	case g.Max >= l.MaxSeen, g.Max == l.MaxLow: // a stop of ours may have lowered it
		if g.Max != l.MaxSeen {
			l.MaxSeen, l.MaxSeenAt = g.Max, g.Observed
		}
	case !g.IsFreshAfter(l.MaxSeenAt):
		d.waitForCloud("")
	default:
		from := l.MaxSeen
		l.closeRaise()
		l.MaxSeen = 0
		d.stopUpgradeWith(Paused, fmt.Sprintf("the group's max was lowered from %d to %d by another actor during the upgrade: run kubectl nodeupgrade resume %s to continue, "+
			"which raises it again as far as it has to, or kubectl nodeupgrade abort %s", from, g.Max, g.Name, g.Name))
	}
}

// lowerMaximum takes back our raise of the maximum and nothing else: never below the desired size,
// and not at all when another actor changed it meanwhile (EKS E61).
func (d maximum) lowerMaximum() bool {
	l, g := &d.rec.Ledger, &d.w.Group
	old := !g.IsFreshAfter(l.Changed)
	if l.MaxTo > g.Max && old && d.lastAttempt(nodegroup.LowerMax{Max: l.MaxLow}).Outcome != nodegroup.OutcomeDone {
		d.waitForCloud("")
		return false // the reading may be older than the raise
	}
	l.noteLowered(g.Max)
	if l.MaxTo <= l.MaxFrom || g.Max != l.MaxTo {
		l.closeRaise()
		return true
	}
	d.waitForCloud("")
	if g.Desired > l.MaxFrom && l.Contribution() <= 0 && old {
		d.waiting = "the group's desired size to show what was given back"
		return false
	}
	return d.lowerMaximumTo(max(l.MaxFrom, g.Desired))
}

// lowerMaximumTo lowers the group's maximum, on the books first, and reports whether it is as low.
func (d maximum) lowerMaximumTo(maximum int) bool {
	l, g := &d.rec.Ledger, &d.w.Group
	if maximum >= g.Max {
		return true
	}
	l.MaxLow = maximum
	d.addAction(nodegroup.LowerMax{From: g.Max, Max: maximum})
	return false
}

// describeMaximum says why our raise of the maximum is not all taken back, "" when it is (EKS E61).
func (d maximum) describeMaximum() string {
	l := &d.rec.Ledger
	if l.MaxTo <= l.MaxFrom {
		return ""
	}
	return fmt.Sprintf("the group's max stays at %d and was %d: its desired size is %d by now", l.MaxTo, l.MaxFrom, d.w.Group.Desired)
}
