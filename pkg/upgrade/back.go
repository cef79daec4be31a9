package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// previous is the revision that a rollback goes back to: the one the group points at still or,
// where it points at the one wanted already, the one that most of the outdated nodes have.
func (t *turn) previous() nodegroup.Revision {
	g := &t.w.Group
	if g.Pointed.ID != g.Wanted.ID {
		return g.Pointed
	}
	counts := map[nodegroup.Revision]int{}
	for _, m := range t.count.pending {
		if r := m.Instance.Revision; r.ID != "" {
			counts[r]++
		}
	}
	if len(counts) == 0 {
		return g.Pointed
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(counts)), func(a, b nodegroup.Revision) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), strings.Compare(a.ID, b.ID))
	})
}

// reclaim gives the nodes of the revision that is wanted again back to the cluster: their fence is
// taken away, and those whose termination was decided but did not happen are kept (I6: a wanted
// node is neither fenced nor drained).
func (t *turn) reclaim() bool {
	t.rec.Total = len(t.count.pending)
	t.waiting = "the nodes not replaced yet to be unfenced"
	kept := t.keepSurge()
	return t.unfence(func(m *nodegroup.Member) bool { return !m.Outdated && t.stays(m) }) && kept
}

// carry begins the books of the way back. What was added before counts as surge that is up already:
// so many fewer are launched, and the last outdated nodes of each zone give it back.
func (t *turn) carry() bool {
	l := &t.rec.Ledger
	if !t.settleOpen() || !t.w.Group.IsFreshAfter(l.Changed) {
		t.waitForCloud("what was added to the group to be seen")
		return false
	}
	arriving := map[string]int{}
	l.Known = t.knownBack(arriving)
	for zone, surge := range t.dealSurge() {
		l.change(zone, func(z *ZoneLedger) {
			z.Surge, z.Removed, z.Carried = surge, 0, z.Contribution()-arriving[zone]
		})
	}
	return true
}

// dealSurge deals the surge out to the ledger's zones again, where some of it is there already.
func (t *turn) dealSurge() map[string]int {
	surge, free := map[string]int{}, map[string]int{}
	left := t.rec.Request.Surge
	for zone, z := range t.rec.Ledger.Zones {
		surge[zone] = max(0, z.Contribution())
		left -= surge[zone]
	}
	for zone, n := range t.count.left {
		free[zone] = max(0, n-surge[zone])
	}
	for zone, n := range SpreadSurge(left, free) {
		surge[zone] += n
	}
	return surge
}

// knownBack are the names of the members that have the revision wanted as the way back begins, and
// are none that the group has yet to bring up: those it counts by ledger zone, and with them
// instances that are yet to be launched.
func (t *turn) knownBack(arriving map[string]int) []string {
	lately := t.rec.Started.Add(-t.rec.Request.BootTimeout.Duration)
	unseen := t.unseenBack()
	t.spreadMissing(unseen, arriving)
	var names []string
	for i := range t.w.Members {
		m := &t.w.Members[i]
		zone := t.rec.Ledger.zone(m)
		switch {
		case m.Outdated || m.Instance.State == nodegroup.InstanceLeaving:
		case unseen[zone] > 0 && !t.w.Group.IsUsable(m) && (m.Node == nil || m.Node.CreationTimestamp.After(lately)):
			arriving[zone]++
			unseen[zone]--
		default:
			names = append(names, m.Name())
		}
	}
	return names // sorted, as the members are
}

// spreadMissing adds the instances that the group has yet to launch by itself, which it does in
// zones of its choice: where they are expected, as far as that is known, and the rest in one zone.
func (t *turn) spreadMissing(unseen, arriving map[string]int) {
	missing := max(0, t.w.Group.Desired-t.count.instances)
	zones := slices.Sorted(maps.Keys(t.rec.Ledger.Zones))
	for _, zone := range zones {
		n := max(0, min(missing, unseen[zone]))
		arriving[zone] += n
		unseen[zone] -= n
		missing -= n
	}
	if len(zones) > 0 {
		arriving[zones[0]] += missing
	}
}

// unseenBack counts, by ledger zone, the instances that the upgrade has brought about and that are
// not among those that have to go on the way back: replacements of nodes that were removed, and
// launches that came once the group pointed back.
func (t *turn) unseenBack() map[string]int {
	unseen := map[string]int{}
	for zone, z := range t.rec.Ledger.Zones {
		unseen[zone] = z.Removed + z.Contribution()
	}
	for i := range t.w.Members {
		m := &t.w.Members[i]
		before := t.rec.Ledger.knows(m) || slices.Contains(t.rec.Unlabelled, m.Instance.ID)
		if m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !before {
			unseen[t.rec.Ledger.zone(m)]--
		}
	}
	return unseen
}

// absent counts the members that were carried over to the way back and do not serve: what was added
// before may not have come up yet.
func (t *turn) absent() (n int) {
	carried := t.rec.Ledger.total(func(z ZoneLedger) int { return z.Carried })
	for i := 0; i < len(t.w.Members) && n < carried; i++ {
		m := &t.w.Members[i]
		if _, ending := t.rec.started(m); m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !m.IsReady() && !ending {
			n++
		}
	}
	return n
}

// settleOpen finds out what became of launches whose answer nobody knows, and reports whether that
// is known of all. Under its token a launch is asked for again, which makes it one launch; without
// a token the group's maximum tells.
func (t *turn) settleOpen() bool {
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		for _, launch := range t.rec.Ledger.Zones[zone].Open {
			t.waitForCloud("")
			if launch.Max > 0 && t.w.Group.IsFreshAfter(t.rec.PhaseBegan) && t.attempt(t.addition(zone, launch)).Begun.IsZero() {
				t.unbook(zone, launch)
			}
		}
		if t.rec.Ledger.Zonal {
			t.ask(zone)
		}
	}
	return t.openLaunches() == 0
}

// backNote says that the way back is at its end.
func (t *turn) backNote() string {
	if !t.rec.Back {
		return ""
	}
	return "rolled back to " + t.rec.Target.Name
}

// onTo says how an upgrade whose target moved is gone on with.
func (t *turn) onTo(wanted nodegroup.Revision) string {
	if t.rec.Back {
		return fmt.Sprintf("run kubectl nodeupgrade rollback %s to continue to %s", t.w.Group.Name, wanted.Name)
	}
	return "pass --replan to continue to " + wanted.Name
}

// unbook takes a launch off the books that is known to have had no effect.
func (t *turn) unbook(zone string, launch Launch) {
	t.rec.Ledger.change(zone, func(z *ZoneLedger) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == launch.Serial })
		z.Launched -= launch.N
	})
	t.rec.Ledger.settleRaise(launch, false)
}
