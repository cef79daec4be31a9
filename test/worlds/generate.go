package worlds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// dice draws the plan of one world.
type dice struct{ *rand.Rand }

// Generate draws the plan of the seed's world. About half of the worlds are undisturbed: they have no faults, no other actors and no lags.
// The strictest rules apply to undisturbed worlds.
func Generate(seed uint64) Plan {
	d := dice{rand.New(rand.NewPCG(seed, 0x6e6f6465))}
	p := Plan{
		Seed: seed, Provider: pick(d, "aws", "aws", "gke", "manual"), Zones: 1 + d.IntN(3), Zonal: d.chance(65),
		Room: pick(d, 0, 0, 1, 3, 20), Outside: d.chance(50), Suspended: d.chance(15), Repoint: d.chance(20),
		Boot: d.between(5*time.Second, 5*time.Minute), Leave: d.between(30*time.Second, 2*time.Minute),
	}
	p.Zonal = p.Zonal && p.hasSize()
	d.addNodes(&p)
	d.addWorkloads(&p)
	setRoles(&p)
	setMinimum(&p)
	current := drawLabels(&p)
	p.Request = d.drawRequest(&p)
	p.Request.Current = current
	setProtected(&p)
	if d.chance(50) {
		d.setLags(&p)
		d.addFaults(&p)
		d.addActors(&p)
		addRareTrouble(&p)
	}
	addUserRequests(&p)
	if len(current) > 0 { // the labels would belong to another target
		p.Actors = slices.DeleteFunc(p.Actors, func(a Actor) bool { return a.Kind == TargetMoves })
	}
	if d.chance(85) {
		p.Calm = d.between(time.Hour, 8*time.Hour)
	}
	drawDelegated(&p)
	moveToOtherCloud(&p)
	drawCloudBlueGreen(&p)
	addJob(&p)
	drawBlueGreen(&p)
	drawShortLived(&p)
	drawAutoscaled(&p)
	drawSpot(&p)
	drawPodScaled(&p)
	drawRestarts(&p)
	addCrashingWorkloads(&p)
	addBalancer(&p)
	drawNodeOddities(&p)
	addRefusedPods(&p)
	setSickPods(&p)
	addSlowStarters(&p)
	addRefusedDaemonSet(&p)
	addStrandedPods(&p)
	addRejectedPods(&p)
	addScaleDown(&p)
	addBriefUnreadiness(&p)
	drawStandby(&p)
	setStrayMarks(&p)
	addMachineChanges(&p)
	addAnnotationOverwrites(&p)
	addRevisionChanges(&p)
	drawDenial(&p)
	drawElsewhere(&p)
	addSecondTargetMove(&p)
	setOrdered(&p)
	addOvertakenOperations(&p)
	addUncordons(&p)
	addKillsBeforeTargetsDrain(&p)
	addCuredWorkload(&p)
	drawSlowlyEndingPods(&p)
	drawStandbyPods(&p)
	addLongSilences(&p)
	drawLateDevices(&p)
	pinWorkload(&p)
	return p
}

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func (d dice) between(from, to time.Duration) time.Duration {
	return from + time.Duration(d.Int64N(int64((to-from)/time.Second)+1))*time.Second
}

// moment draws when something happens: early rather than late, because most upgrades are over within an hour.
func (d dice) moment() time.Duration {
	return d.between(0, pick(d, 5*time.Minute, 15*time.Minute, time.Hour))
}

// addNodes draws up to twelve nodes, and small numbers more often than large ones. Some of the group's zones may have no node.
func (d dice) addNodes(p *Plan) {
	for range 1 + min(d.IntN(12), d.IntN(12)) {
		n := Node{Zone: d.IntN(p.Zones), Current: d.chance(20)}
		if d.chance(25) {
			n.Marks = 1 << d.IntN(8) & allMarks // the eighth bit is no mark, so one in eight of these nodes has no mark
			if d.chance(20) {
				n.Marks |= 1 << d.IntN(6)
			}
		}
		if p.Provider == "manual" {
			n.Marks &^= MarkNoNode
		}
		p.Nodes = append(p.Nodes, n)
	}
}

func (d dice) addWorkloads(p *Plan) {
	for i := range d.IntN(5) {
		w := Workload{
			Name: fmt.Sprintf("app%d", i), Replicas: min(d.IntN(13), d.IntN(13)),
			Kind:  pick(d, Deployment, Deployment, Deployment, StatefulSet, StatefulSet, DaemonSet, Job, Bare, Mirror, Finished, Ending),
			Ready: d.between(time.Second, 40*time.Second), Gone: pick(d, 0, time.Second, d.between(0, 90*time.Second)),
			Claims: d.chance(10),
		}
		w.Broken = d.chance(4)
		w.Undead = !w.Broken && d.chance(3)
		w.Tolerant = !w.Broken && !w.Undead && d.chance(4)
		p.Workloads = append(p.Workloads, w)
		d.addBudgets(p, w)
	}
}

