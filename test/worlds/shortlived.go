package worlds

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// week is how long the nodes of a short-lived upgrade may take to end (GKE G90).
const week = 7 * 24 * time.Hour

// drawShortLived makes the upgrade a short-lived one in some worlds with a cloud, in which the nodes end by themselves within days. It
// draws from its own generator, so that all other worlds stay the same.
func drawShortLived(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73686f72))}
	if !p.hasSize() || p.isDelegated() || p.isBlueGreen() || !d.chance(4) {
		return
	}
	r := &p.Request
	r.Strategy, r.Like, r.Surge, r.MaxUnavailable, r.Window, r.BatchBarrier = record.ShortLived, "eks", 0, 0, 0, false
	p.Repoint, p.Actors = d.chance(80), nil
	for range d.IntN(3 * len(p.Nodes)) {
		p.Actors = append(p.Actors, Actor{Kind: AdminTerminates, At: d.between(0, week), Pick: d.IntN(1000)})
	}
	if !d.chance(60) {
		return
	}
	for range 1 + d.IntN(3) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, Kill, KillMidStep, Interrupt, Aborts), At: d.between(0, pick(d, time.Minute, week)), Pick: d.IntN(1000)})
	}
}

func (p *Plan) isShortLived() bool { return p.Request.Strategy == record.ShortLived }

// checkExpiry checks G90: the upgrade only sets the group's revision. For a week, it lists the outdated nodes that are left.
func (r *rules) checkExpiry(w *upgrade.World, step *upgrade.Step) {
	for _, action := range step.Actions {
		if _, points := action.(nodegroup.SetRevision); !points {
			r.fail("G90", "%s", action)
		}
		r.checkGroupChange(w, &step.Record, action)
	}
	rec := &step.Record
	if !step.Finished || rec.Run == "" {
		return
	}
	left := 0
	for i := range w.Members {
		if m := &w.Members[i]; m.Outdated && m.Instance.State != nodegroup.InstanceLeaving {
			left++
		}
	}
	over := !w.Now.Before(rec.Started.Add(week))
	told := strings.HasPrefix(rec.Message, fmt.Sprintf("%d of %d nodes are left (", left, rec.Total))
	switch rec.Result {
	case record.Succeeded:
		if left > 0 {
			r.fail("G90", "it ends with %d outdated nodes", left)
		}
	case record.LeftBehind, record.Waiting:
		if left == 0 || !told || over != (rec.Result == record.LeftBehind) {
			r.fail("G90", "%d outdated nodes are left, the week is over: %t, but the result is %q: %s", left, over, rec.Result, rec.Message)
		}
	}
}
