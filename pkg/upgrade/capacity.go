package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// launch keeps each zone's contribution at its surge while the zone has that many outdated nodes
// left. What a termination gives back is launched again only when the cloud has begun it: a launch
// that overtook it would make the group larger than its surge allows, which its maximum may forbid.
func (t *turn) launch() {
	if !t.w.Group.Sized || (t.crowded() && !t.raiseMax()) {
		return
	}
	shrinking := t.shrinking()
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
			t.wakeAt(z.RetryAt)
			continue
		}
		if missing > 0 && (!t.rec.Ledger.Zonal || t.unsupported() == "") {
			t.book(zone, missing)
		}
		t.ask(zone)
	}
}

// ask sends the zone's launches that are on the books.
func (t *turn) ask(zone string) {
	for _, l := range t.rec.Ledger.Zones[zone].Open {
		t.waitForCloud("")
		if add := t.addition(zone, l); !t.unproven(l, t.attempt(add)) {
			t.want(add)
		}
	}
}

// crowded reports whether a launch was refused: an autoscaler may have taken the room that its node
// was to have.
func (t *turn) crowded() bool {
	for _, z := range t.rec.Ledger.Zones {
		if z.Refusal != "" {
			return true
		}
	}
	return false
}

// lendSurge gives zones that were dealt no surge what other zones have given back. Where no node
// may be missing they could not begin otherwise (S6).
func (t *turn) lendSurge() {
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
				t.rec.Ledger.change(lender, func(z *ZoneLedger) { z.Surge-- })
				break
			}
		}
		t.rec.Ledger.change(zone, func(z *ZoneLedger) { z.Surge = 1 })
		free--
	}
}

// shrinking counts, by ledger zone, the terminations that are to shrink the group and have not
// landed.
func (t *turn) shrinking() map[string]int {
	counts := map[string]int{}
	for _, n := range t.rec.Nodes {
		if n.State == NodeRemoving && n.Shrink && !n.Landed {
			counts[n.Zone]++
		}
	}
	return counts
}

