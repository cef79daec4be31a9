package nodepool

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Budget limits how many nodes of a NodePool Karpenter disrupts at the same time.
type Budget struct {
	// Nodes is a number of nodes, or a percentage of the pool's nodes, rounded up: "10%".
	Nodes string `json:"nodes"`
	// Reasons are what the budget limits: "Drifted", "Empty", "Underutilized". Without reasons it limits all of them.
	Reasons []string `json:"reasons"`
	// Schedule is when the budget becomes active, as a cron expression in UTC. Duration is how long it stays active. Without
	// them it is always active.
	Schedule *string `json:"schedule"`
	Duration *string `json:"duration"`
}

// ReasonDrifted is the reason of disruptions that replace drifted nodes.
const ReasonDrifted = "Drifted"

// Unlimited is the allowance of a pool that has no active budget: Karpenter may disrupt all of its nodes.
const Unlimited = math.MaxInt32

// Allowance returns how many drifted nodes of a pool with that many nodes may be in disruption at the time, a number of nodes or
// Unlimited. The strictest active budget counts. A budget that cannot be read forbids all disruptions (karpenter,
// apis/v1/nodepool.go, MustGetAllowedDisruptions).
func (p *NodePool) Allowance(at time.Time, nodes int) int {
	allowed := Unlimited
	for i := range p.Spec.Disruption.Budgets {
		b := &p.Spec.Disruption.Budgets[i]
		n, err := b.allowance(at, nodes)
		switch {
		case err != nil:
			return 0
		case b.limitsDrift():
			allowed = min(allowed, n)
		}
	}
	return allowed
}

// limitsDrift reports whether the budget limits how drifted nodes are replaced.
func (b *Budget) limitsDrift() bool {
	return len(b.Reasons) == 0 || slices.Contains(b.Reasons, ReasonDrifted)
}

// allowance returns how many of the nodes the budget allows to disrupt at the time. It returns an error for a budget that
// Karpenter cannot read either.
func (b *Budget) allowance(at time.Time, nodes int) (int, error) {
	active, err := b.isActive(at)
	if err != nil {
		return 0, err
	}
	if !active {
		return Unlimited, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(new(intstr.Parse(b.Nodes)), nodes, true)
	if err != nil {
		return 0, fmt.Errorf("reading the budget's nodes %q: %w", b.Nodes, err)
	}
	return n, nil
}

// isActive reports whether the budget is active at the time: its schedule began at most its duration ago.
func (b *Budget) isActive(at time.Time) (bool, error) {
	schedule, duration, err := b.parse()
	if err != nil || schedule == nil {
		return err == nil, err
	}
	return !schedule.Next(at.UTC().Add(-duration)).After(at.UTC()), nil
}

// parse returns the budget's schedule, nil if it is always active, and its duration.
func (b *Budget) parse() (cron.Schedule, time.Duration, error) {
	if b.Schedule == nil && b.Duration == nil {
		return nil, 0, nil
	}
	var text, lasts string
	if b.Schedule != nil {
		text = *b.Schedule
	}
	if b.Duration != nil {
		lasts = *b.Duration
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + text)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the budget's schedule %q: %w", text, err)
	}
	duration, err := time.ParseDuration(cmp.Or(lasts, "0s"))
	if err != nil {
		return nil, 0, fmt.Errorf("reading the budget's duration %q: %w", lasts, err)
	}
	return schedule, duration, nil
}

// FindUnreadable returns the error of the first budget that cannot be read, nil if all can. Such a budget forbids all
// disruptions of the pool.
func (p *NodePool) FindUnreadable(nodes int) error {
	for i := range p.Spec.Disruption.Budgets {
		if _, err := p.Spec.Disruption.Budgets[i].allowance(time.Time{}, nodes); err != nil {
			return err
		}
	}
	return nil
}

// Change is an allowance that begins at a time.
type Change struct {
	At time.Time
	// Allowed is a number of nodes, or Unlimited.
	Allowed int
}

// mostHits is how many times the schedule of one budget is followed into the future. The schedule of every minute reaches more
// than a week.
const mostHits = 12_000

// Changes returns the changes of the allowance from a time until another, for a pool with that many nodes. The first is the
// allowance at the start. Schedules are followed for at most mostHits hits.
func (p *NodePool) Changes(from, until time.Time, nodes int) []Change {
	edges := []time.Time{}
	for i := range p.Spec.Disruption.Budgets {
		if b := &p.Spec.Disruption.Budgets[i]; b.limitsDrift() {
			edges = b.appendEdges(edges, from, until)
		}
	}
	slices.SortFunc(edges, time.Time.Compare)
	changes := []Change{{At: from, Allowed: p.Allowance(from, nodes)}}
	for _, at := range slices.CompactFunc(edges, time.Time.Equal) {
		if allowed := p.Allowance(at, nodes); allowed != changes[len(changes)-1].Allowed {
			changes = append(changes, Change{At: at, Allowed: allowed})
		}
	}
	return changes
}

// appendEdges appends the times after from and before until at which the budget may become active or inactive.
func (b *Budget) appendEdges(edges []time.Time, from, until time.Time) []time.Time {
	schedule, duration, err := b.parse()
	if err != nil || schedule == nil {
		return edges
	}
	hit := from.UTC().Add(-duration)
	for range mostHits {
		if hit = schedule.Next(hit); hit.IsZero() || !hit.Before(until) {
			break
		}
		for _, edge := range []time.Time{hit, hit.Add(duration)} {
			if edge.After(from) && edge.Before(until) {
				edges = append(edges, edge)
			}
		}
	}
	return edges
}
