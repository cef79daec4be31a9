package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// capacity keeps the group as large as its ledger says, and the ledger true to what the cloud
// answered.
type capacity struct{ *draft }

func capacityOf(d *draft) capacity { return capacity{d} }

// keepSurgeLaunched keeps each zone's contribution at its surge while the zone has that many outdated nodes
// left. What a termination gives back is launched again only when the cloud has begun it: a launch
// that overtook it would make the group larger than its surge allows, which its maximum may forbid.
func (t capacity) keepSurgeLaunched() {
	if !t.w.Group.Sized || (t.rec.Ledger.hasRefusedLaunch() && !maximumOf(t.draft).raiseMax()) {
		return
	}
	shrinking := t.rec.openShrinks()
	if len(shrinking) == 0 {
		t.lendSurge()
	}
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		z := t.rec.Ledger.Zones[zone]
		missing := min(z.Surge, t.count.left[zone]) - z.Contribution() - shrinking[zone]
		if t.w.Now.Before(z.RetryAt) {
			if len(z.Open) > 0 {
				t.waitForCloud("")
			}
			t.requeueAt(z.RetryAt)
			continue
		}
		if missing > 0 && (!t.rec.Ledger.Zonal || t.w.zoneLaunchRefusal() == "") {
			t.recordLaunches(zone, missing)
		}
		t.requestLaunches(zone)
	}
}

// requestLaunches sends the zone's launches that are on the books.
func (t capacity) requestLaunches(zone string) {
	for _, l := range t.rec.Ledger.Zones[zone].Open {
		t.waitForCloud("")
		if add := t.launchAction(zone, l); !t.w.isUnproven(l, t.lastAttempt(add)) {
			t.addAction(add)
		}
	}
}

// lendSurge gives zones that were dealt no surge what other zones have given back. Where no node
// may be missing they could not begin otherwise (S6).
func (t capacity) lendSurge() {
	if t.rec.Request.MaxUnavailable > 0 {
		return
	}
	free := t.rec.Request.Surge
	spare := map[string]int{} // by zone, what it was dealt and has given back
	for zone, z := range t.rec.Ledger.Zones {
		needed := max(z.Contribution(), min(z.Surge, t.count.left[zone]))
		free -= needed
		spare[zone] = z.Surge - needed
	}
	for _, zone := range slices.Sorted(maps.Keys(t.count.left)) {
		if free <= 0 || t.count.left[zone] == 0 || t.rec.Ledger.Zones[zone].Surge > 0 {
			continue
		}
		for _, lender := range slices.Sorted(maps.Keys(spare)) {
			if spare[lender] > 0 {
				spare[lender]--
				t.rec.Ledger.updateZone(lender, func(z *ZoneLedger) { z.Surge-- })
				break
			}
		}
		t.rec.Ledger.updateZone(zone, func(z *ZoneLedger) { z.Surge = 1 })
		free--
	}
}

// recordLaunches writes down the launches that are to be made. A zonal provider is asked for one node at a
// time, so that no answer can be half a success; another for all at once, and for more only when
// that is answered, because the maximum that proves the one would count for the other.
func (t capacity) recordLaunches(zone string, n int) {
	if !t.rec.Ledger.Zonal && t.rec.Ledger.openLaunches() > 0 {
		return
	}
	t.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
		z.Launched += n
		if !t.rec.Ledger.Zonal {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: n, Desired: t.w.Group.Desired, Max: t.raiseWith(n)})
			return
		}
		for range n {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: 1})
		}
	})
}

// raiseWith books the raise of the maximum that comes with a launch of n nodes of a group that
// names no zones, and returns what it makes of the maximum.
func (t capacity) raiseWith(n int) int {
	l, g := &t.rec.Ledger, &t.w.Group
	l.MaxFrom = cmp.Or(l.MaxFrom, g.Max)
	from := g.Max
	if !g.IsFreshAfter(l.Changed) {
		from = max(from, l.MaxTo) // the reading may be older than our last raise
	}
	l.MaxTo = from + n
	return l.MaxTo
}

func (t capacity) launchAction(zone string, l Launch) nodegroup.AddCapacity {
	return nodegroup.AddCapacity{Zone: zone, N: l.N, Desired: l.Desired, Max: max(0, l.Max-l.N), Token: launchToken(t.rec.Run, zone, l.Serial)}
}

// recordAnswers books the answers to launches and terminations. What is observed counts like an answer.
func (t capacity) recordAnswers() {
	for zone, z := range t.rec.Ledger.Zones {
		for _, l := range slices.Clone(z.Open) {
			t.recordAnswer(zone, l)
		}
	}
	t.growAsAWhole()
	if raise := t.lastAttempt(nodegroup.RaiseMax{Max: t.rec.Ledger.MaxTo}); raise.Outcome == nodegroup.OutcomeDone || raise.Outcome == nodegroup.OutcomeUnclear {
		t.noteSizeChange(raise.Ended)
	}
	if fatal := t.w.fatalRefusal(); fatal != "" {
		attempt := t.w.Open[fatal]
		t.stopWith(Failed, fmt.Sprintf("to %s: %s", attempt.Action, attempt.Detail))
	}
}