// book writes down the launches that are to be made. A zonal provider is asked for one node at a
// time, so that no answer can be half a success; another for all at once, and for more only when
// that is answered, because the maximum that proves the one would count for the other.
func (t *turn) book(zone string, n int) {
	if !t.rec.Ledger.Zonal && t.openLaunches() > 0 {
		return
	}
	t.rec.Ledger.change(zone, func(z *ZoneLedger) {
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
func (t *turn) raiseWith(n int) int {
	l, g := &t.rec.Ledger, &t.w.Group
	l.MaxFrom = cmp.Or(l.MaxFrom, g.Max)
	from := g.Max
	if !g.IsFreshAfter(l.Changed) {
		from = max(from, l.MaxTo) // the reading may be older than our last raise
	}
	l.MaxTo = from + n
	return l.MaxTo
}

func (t *turn) addition(zone string, l Launch) nodegroup.AddCapacity {
	return nodegroup.AddCapacity{Zone: zone, N: l.N, Desired: l.Desired, Max: max(0, l.Max-l.N), Token: token(t.rec.Run, zone, l.Serial)}
}

func (t *turn) openLaunches() int {
	return t.rec.Ledger.total(func(z ZoneLedger) int { return len(z.Open) })
}

// settle books the answers to launches and terminations. What is observed counts like an answer.
func (t *turn) settle() {
	for zone, z := range t.rec.Ledger.Zones {
		for _, l := range slices.Clone(z.Open) {
			t.settleLaunch(zone, l)
		}
	}
	t.growAsAWhole()
	if raise := t.attempt(nodegroup.RaiseMax{Max: t.rec.Ledger.MaxTo}); raise.Outcome == nodegroup.OutcomeDone || raise.Outcome == nodegroup.OutcomeUnclear {
		t.changed(raise.Ended)
	}
	if fatal := t.fatal(); fatal != "" {
		attempt := t.w.Open[fatal]
		t.fail(Failed, fmt.Sprintf("to %s: %s", attempt.Action, attempt.Detail))
	}
}

// growAsAWhole gives up launches that name a zone where they are not to be had: what was added is
// one zone's from then on. Such a launch raises the group's maximum, which shows that it landed;
// who keeps the maximum cannot have it.
func (t *turn) growAsAWhole() {
	refusal := t.unsupported()
	switch {
	case refusal == "" || !t.rec.Ledger.Zonal || t.openLaunches() > 0:
	case t.rec.Request.KeepMax:
		t.fail(Failed, "launching in a zone: "+refusal+": that may help, or to leave --keep-max out, so that the group can be made larger as a whole")
	default:
		t.rec.mergeZones()
		t.count = takeCensus(t.w, &t.rec)
	}
}

// unsupported is why launches that name a zone are not to be had, "" when they are.
func (t *turn) unsupported() string {
	for _, key := range slices.Sorted(maps.Keys(t.w.Open)) {
		if attempt := t.w.Open[key]; attempt.Outcome == nodegroup.OutcomeUnsupported && !attempt.InFlight {
			return attempt.Detail
		}
	}
	return ""
}

// fatal is the key of an action that was refused for good and that the upgrade cannot do without,
// "" when there is none.
func (t *turn) fatal() string {
	fatal := ""
	for key, attempt := range t.w.Open {
		_, optional := attempt.Action.(HoldNode)
		if attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight && !optional && (fatal == "" || key < fatal) {
			fatal = key
		}
	}
	return fatal
}

func (t *turn) settleLaunch(zone string, l Launch) {
	attempt := t.attempt(t.addition(zone, l))
	landed, refused := t.answered(l, attempt)
	if !landed && !refused {
		return
	}
	t.rec.Ledger.change(zone, func(z *ZoneLedger) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == l.Serial })
		if landed {
			z.Refusal = ""
			t.changed(cmp.Or(attempt.Ended, t.w.Now))
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

// settleRaise books what became of the raise of the maximum that came with a launch. One that
// landed is on the books even if they were closed meanwhile, when a stop found it neither in the
// group's reading nor answered.
func (l *Ledger) settleRaise(launch Launch, landed bool) {
	switch {
	case launch.Max == 0:
	case landed && l.MaxTo < launch.Max:
		l.MaxFrom, l.MaxTo = cmp.Or(l.MaxFrom, launch.Max-launch.N), launch.Max
	case !landed && l.MaxTo == launch.Max:
		if l.MaxTo -= launch.N; l.MaxTo <= l.MaxFrom {
			l.MaxFrom, l.MaxTo = 0, 0
		}
	}
}

// answered reports whether a launch is known to have been accepted or to have been refused; neither
// while that is open.
func (t *turn) answered(l Launch, attempt nodegroup.Attempt) (landed, refused bool) {
	switch {
	case attempt.InFlight:
		return false, false
	case attempt.Outcome == nodegroup.OutcomeDone, l.Max > 0 && t.w.Group.Max >= l.Max:
		return true, false
	case attempt.Outcome == nodegroup.OutcomeExhausted, attempt.Outcome == nodegroup.OutcomeMoved, attempt.Outcome == nodegroup.OutcomeFatal, attempt.Outcome == nodegroup.OutcomeUnsupported:
		return false, !t.unproven(l, attempt)
	default:
		return false, false
	}
}

// unproven reports whether a launch without a token was answered with moved so shortly ago that the
// group's reading may not show what moved it: an earlier try of ours, whose answer was lost.
func (t *turn) unproven(l Launch, attempt nodegroup.Attempt) bool {
	return l.Max > 0 && attempt.Outcome == nodegroup.OutcomeMoved && !t.w.Group.IsFreshAfter(attempt.Ended)
}

// changed notes that the group's size was changed by us, so that readings from before are told from
// later ones.
func (t *turn) changed(at time.Time) {
	if at.After(t.rec.Ledger.Changed) {
		t.rec.Ledger.Changed = at
	}
}

// shrinks decides how an outdated node is terminated. Where launches name a zone it always shrinks
// the group, and launch replaces it in its own zone: a group that replaces by itself does so in the
// zone with the fewest nodes. Elsewhere it shrinks only while no more nodes are left than were
// added. A group at its minimum cannot shrink: it replaces the node by itself then.
func (t *turn) shrinks(zone string) bool {
	l := &t.rec.Ledger
	return t.canShrink() && (l.Zonal || t.count.left[zone] <= l.Zones[zone].Contribution())
}

// canShrink reports whether the group's size may fall by one: by its last reading or, while that
// may not show what landed lately, by our books. What others did meanwhile may be on neither: then
// the cloud refuses, see refusedToShrink.
func (t *turn) canShrink() bool {
	l, g := &t.rec.Ledger, &t.w.Group
	if !g.IsFreshAfter(l.Changed) {
		return g.Sized && t.rec.Sizes.Desired+l.landed() > g.Min
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

// resume lets the processes run again that we suspended, unless they would terminate nodes without
// a drain at once, because the zones are out of balance: then they stay suspended, and the record
// says so. A suspension of ours that is on its way, or that the group's reading is too old to show,
// is waited for.
func (t *turn) resume() bool {
	quiesced := t.attempt(nodegroup.Quiesce{})
	if len(t.rec.Suspended) > 0 && (quiesced.InFlight || t.unseen(quiesced)) {
		t.waitForCloud("")
		return false
	}
	ours := t.suspended()
	if len(ours) == 0 {
		return true
	}
	if !t.balanced() {
		coming := t.resuming(quiesced)
		if coming {
			t.waitForCloud("")
		}
		return !coming // what is suspended still will show
	}
	t.waitForCloud("")
	t.want(nodegroup.Resume{Processes: ours})
	return false
}

// resuming reports whether the processes may be about to run again, after they were suspended last:
// by a request that is under way, or whose effect the group's reading is too old to show.
func (t *turn) resuming(quiesced nodegroup.Attempt) bool {
	resumed := t.attempt(nodegroup.Resume{})
	landed := resumed.Outcome == nodegroup.OutcomeDone || resumed.Outcome == nodegroup.OutcomeUnclear
	return resumed.InFlight || (landed && resumed.Ended.After(quiesced.Ended) && !t.w.Group.IsFreshAfter(resumed.Ended))
}

// unseen reports whether the group's reading is too old to show a suspension of ours: older than
// its answer, or so old that nobody remembers whether there was one.
func (t *turn) unseen(quiesced nodegroup.Attempt) bool {
	if len(t.suspended()) == len(t.rec.Suspended) {
		return false
	}
	if t.w.Now.After(t.w.Group.Observed.Add(staleReading)) {
		return true
	}
	resumed := t.attempt(nodegroup.Resume{})
	undone := resumed.Outcome == nodegroup.OutcomeDone && !resumed.Ended.Before(quiesced.Ended)
	return quiesced.Outcome != "" && !undone && !t.w.Group.IsFreshAfter(quiesced.Ended)
}

// staleReading is the age of a reading of the cloud at which several in a row must have failed.
const staleReading = 3 * time.Minute

// suspended are the processes that we suspended and that nobody has resumed.
func (t *turn) suspended() []string {
	var ours []string
	for _, process := range t.rec.Suspended {
		if slices.Contains(t.w.Group.Suspended, process) {
			ours = append(ours, process)
		}
	}
	return ours
}

// balanced reports whether the zones differ by at most one node, or by no more than at the start.
func (t *turn) balanced() bool {
	return spread(t.w.Group.Zones, t.count.zones) <= max(1, spread(t.w.Group.Zones, t.rec.Sizes.Zones))
}

// spread is by how many nodes the largest zone exceeds the smallest.
func spread(zones []string, sizes map[string]int) int {
	if len(zones) == 0 {
		return 0
	}
	smallest, largest := sizes[zones[0]], sizes[zones[0]]
	for _, zone := range zones {
		smallest, largest = min(smallest, sizes[zone]), max(largest, sizes[zone])
	}
	return largest - smallest
}

// suspendedNote says which processes are left suspended, "" when none is.
func (t *turn) suspendedNote() string {
	ours := t.suspended()
	if len(ours) == 0 {
		return ""
	}
	note := fmt.Sprintf("%s stays suspended, because the zones are out of balance (%s) and nodes would be terminated without a drain",
		strings.Join(ours, ", "), zoneSizes(t.count.zones))
	if t.rec.Resumable() && t.rec.Stopping != Aborted {
		return note // whoever continues resumes it
	}
	return note + fmt.Sprintf(": when they are even, aws autoscaling resume-processes --auto-scaling-group-name %s --scaling-processes %s",
		t.w.Group.Name, strings.Join(ours, " "))
}

// owedNote says what of ours the group keeps, "" when nothing.
func (t *turn) owedNote() string {
	owed := t.rec.Ledger.Contribution()
	if owed <= 0 {
		return ""
	}
	return fmt.Sprintf("the group keeps %d more nodes than before: no outdated node was left to give back, and nodes that carry pods are not taken", owed)
}
