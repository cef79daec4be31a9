package worlds

import (
	"math/rand/v2"
	"time"
)

// podScaler is a made-up provider whose groups have machines and no size. It launches nodes when pods wait for room, and terminates
// machines on request.
const podScaler = "podscaler"

// drawPodScaled gives a group without a size to some worlds with a cloud that this tool drives. It draws from its own generator, so
// that all other worlds stay the same.
func drawPodScaled(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x706f6473))}
	if !p.hasSize() || p.isDelegated() || p.isShortLived() || p.keepsTarget() || p.Spot || !d.chance(7) {
		return
	}
	p.Provider, p.Zonal, p.Zoneless, p.Suspended = podScaler, false, false, false
	r := &p.Request
	r.Surge, r.KeepMax, r.MaxUnavailable = 0, false, max(1, r.MaxUnavailable)
	r.Window = r.MaxUnavailable
}

func (p *Plan) isPodScaled() bool { return p.Provider == podScaler }

// launchForPods schedules the launch of one or two nodes in a random zone, after a pod could not be bound.
func (u *user) launchForPods() {
	u.growForPods(func() {
		for range 1 + u.c.rng.IntN(2) {
			u.c.launchInstance(zoneName(u.c.rng.IntN(u.c.plan.Zones)), "")
		}
	})
}

// growForPods schedules a call of grow after a pod could not be bound. It does not call grow if no pod waits at that time, or if a
// node is already booting.
func (u *user) growForPods(grow func()) {
	if u.c.scaling {
		return
	}
	u.c.scaling = true
	u.c.after(10*time.Second+u.c.drawUpTo(40*time.Second), func() {
		u.c.scaling = false
		if !u.c.hasWaitingPods() {
			return
		}
		if !u.c.hasComingNodes() {
			grow()
		}
		u.c.after(5*time.Minute, u.c.scheduleBinding)
	})
}

func (c *cluster) hasWaitingPods() bool {
	for _, pod := range c.pods {
		if pod.Spec.NodeName == "" {
			return true
		}
	}
	return false
}

// hasComingNodes reports whether an instance of the group is not yet in service or has no node yet.
func (c *cluster) hasComingNodes() bool {
	for _, i := range c.cloud.liveInstances() {
		if !i.inService || c.nodeNameOf(i) == "" {
			return true
		}
	}
	return false
}
