package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// raiseMax makes room for the surge. Where launches name a zone the maximum is raised by
// itself first; elsewhere one request raises maximum and desired size together, and this is a no-op.
func (t *turn) raiseMax() bool {
	l, g := &t.rec.Ledger, &t.w.Group
	if !g.Sized || !l.Zonal {
		return true
	}
	if l.MaxTo == 0 {
		missing := 0
		for zone, z := range l.Zones {
			missing += max(0, min(z.Surge, t.count.left[zone])-z.Contribution())
		}
		if g.Desired+missing <= g.Max {
			return true
		}
		l.MaxFrom, l.MaxTo, t.persist = g.Max, g.Desired+missing, true
	}
	if g.Max >= l.MaxTo {
		return true
	}
	t.cloud = true
	t.want(RaiseMax{From: l.MaxFrom, Max: l.MaxTo})
	return false
}

// launch keeps each zone's contribution at its surge while the zone has that many outdated nodes left. What a
// termination gives back is launched again only when the cloud has begun it: a launch that overtook it would make
// the group larger than its surge allows, which its maximum may forbid.
func (t *turn) launch() {
	if !t.w.Group.Sized {
		return
	}
	shrinking := t.shrinking()
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		z := t.rec.Ledger.Zones[zone]
		missing := min(z.Surge, t.count.left[zone]) - z.Contribution() - shrinking[zone]
		if missing > 0 && t.w.Now.Before(z.RetryAt) {
			t.wakeAt(z.RetryAt)
		} else if missing > 0 {
			t.book(zone, missing)
		}
		for _, l := range t.rec.Ledger.Zones[zone].Open {
			t.cloud = true
			t.want(t.addition(zone, l))
		}
	}
}

// shrinking counts, by ledger zone, the terminations that are to shrink the group and have not landed.
func (t *turn) shrinking() map[string]int {
	counts := map[string]int{}
	for _, n := range t.rec.Nodes {
		if n.State == NodeRemoving && n.Shrink && !n.Landed {
			counts[n.Zone]++
		}
	}
	return counts
}

// book writes down the launches that are to be made. A zonal provider is asked for one node
// at a time, so that no answer can be half a success.
func (t *turn) book(zone string, n int) {
	t.rec.Ledger.change(zone, func(z *ZoneLedger) {
		z.Launched += n
		if !t.rec.Ledger.Zonal {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: n, Desired: t.w.Group.Desired})
			return
		}
		for range n {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: 1})
		}
	})
	if l := &t.rec.Ledger; !l.Zonal && l.MaxTo == 0 {
		l.MaxFrom, l.MaxTo = t.w.Group.Max, t.w.Group.Max+n
	}
	t.persist = true
}

func (t *turn) addition(zone string, l Launch) AddCapacity {
	return AddCapacity{Zone: zone, N: l.N, Desired: l.Desired, Token: token(t.rec.Run, zone, l.Serial)}
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
	fatal := ""
	for key, attempt := range t.w.Open {
		if attempt.Outcome == OutcomeFatal && !attempt.InFlight && (fatal == "" || key < fatal) {
			fatal = key
		}
	}
	if fatal != "" {
		attempt := t.w.Open[fatal]
		t.fail(Failed, fmt.Sprintf("to %s: %s", attempt.Action, attempt.Detail))
	}
}

func (t *turn) settleLaunch(zone string, l Launch) {
	attempt := t.attempt(t.addition(zone, l))
	raised := !t.rec.Ledger.Zonal && t.rec.Ledger.MaxTo > 0 && t.w.Group.Max >= t.rec.Ledger.MaxTo
	landed := attempt.Outcome == OutcomeDone || raised
	refused := attempt.Outcome == OutcomeExhausted || attempt.Outcome == OutcomeMoved || attempt.Outcome == OutcomeFatal
	if attempt.InFlight || !landed && !refused {
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
		z.RetryAt, z.Refusal = attempt.NotBefore, attempt.Detail
		t.persist = true
	})
	if !landed && !t.rec.Ledger.Zonal {
		t.rec.Ledger.MaxFrom, t.rec.Ledger.MaxTo = 0, 0
	}
}

// changed notes that the group's size was changed by us, so that readings from before are told from later ones.
func (t *turn) changed(at time.Time) {
	if at.After(t.rec.Ledger.Changed) {
		t.rec.Ledger.Changed = at
	}
}

// shrinks decides how an outdated node is terminated. Where launches name a zone it always
// shrinks the group, and launch replaces it in its own zone: a group that replaces by itself does
// so in the zone with the fewest nodes. Elsewhere it shrinks only while no more nodes are left than were added.
func (t *turn) shrinks(zone string) bool {
	l := &t.rec.Ledger
	return t.w.Group.Sized && (l.Zonal || t.count.left[zone] <= l.Zones[zone].Contribution())
}

// describeLag is how long a provider's answer may be older than what was done to it.
const describeLag = 30 * time.Second

// lowerMax takes back our raise of the maximum and nothing else: never below the desired size, and
// not at all when somebody else changed it meanwhile (EKS E61).
func (t *turn) lowerMax() bool {
	l, g := &t.rec.Ledger, &t.w.Group
	if l.MaxTo == 0 || g.Max != l.MaxTo {
		return true
	}
	t.cloud = true
	if g.Desired > l.MaxFrom && l.Contribution() <= 0 && !g.Observed.After(l.Changed.Add(describeLag)) {
		t.waiting = "the group's desired size to show what was given back"
		return false
	}
	to := max(l.MaxFrom, g.Desired)
	if to < g.Max {
		t.want(LowerMax{From: g.Max, Max: to})
		return false
	}
	return true
}

// resume lets the processes run again that we suspended. A suspension of ours that is on its way, or that the
// group's reading is too old to show, is waited for.
func (t *turn) resume() bool {
	quiesced := t.attempt(Quiesce{})
	unseen := quiesced.Outcome != "" && t.w.Group.Observed.Before(quiesced.Ended)
	if len(t.rec.Suspended) > 0 && (quiesced.InFlight || unseen) {
		t.cloud = true
		return false
	}
	var ours []string
	for _, process := range t.rec.Suspended {
		if slices.Contains(t.w.Group.Suspended, process) {
			ours = append(ours, process)
		}
	}
	if len(ours) == 0 {
		return true
	}
	t.cloud = true
	t.want(Resume{Processes: ours})
	return false
}

// owedNote says what of ours the group keeps, "" when nothing.
func (t *turn) owedNote() string {
	owed := t.rec.Ledger.Contribution()
	if owed <= 0 {
		return ""
	}
	return fmt.Sprintf("the group keeps %d more nodes than before: no outdated node was left to give back, and nodes that carry pods are not taken", owed)
}
