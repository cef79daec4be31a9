package worlds

import (
	"math/rand/v2"
	"time"
)

// addRareTrouble adds faults and actors that the other draws seldom produce, for example faults from the very start of a world. It
// draws from its own generator, so that all other draws stay the same.
func addRareTrouble(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x72617265))}
	if d.chance(20) {
		p.Faults = append(p.Faults, Fault{Kind: pick(d, allFaults()...), To: d.between(time.Minute, 20*time.Minute), Percent: pick(d, 50, 100)})
	}
	if d.chance(20) {
		kind := pick(d, EvictOverload, EvictInternal, EvictConflict, EvictWebhook, EvictPending, CloudLost, CloudUnsent, CloudUnknown, ZoneFull, BudgetSlow)
		p.Faults = append(p.Faults, Fault{Kind: kind, To: d.between(10*time.Minute, time.Hour), Percent: pick(d, 30, 70)})
	}
	if d.chance(25) {
		kind := pick(d, ScalerShrinks, ScalerGrows, BudgetChanges, TargetMoves, AdminUncordons, NamespaceEnds, NodeSilent, AdminTerminates)
		times := 1 + d.IntN(3)
		if kind == BudgetChanges {
			times += 8 // with several actors, one changes the budget before the disruption controller has seen the previous change
		}
		for range times {
			p.Actors = append(p.Actors, Actor{Kind: kind, At: d.between(2*time.Second, 10*time.Minute), Pick: d.IntN(1000)})
		}
	}
	if d.chance(10) {
		at := d.moment()
		p.Actors = append(p.Actors, Actor{Kind: SecondRun, At: at + time.Second})
		if d.chance(70) {
			p.Actors = append(p.Actors, Actor{Kind: Sleep, At: at, Pick: d.IntN(1000)})
		}
	}
	if p.Request.KeepMax && d.chance(50) { // the autoscaler takes the room before the surge is launched
		p.Actors = append(p.Actors, Actor{Kind: ScalerGrows, At: d.between(0, 3*time.Second)})
	}
	if p.hasSize() && d.chance(10) {
		p.Actors = append(p.Actors, Actor{Kind: AdminProtects, At: d.between(2*time.Second, 20*time.Minute), Pick: d.IntN(1000)})
	}
}

// setMinimum draws the group's minimum size (Slack), and whether the cloud refuses zones (Zoneless). It draws from its own generator,
// so that all other draws stay the same.
func setMinimum(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6d696e))}
	p.Zoneless = p.Zonal && d.chance(10)
	p.Slack = pick(d, 0, 0, 1+d.IntN(3), len(p.Nodes))
}

// drawLabels draws which labels the request wants on current nodes, and which current nodes lack them. It draws from its own
// generator, too.
func drawLabels(p *Plan) map[string]string {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6c61626c))}
	if !p.hasSize() || !d.chance(20) {
		return nil
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Unlabelled = n.Current && n.Marks&MarkNoNode == 0 && d.chance(60)
	}
	return map[string]string{flavorLabel: flavorOf("2")}
}