// growAsAWhole gives up launches that name a zone where they are not to be had: what was added is
// one zone's from then on. Such a launch raises the group's maximum, which shows that it landed;
// who keeps the maximum cannot have it.
func (t capacity) growAsAWhole() {
	refusal := t.w.zoneLaunchRefusal()
	switch {
	case refusal == "" || !t.rec.Ledger.Zonal || t.rec.Ledger.openLaunches() > 0:
	case t.rec.Request.KeepMax:
		t.stopWith(Failed, "launching in a zone: "+refusal+": that may help, or to leave --keep-max out, so that the group can be made larger as a whole")
	default:
		t.rec.mergeZones()
		t.count = countMembers(t.w, &t.rec)
	}
}

func (t capacity) recordAnswer(zone string, l Launch) {
	attempt := t.lastAttempt(t.launchAction(zone, l))
	landed, refused := t.w.answerOf(l, attempt)
	if !landed && !refused {
		return
	}
	t.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == l.Serial })
		if landed {
			z.Refusal = ""
			t.noteSizeChange(cmp.Or(attempt.Ended, t.w.Now))
			return
		}
		z.Launched -= l.N
		retry := attempt.NotBefore
		if attempt.Outcome == nodegroup.OutcomeMoved {
			retry = attempt.Ended.Add(movedPause)
		}
		if z.Refusal = attempt.Detail; retry.After(z.RetryAt) {
			z.RetryAt = retry // several may be refused at once
		}
	})
	t.rec.Ledger.settleRaise(l, landed)
}

// noteSizeChange notes that the group's size was changed by us, so that readings from before are told from
// later ones.
func (t capacity) noteSizeChange(at time.Time) {
	if at.After(t.rec.Ledger.Changed) {
		t.rec.Ledger.Changed = at
	}
}

// shouldShrink decides how an outdated node is terminated. Where launches name a zone it always shrinks
// the group, and launch replaces it in its own zone: a group that replaces by itself does so in the
// zone with the fewest nodes. Elsewhere it shrinks only while no more nodes are left than were
// added. A group at its minimum cannot shrink: it replaces the node by itself then.
func (t capacity) shouldShrink(zone string) bool {
	l := &t.rec.Ledger
	return t.canShrink() && (l.Zonal || t.count.left[zone] <= l.Zones[zone].Contribution())
}

// canShrink reports whether the group's size may fall by one: by its last reading or, while that
// may not show what landed lately, by our books. What others did meanwhile may be on neither: then
// the cloud refuses, see refusedToShrink.
func (t capacity) canShrink() bool {
	l, g := &t.rec.Ledger, &t.w.Group
	if !g.IsFreshAfter(l.Changed) {
		return g.Sized && t.rec.Sizes.Desired+l.confirmedSurge() > g.Min
	}
	size := g.Desired
	for _, n := range t.rec.Nodes {
		if n.State == NodeRemoving && n.Shrink && !n.Landed {
			size--
		}
	}
	return g.Sized && size > g.Min
}

// movedPause is how long a launch is not asked for again that the group, as it is by now, did not
// admit: the group has to be read anew first.
const movedPause = 10 * time.Second

// staleReading is the age of a reading of the cloud at which several in a row must have failed.
const staleReading = 3 * time.Minute

// zoneSpread is by how many nodes the largest zone exceeds the smallest.
func zoneSpread(zones []string, sizes map[string]int) int {
	if len(zones) == 0 {
		return 0
	}
	smallest, largest := sizes[zones[0]], sizes[zones[0]]
	for _, zone := range zones {
		smallest, largest = min(smallest, sizes[zone]), max(largest, sizes[zone])
	}
	return largest - smallest
}

// resolveOpenLaunches finds out what became of launches whose answer nobody knows, and reports whether that
// is known of all. Under its token a launch is asked for again, which makes it one launch; without
// a token the group's maximum tells.
func (t capacity) resolveOpenLaunches() bool {
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		for _, launch := range t.rec.Ledger.Zones[zone].Open {
			t.waitForCloud("")
			if launch.Max > 0 && t.w.Group.IsFreshAfter(t.rec.PhaseBegan) && t.lastAttempt(t.launchAction(zone, launch)).Begun.IsZero() {
				t.dropLaunch(zone, launch)
			}
		}
		if t.rec.Ledger.Zonal {
			t.requestLaunches(zone)
		}
	}
	return t.rec.Ledger.openLaunches() == 0
}

// dropLaunch takes a launch off the books that is known to have had no effect.
func (t capacity) dropLaunch(zone string, launch Launch) {
	t.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == launch.Serial })
		z.Launched -= launch.N
	})
	t.rec.Ledger.settleRaise(launch, false)
}
