package worlds

import (
	"reflect"
	"slices"
)

// Shrink removes parts of the plan of a broken world, one at a time, while a rule stays broken. It runs at most the given number of
// worlds.
func Shrink(plan Plan, tries int) Plan {
	for smaller := true; smaller; {
		smaller = false
		for _, candidate := range smallerPlans(plan) {
			if tries--; tries < 0 {
				return plan
			}
			if Run(candidate, nil).Broken != "" {
				plan, smaller = candidate, true
				break
			}
		}
	}
	return plan
}

// smallerPlans returns plans without one part each. Plans without a large part come first.
func smallerPlans(p Plan) []Plan {
	var plans []Plan
	for i := range p.Actors {
		q := p
		q.Actors = without(p.Actors, i)
		plans = append(plans, q)
	}
	for i := range p.Faults {
		q := p
		q.Faults = without(p.Faults, i)
		plans = append(plans, q)
	}
	if p.Denial.Kind != "" {
		q := p
		q.Denial = Denial{}
		plans = append(plans, q)
	}
	for i := range p.Workloads {
		q := p
		q.Workloads = without(p.Workloads, i)
		q.Budgets = slices.DeleteFunc(slices.Clone(p.Budgets), func(b Budget) bool { return b.Workload == p.Workloads[i].Name })
		plans = append(plans, q)
	}
	for i := range p.Budgets {
		q := p
		q.Budgets = without(p.Budgets, i)
		plans = append(plans, q)
	}
	for i := range p.Nodes {
		if len(p.Nodes) > 1 {
			q := p
			q.Nodes = without(p.Nodes, i)
			plans = append(plans, q)
		}
	}
	return append(plans, plansWithoutOddity(p)...)
}

// plansWithoutOddity returns plans without one oddity each.
func plansWithoutOddity(p Plan) []Plan {
	var plans []Plan
	for i := range p.Nodes {
		if p.Nodes[i].Marks != 0 {
			q := p
			q.Nodes = slices.Clone(p.Nodes)
			q.Nodes[i].Marks, q.Nodes[i].Deviceless = 0, false
			plans = append(plans, q)
		}
	}
	for i := range p.Workloads {
		if p.Workloads[i].Replicas > 1 {
			q := p
			q.Workloads = slices.Clone(p.Workloads)
			q.Workloads[i].Replicas--
			plans = append(plans, q)
		}
		for _, change := range []func(*Workload){
			func(w *Workload) { w.Served = false },
			func(w *Workload) { w.Crashes, w.Slow = false, 0 },
			func(w *Workload) { w.Refused, w.Homeless, w.Pinned, w.Flaps = false, false, false, 0 },
			func(w *Workload) { w.Tolerant, w.Ordered = false, false },
			func(w *Workload) { w.Ends, w.Falls = 0, 0 },
		} {
			q := p
			q.Workloads = slices.Clone(p.Workloads)
			if change(&q.Workloads[i]); q.Workloads[i] != p.Workloads[i] {
				plans = append(plans, q)
			}
		}
	}
	for _, change := range []func(*Plan){
		func(q *Plan) { q.WatchLag = 0 },
		func(q *Plan) { q.CloudLag = 0 },
		func(q *Plan) { q.Repoint = false },
		func(q *Plan) { q.Suspended = false },
		func(q *Plan) { q.Request.BatchBarrier = false },
		func(q *Plan) { q.Request.KeepFence = false },
		func(q *Plan) { q.Request.KeepMax = false },
		func(q *Plan) { q.Request.Surge = 0 },
		func(q *Plan) { q.Calm = 0 },
		func(q *Plan) { q.Spot = false },
		func(q *Plan) { q.InPlace = false },
		func(q *Plan) { q.Closed, q.ClosedFor = "", 0 },
		func(q *Plan) { q.Request.Move = "" },
		func(q *Plan) { q.Request.IgnoreUnready = nil },
		func(q *Plan) { q.Request.NoImplicitBudgets = false },
	} {
		q := p
		change(&q)
		if noneLeft := q.Request.Surge != p.Request.Surge && q.Request.MaxUnavailable == 0; !noneLeft && !reflect.DeepEqual(q, p) {
			plans = append(plans, q)
		}
	}
	return plans
}

func without[T any](of []T, i int) []T { return slices.Delete(slices.Clone(of), i, i+1) }
