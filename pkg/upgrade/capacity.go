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

// keepSurgeLaunched keeps each zone's contribution at its surge while the zone has that many
// outdated nodes left. What a termination gives back is launched again only when the cloud has
// begun it: a launch that overtook it would make the group larger than its surge allows, which its
// maximum may forbid.
func (d capacity) keepSurgeLaunched() {
	if !d.w.Group.Sized || (d.rec.Ledger.hasRefusedLaunch() && !maximumOf(d.draft).raiseMaximum()) {
		return
	}
	shrinking := d.rec.openShrinks()
	if len(shrinking) == 0 {
		d.lendSurgeToZones()
	}
	for _, zone := range slices.Sorted(maps.Keys(d.rec.Ledger.Zones)) {
		z := d.rec.Ledger.Zones[zone]
		missing := min(z.Surge, d.count.left[zone]) - z.Contribution() - shrinking[zone]
		if d.w.Now.Before(z.RetryAt) {
			if len(z.Open) > 0 {
				d.waitForCloud("")
			}
			d.requeueAt(z.RetryAt)
			continue
		}
		if missing > 0 && (!d.rec.Ledger.Zonal || d.w.zoneLaunchRefusal() == "") {
			d.recordLaunches(zone, missing)
		}
		d.requestLaunches(zone)
	}
}

// requestLaunches sends the zone's launches that are on the books.
func (d capacity) requestLaunches(zone string) {
	for _, l := range d.rec.Ledger.Zones[zone].Open {
		d.waitForCloud("")
		if add := d.launchAction(zone, l); !d.w.isUnproven(l, d.lastAttempt(add)) {
			d.addAction(add)
		}
	}
}

// lendSurgeToZones gives zones that were dealt no surge what other zones have given back. Where no
// node may be missing they could not begin otherwise (S6).
func (d capacity) lendSurgeToZones() {
	if d.rec.Request.MaxUnavailable > 0 {
		return
	}
	free := d.rec.Request.Surge
	spare := map[string]int{} // by zone, what it was dealt and has given back
	for zone, z := range d.rec.Ledger.Zones {
		needed := max(z.Contribution(), min(z.Surge, d.count.left[zone]))
		free -= needed
		spare[zone] = z.Surge - needed
	}
	for _, zone := range slices.Sorted(maps.Keys(d.count.left)) {
		if free <= 0 || d.count.left[zone] == 0 || d.rec.Ledger.Zones[zone].Surge > 0 {
			continue
		}
		for _, lender := range slices.Sorted(maps.Keys(spare)) {
			if spare[lender] > 0 {
				spare[lender]--
				d.rec.Ledger.updateZone(lender, func(z *ZoneLedger) { z.Surge-- })
				break
			}
		}
		d.rec.Ledger.updateZone(zone, func(z *ZoneLedger) { z.Surge = 1 })
		free--
	}
}

// recordLaunches writes down the launches that are to be made. A zonal provider is asked for one
// node at a time, so that no answer can be half a success; another for all at once, and for more
// only when that is answered, because the maximum that proves the one would count for the other.
func (d capacity) recordLaunches(zone string, n int) {
	if !d.rec.Ledger.Zonal && d.rec.Ledger.openLaunches() > 0 {
		return
	}
	d.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
		z.Launched += n
		if !d.rec.Ledger.Zonal {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: n, Desired: d.w.Group.Desired, Max: d.maximumAfterLaunch(n)})
			return
		}
		for range n {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: 1})
		}
	})
}

// maximumAfterLaunch books the raise of the maximum that comes with a launch of n nodes of a group
// that names no zones, and returns what it makes of the maximum.
func (d capacity) maximumAfterLaunch(n int) int {
	l, g := &d.rec.Ledger, &d.w.Group
	l.MaxFrom = cmp.Or(l.MaxFrom, g.Max)
	from := g.Max
	if !g.IsFreshAfter(l.Changed) {
		from = max(from, l.MaxTo) // the reading may be older than our last raise
	}
	l.MaxTo = from + n
	return l.MaxTo
}

func (d capacity) launchAction(zone string, l Launch) nodegroup.AddCapacity {
	return nodegroup.AddCapacity{Zone: zone, N: l.N, Desired: l.Desired, Max: max(0, l.Max-l.N), Token: launchToken(d.rec.Run, zone, l.Serial)}
}

