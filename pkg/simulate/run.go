package simulate

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

const (
	// horizon is how much virtual time an upgrade may take.
	horizon = 90 * 24 * time.Hour
	// restless is how many steps in a row may act without the clock moving.
	restless = 10_000
)

// Run carries a whole upgrade out in virtual time and returns the record as it ended. watch, if not
// nil, sees every step before it is done; the World it sees is to be used up at once. Run returns
// an error when the upgrade does not come to an end: that is a fault of the state machine, never of
// the cluster.
func (c *Cluster) Run(req upgrade.Request, watch func(upgrade.World, upgrade.Step)) (upgrade.Record, error) {
	return c.run(req, watch, false)
}

// run is Run; brief leaves the nodes out of each step's status.
func (c *Cluster) run(req upgrade.Request, watch func(upgrade.World, upgrade.Step), brief bool) (upgrade.Record, error) {
	end := c.now.Add(horizon)
	var step upgrade.Step
	for still := 0; c.now.Before(end); {
		world := c.world(req)
		world.Brief = brief
		step = upgrade.Next(world)
		if watch != nil {
			watch(world, step)
		}
		c.Do(step)
		c.forgetAnswers(&step)
		switch {
		case step.Finished:
			return c.record, nil
		case len(step.Actions) > 0 || !step.Wake.After(c.now):
			if still++; still > restless {
				return c.record, fmt.Errorf("simulating group %q: it acts without end, at last %v", req.Group, step.Actions)
			}
		default:
			still = 0
			c.heed(&step)
			c.wait(next(&step))
		}
	}
	return c.record, fmt.Errorf("simulating group %q: no end within %s: in phase %s with %d of %d replaced, waiting for %q, blocked %v",
		req.Group, horizon, c.record.Phase, c.record.Replaced, c.record.Total, step.Status.Waiting, step.Blocked)
}

// next is when a step has to follow though nothing happens. A process looks again from time to
// time, in case that it has missed something; here nothing is missed, but that the cloud has to be
// asked.
func next(step *upgrade.Step) time.Time {
	if step.Due.After(step.Wake) && step.Poll == 0 {
		return step.Due
	}
	return step.Wake
}

// answer is one that no step asks for any more after a time.
type answer struct {
	key   string
	ended time.Time
}

// lasting is how long an accepted request is looked up: until its effect must have been seen.
const lasting = 30 * time.Second

// forgetAnswers drops what was answered so long ago that no step looks it up, so that steps have
// only what is under way to go through: fences stay on nodes for most of an upgrade. Evictions and
// terminations go with their pods and machines.
func (c *Cluster) forgetAnswers(step *upgrade.Step) {
	for _, action := range step.Actions {
		switch action.(type) {
		case upgrade.Fence, upgrade.Unfence, upgrade.HoldNode, upgrade.FreeNode, upgrade.StartDrain, nodegroup.AddCapacity:
			if c.attempts[action.Key()].Outcome == nodegroup.OutcomeDone {
				c.answers = append(c.answers, answer{key: action.Key(), ended: c.now})
			}
		}
	}
	for len(c.answers) > 0 && c.now.Sub(c.answers[0].ended) >= lasting {
		if old := c.answers[0]; c.attempts[old.key].Ended.Equal(old.ended) {
			delete(c.attempts, old.key)
		}
		c.answers = c.answers[1:]
	}
}

// heed notes which budgets the upgrade waits for. While its window is full that is none but those
// that block a pod: the others are looked at only when a node may be started.
func (c *Cluster) heed(step *upgrade.Step) {
	clear(c.heeded)
	for _, b := range step.Blocked {
		c.heeded[b.Budget] = true
	}
	busy := 0
	for _, n := range step.Record.Nodes {
		switch n.State {
		case upgrade.NodeDraining, upgrade.NodeForcing, upgrade.NodeEmpty:
			busy++
		}
	}
	c.heedAll = step.Status.Outdated > 0 && busy < step.Record.Request.Window
}

// wait lets time pass until something happens that the upgrade might act on, or it wants to look
// again. It does not see yet what happens at the very moment that it looks again: news take their
// time to arrive.
func (c *Cluster) wait(wake time.Time) {
	c.news = false
	for !c.news && c.now.Before(wake) {
		if len(c.events) == 0 || !c.events[0].at.Before(wake) {
			c.now = wake
			return
		}
		c.Advance(wake)
	}
}
