package worlds

import (
	"fmt"
	"math/rand/v2"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// drawSpot makes the instances of some groups Spot instances, if the group is upgraded like GKE. It draws from its own generator, so
// that all other worlds stay the same.
func drawSpot(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73706f74))}
	p.Spot = p.hasSize() && p.Request.Like == "gke" && p.Request.Strategy == record.Surge && d.chance(25)
}

// zonesTakeTurns reports whether the zones of the group must be replaced one after the other, as GKE does.
func (p *Plan) zonesTakeTurns() bool {
	return p.Request.Like == "gke" && p.Request.Strategy == record.Surge && (p.namesZones() || !p.hasSize())
}

// checkTurns checks G12, G14 and G23 for upgrades like GKE: one zone at a time is replaced, at most 20 nodes at the same time, and the
// upgrade does not wait for Spot nodes.
func (r *rules) checkTurns(w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if rec.Run == "" || !r.c.plan.zonesTakeTurns() {
		return
	}
	zone, begun := "", ""
	for name, n := range rec.Nodes {
		m := memberNamed(w, name)
		if m == nil || !isInDrain(n.State) {
			continue
		}
		if zone != "" && m.Zone() != zone {
			r.fail("G14", "nodes of zones %s and %s are in flight", zone, m.Zone())
		}
		zone = m.Zone()
		if _, before := w.Record.Nodes[name]; !before {
			begun = name
		}
	}
	if rec.Request.Window > 20 || rec.Request.Surge > 20 {
		r.fail("G12", "the window is %d, the surge %d", rec.Request.Window, rec.Request.Surge)
	}
	if r.undisturbed && !rec.Rollback && rec.Request.OnTimeout != record.Skip {
		r.checkOneZoneGrows(rec)
	}
	if begun != "" {
		r.checkZoneDone(rec, begun, zone)
	}
	r.checkSpotNotAwaited(w, step)
}

// checkOneZoneGrows checks that nodes are added in only one zone at a time.
func (r *rules) checkOneZoneGrows(record *record.Record) {
	added := ""
	for zone, z := range record.Ledger.Books().Zones {
		if z.Contribution() <= 0 {
			continue
		}
		if added != "" {
			r.fail("G14", "nodes are added in zones %s and %s", added, zone)
		}
		added = zone
	}
}

// checkZoneDone checks the end of a zone's turn (G16): before a node of another zone is started, as many nodes serve as before the
// upgrade.
func (r *rules) checkZoneDone(record *record.Record, name, zone string) {
	before := r.lastZone
	r.lastZone = zone
	if before == zone || before == "" || !r.undisturbed || r.c.plan.Spot || (!r.c.plan.hasSize() && !record.Request.WaitReplacement) {
		return
	}
	serving := r.countServing(*record)
	for _, n := range record.Nodes {
		if isInDrain(n.State) {
			serving++
		}
	}
	if serving < r.servingBefore {
		r.fail("G14", "node %s of zone %s is started with %d of %d serving nodes: zone %s is not done", name, zone, serving, r.servingBefore, before)
	}
}

// newAwaited is counted when an upgrade waits for new nodes that are not Spot nodes. If no world counts it, checkSpotNotAwaited does
// not recognize the text of such a wait.
const newAwaited = "new nodes are waited for"

// checkSpotNotAwaited checks G23: the upgrade does not wait until launched Spot nodes are Ready.
func (r *rules) checkSpotNotAwaited(w *upgrade.World, step *upgrade.Step) {
	var wanted int
	if _, err := fmt.Sscanf(step.Status.Waiting, "%d new node", &wanted); err != nil {
		return
	}
	if !r.c.plan.Spot {
		r.tally.count("turns", newAwaited)
		return
	}
	if step.Status.New >= wanted && step.Record.Ledger.OpenLaunches() == 0 && len(w.Open) > 0 {
		r.fail("G23", "%d new Spot nodes are launched, but the upgrade waits for %q", step.Status.New, step.Status.Waiting)
	}
}

// countOutdatedIn counts the outdated nodes of a zone.
func countOutdatedIn(w *upgrade.World, zone string) (n int) {
	for i := range w.Members {
		if m := &w.Members[i]; m.Outdated && m.Zone() == zone && m.Instance.State != nodegroup.InstanceLeaving {
			n++
		}
	}
	return n
}