// recordAnswers books the answers to launches and terminations. What is observed counts like an
// answer.
func (d capacity) recordAnswers() {
	for zone, z := range d.rec.Ledger.Zones {
		for _, l := range slices.Clone(z.Open) {
			d.recordAnswer(zone, l)
		}
	}
	d.growAsAWhole()
	if raise := d.lastAttempt(nodegroup.RaiseMax{Max: d.rec.Ledger.MaxTo}); raise.Outcome == nodegroup.OutcomeDone || raise.Outcome == nodegroup.OutcomeUnclear {
		d.noteSizeChange(raise.Ended)
	}
	if fatal := d.w.fatalRefusal(); fatal != "" {
		attempt := d.w.Open[fatal]
		d.stopUpgradeWith(Failed, fmt.Sprintf("to %s: %s", attempt.Action, attempt.Detail))
	}
}

// growAsAWhole gives up launches that name a zone where they are not to be had: what was added is
// one zone's from then on. Such a launch raises the group's maximum, which shows that it landed;
// who keeps the maximum cannot have it.
func (d capacity) growAsAWhole() {
	refusal := d.w.zoneLaunchRefusal()
	switch {
	case refusal == "" || !d.rec.Ledger.Zonal || d.rec.Ledger.openLaunches() > 0:
	case d.rec.Request.KeepMax:
		d.stopUpgradeWith(Failed, "launching in a zone: "+refusal+": that may help, or to leave --keep-max out, so that the group can be made larger as a whole")
	default:
		d.rec.mergeZones()
		d.count = countMembers(d.w, &d.rec)
	}
}

func (d capacity) recordAnswer(zone string, l Launch) {
	attempt := d.lastAttempt(d.launchAction(zone, l))
	landed, refused := d.w.answerOfLaunch(l, attempt)
	if !landed && !refused {
		return
	}
	d.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == l.Serial })
		if landed {
			z.Refusal = ""
			d.noteSizeChange(cmp.Or(attempt.Ended, d.w.Now))
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
	d.rec.Ledger.settleRaise(l, landed)
}

// noteSizeChange notes that the group's size was changed by us, so that readings from before are
// told from later ones.
func (d capacity) noteSizeChange(at time.Time) {
	if at.After(d.rec.Ledger.Changed) {
		d.rec.Ledger.Changed = at
	}
}

// shouldShrink decides how an outdated node is terminated. Where launches name a zone it always
// shrinks the group, and launch replaces it in its own zone: a group that replaces by itself does
// so in the zone with the fewest nodes. Elsewhere it shrinks only while no more nodes are left than
// were added. A group at its minimum cannot shrink: it replaces the node by itself then.
func (d capacity) shouldShrink(zone string) bool {
	l := &d.rec.Ledger
	return d.canShrinkGroup() && (l.Zonal || d.count.left[zone] <= l.Zones[zone].Contribution())
}

// canShrinkGroup reports whether the group's size may fall by one: by its last reading or, while
// that may not show what landed lately, by our books. What others did meanwhile may be on neither:
// then the cloud refuses, see refusedToShrink.
func (d capacity) canShrinkGroup() bool {
	l, g := &d.rec.Ledger, &d.w.Group
	if !g.IsFreshAfter(l.Changed) {
		return g.Sized && d.rec.Sizes.Desired+l.confirmedSurge() > g.Min
	}
	size := g.Desired
	for _, n := range d.rec.Nodes {
		if n.State == NodeRemoving && n.Shrink && !n.Landed {
			size--
		}
	}
	return g.Sized && size > g.Min
}

// movedPause is how long a launch is not asked for again that the group, as it is by now, did not
// admit: the group has to be read again first.
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

// resolveOpenLaunches finds out what became of launches whose answer no one knows, and reports
// whether that is known of all. Under its token a launch is asked for again, which makes it one
// launch; without a token the group's maximum tells.
func (d capacity) resolveOpenLaunches() bool {
	for _, zone := range slices.Sorted(maps.Keys(d.rec.Ledger.Zones)) {
		for _, launch := range d.rec.Ledger.Zones[zone].Open {
			d.waitForCloud("")
			if launch.Max > 0 && d.w.Group.IsFreshAfter(d.rec.PhaseBegan) && d.lastAttempt(d.launchAction(zone, launch)).Begun.IsZero() {
				d.dropLaunch(zone, launch)
			}
		}
		if d.rec.Ledger.Zonal {
			d.requestLaunches(zone)
		}
	}
	return d.rec.Ledger.openLaunches() == 0
}

// dropLaunch takes a launch off the books that is known to have had no effect.
func (d capacity) dropLaunch(zone string, launch Launch) {
	d.rec.Ledger.updateZone(zone, func(z *ZoneLedger) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == launch.Serial })
		z.Launched -= launch.N
	})
	d.rec.Ledger.settleRaise(launch, false)
}