// addBudgets draws no budget, one, or (rarely) two for a workload.
func (d dice) addBudgets(p *Plan, w Workload) {
	if d.chance(45) {
		return
	}
	b := Budget{Workload: w.Name, AlwaysAllow: d.chance(25), Percent: d.chance(30)}
	switch n := d.IntN(100); {
	case n < 55:
		b.Shape, b.N = MaxUnavailable, 1+d.IntN(3)
	case n < 60:
		b.Shape, b.N = MaxUnavailable, 0
	case n < 88:
		b.Shape, b.N = MinAvailable, max(0, w.Replicas-1-d.IntN(3))
	case n < 92:
		b.Shape, b.N = MinAvailable, w.Replicas
	case n < 94:
		b.Shape, b.N = Everything, 1
	case n < 97:
		b.Shape, b.N = Nothing, 1
	default:
		b.Shape, b.N = Invalid, 1
	}
	if b.Percent {
		b.N = min(100, b.N*100/max(1, w.Replicas))
	}
	p.Budgets = append(p.Budgets, b)
	if d.chance(5) {
		p.Budgets = append(p.Budgets, Budget{Workload: w.Name, Shape: MaxUnavailable, N: 1})
	}
}

func (d dice) drawRequest(p *Plan) record.Request {
	unavailable := 1 + min(d.IntN(5), d.IntN(5))
	req := record.Request{
		Group: "workers", Strategy: record.Surge, Like: "eks", MaxUnavailable: unavailable, Window: unavailable,
		BatchBarrier: d.chance(15), EvictUnmanaged: d.chance(50), KeepFence: d.chance(10), KeepMax: d.chance(15),
		OnTimeout:    pick(d, record.Fail, record.Fail, record.Force, record.Skip),
		DrainTimeout: record.Duration{Duration: pick(d, 15*time.Minute, 15*time.Minute, d.between(time.Minute, 5*time.Minute))},
		Settle:       record.Duration{Duration: pick(d, 0, time.Minute, d.between(time.Second, 3*time.Minute))},
		BootTimeout:  record.Duration{Duration: pick(d, 20*time.Minute, 20*time.Minute, d.between(6*time.Minute, 10*time.Minute))},
	}
	if p.hasSize() {
		req.Surge = min(d.IntN(7), p.countOutdated())
	}
	req.KeepMax = req.KeepMax && !p.Zoneless // the command refuses --keep-max for groups without zones
	if req.KeepMax {
		req.Surge = min(req.Surge, p.Room)
		if !p.Zonal {
			req.Surge = 0 // the command refuses --keep-max with a surge for groups without zones
		}
	}
	if d.chance(25) { // GKE's numbers are per zone, and zones are replaced one after the other (GKE G12, G14)
		req.Like, req.MaxUnavailable = "gke", d.IntN(4)
		req.Window = min(req.Surge+req.MaxUnavailable, 20)
		if req.Window == 0 {
			req.MaxUnavailable, req.Window = 1, 1
		}
	}
	req.WaitReplacement = !p.hasSize() && d.chance(60)
	return req
}

// setLags draws delays within the limits that the state machine documents: readings of the cloud are less than 30 s old, and watch
// events are late by less than that.
func (d dice) setLags(p *Plan) {
	if d.chance(40) {
		p.WatchLag = pick(d, time.Second, d.between(0, 15*time.Second))
	}
	if d.chance(40) {
		p.CloudLag = d.between(0, 25*time.Second)
	}
}

func (d dice) addFaults(p *Plan) {
	for range d.IntN(5) {
		from := d.moment()
		p.Faults = append(p.Faults, Fault{
			Kind: pick(d, commonFaults()...), From: from, To: from + d.between(time.Minute, 40*time.Minute), Percent: pick(d, 10, 50, 100),
		})
	}
}

func (d dice) addActors(p *Plan) {
	for range d.IntN(5) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, allActors()...), At: d.moment(), Pick: d.IntN(1000)})
	}
	if d.chance(20) { // one actor ends the process repeatedly
		kind := pick(d, Kill, KillMidStep, Interrupt)
		for range 2 + d.IntN(8) {
			p.Actors = append(p.Actors, Actor{Kind: kind, At: d.moment(), Pick: d.IntN(1000)})
		}
	}
}
