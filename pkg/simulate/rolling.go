package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Rolling describes a surge that the group's cloud carries out in slots, as GKE does. A slot replaces one node at a time: it adds a node
// first, or starts the same machine again. The next node of a slot begins when the one before is replaced (GKE G12, G16). Zones are
// replaced one after the other (GKE G14).
type Rolling struct {
	// Surge is how many slots add a node before they drain one, and Unavailable how many do not.
	Surge, Unavailable int
	// Retry is how often the cloud tries refused evictions again.
	Retry time.Duration
	// Draining has the nodes that the cloud drains already, with the start of the drain. Added is how many nodes it has added.
	Draining map[string]time.Time
	Added    int
}

// lastGrace is how long a cloud waits for pods that it has deleted, before it deletes their node.
const lastGrace = time.Hour

// slotState is what a slot does.
type slotState int

const (
	slotIdle slotState = iota
	slotBoots
	slotDrains
	slotDeletes
	slotLeaves
	slotRestarts
)

// slot replaces one node at a time. old is the node, added the machine that replaces it.
type slot struct {
	addsFirst  bool
	state      slotState
	old, added *member
	name       string
	// deadline is the end of the drain, or of the wait for deleted pods. retry is when evictions are tried again.
	deadline, retry time.Time
}

// roller carries out a Rolling.
type roller struct {
	*Cluster
	Rolling
	req      record.Request
	recorder *recorder
	slots    []*slot
	// queue has the outdated members of the zone whose turn it is. spare is how many added nodes no slot uses yet.
	queue []*member
	spare int
	// batch is the number of the last start of a drain, and startedAt its time.
	batch     int
	startedAt time.Time
}

// roll carries out the whole surge, and returns the result. It returns the context's error when the context ends, and an *EndlessError
// if a node waits for an event that never comes.
func (c *Cluster) roll(ctx context.Context, how *Rolling, req record.Request, r *recorder) (record.Result, error) {
	roller := &roller{Cluster: c, Rolling: *how, req: req, recorder: r, spare: how.Added}
	r.before = cmp.Or(r.before, c.group.Desired-how.Added)
	for _, zone := range c.outdatedZones() {
		if err := roller.rollZone(ctx, zone); err != nil {
			return "", err
		}
	}
	return record.Succeeded, nil
}

// outdatedZones returns the zones with outdated nodes, sorted.
func (c *Cluster) outdatedZones() []string {
	var zones []string
	for i := range c.group.roster {
		if m := &c.group.roster[i]; m.Outdated && m.Node != nil && !slices.Contains(zones, m.Zone()) {
			zones = append(zones, m.Zone())
		}
	}
	slices.Sort(zones)
	return zones
}

// rollZone replaces the outdated nodes of a zone.
func (r *roller) rollZone(ctx context.Context, zone string) error {
	r.queue = r.listOutdated(zone)
	r.openSlots(len(r.queue))
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("simulating group %q: %w", r.group.Name, context.Cause(ctx))
		}
		for r.stepSlots(zone) {
		}
		next, working := r.nextTime()
		if !working {
			return nil
		}
		r.record()
		if !r.Advance(next) {
			return &EndlessError{Group: r.group.Name, Waiting: "the nodes of zone " + zone}
		}
	}
}

// listOutdated returns the outdated members of a zone: first those that the cloud drains already, then the others in the run's order.
func (r *roller) listOutdated(zone string) []*member {
	var all []*member
	for i := range r.group.roster {
		shown := &r.group.roster[i]
		if !shown.Outdated || shown.Node == nil || shown.Zone() != zone {
			continue
		}
		if n := r.index.nodes.byName[shown.Node.Name]; n != nil && n.member != nil {
			all = append(all, n.member)
		}
	}
	turn := func(m *member) int {
		if _, begun := r.Draining[m.node.node.Name]; begun || nodegroup.IsClosed(m.node.node) {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *member) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), r.compareDrawn(a.node.node.Name, b.node.node.Name))
	})
	return all
}

// compareDrawn compares two nodes in the run's order: by name, or in a drawn order.
func (c *Cluster) compareDrawn(a, b string) int {
	if c.drawn != 0 {
		return cmp.Compare(hashName(a, c.drawn), hashName(b, c.drawn))
	}
	return strings.Compare(a, b)
}

// openSlots opens the slots for a zone with n outdated nodes (GKE G12, G13). Slots that add a node come first.
func (r *roller) openSlots(n int) {
	r.slots = nil
	for i := range min(r.Surge+r.Unavailable, record.MaxSurgeWindow, n) {
		r.slots = append(r.slots, &slot{addsFirst: i < r.Surge})
	}
}

// stepSlots lets each slot do what it can do now, and reports whether one did something.
func (r *roller) stepSlots(zone string) (acted bool) {
	for _, s := range r.slots {
		acted = r.step(s, zone) || acted
	}
	return acted
}

// step reports whether the slot did something.
func (r *roller) step(s *slot, zone string) (acted bool) {
	switch s.state {
	case slotIdle:
		return r.beginNode(s, zone)
	case slotBoots:
		return s.added.node != nil && r.beginDrain(s)
	case slotDrains:
		return r.drain(s)
	case slotDeletes:
		if r.countLeavingPods(s.old.node) > 0 && r.clock.now.Before(s.deadline) {
			return false
		}
		r.beginEnd(s)
	case slotLeaves:
		if r.group.members[s.old.instance.ID] != nil {
			return false
		}
		r.endNode(s, zone)
	case slotRestarts:
		if s.added.node == nil {
			return false
		}
		s.state = slotIdle
	}
	return true
}

// beginNode takes the next node of the queue.
func (r *roller) beginNode(s *slot, zone string) (acted bool) {
	if len(r.queue) == 0 {
		return false
	}
	s.old, r.queue = r.queue[0], r.queue[1:]
	s.name = s.old.node.node.Name
	_, begun := r.Draining[s.name]
	switch {
	case begun || nodegroup.IsClosed(s.old.node.node):
		if s.addsFirst {
			r.spare--
		}
		return r.beginDrain(s)
	case !s.addsFirst:
		return r.beginDrain(s)
	case r.spare > 0:
		r.spare--
		return r.beginDrain(s)
	}
	s.added, s.state = r.launch(zone), slotBoots
	return true
}

// launch adds a machine to the zone.
func (r *roller) launch(zone string) *member {
	r.group.Desired++
	m := r.cloud.addInstance(zone)
	r.cloud.scheduleBoot(m, r.cloud.times.Boot)
	return m
}

// beginDrain cordons the slot's node and begins its drain.
func (r *roller) beginDrain(s *slot) (acted bool) {
	n, now := s.old.node, r.clock.now
	closed := n.node.DeepCopy()
	closed.Spec.Unschedulable = true
	r.nodes.updateNode(n, closed)
	since := now
	if begun := r.Draining[s.name]; !begun.IsZero() {
		since = begun
	}
	s.state, s.deadline, s.retry = slotDrains, since.Add(r.req.DrainTimeout.Duration), now
	if r.batch == 0 || !now.Equal(r.startedAt) {
		r.batch, r.startedAt = r.batch+1, now
	}
	r.recorder.recordStarts(now, map[string]record.NodeRecord{s.name: {Batch: r.batch}})
	return true
}

// drain evicts the node's pods. At the end of its time it deletes those that are left (GKE G15).
func (r *roller) drain(s *slot) (acted bool) {
	n := s.old.node
	switch {
	case r.countLeavingPods(n) == 0:
		r.beginEnd(s)
	case !r.clock.now.Before(s.deadline):
		for _, pod := range n.pods {
			if u := r.index.bound[pod.UID]; u != nil && drain.Judge(pod, r.req.Policy(), false).Fate == drain.Go {
				r.deletePodPastBudget(u)
			}
		}
		s.state, s.deadline = slotDeletes, r.clock.now.Add(lastGrace)
	case !r.clock.now.Before(s.retry):
		r.evictPodsOfNode(n, r.req.Policy())
		s.retry = r.clock.now.Add(max(r.Retry, time.Second))
	default:
		return false
	}
	return true
}

// beginEnd deletes the slot's node.
func (r *roller) beginEnd(s *slot) {
	s.state = slotLeaves
	s.old.instance.State = nodegroup.InstanceLeaving
	r.group.Desired--
	r.nodes.updateInstance(s.old)
	r.cloud.scheduleInstanceEnd(s.old, r.cloud.times.Leave)
}

// endNode follows the end of the slot's node. A slot that adds no node first starts the same machine again (GKE G16).
func (r *roller) endNode(s *slot, zone string) {
	if n := r.recorder.nodes[s.name]; n != nil {
		n.End = newSpan(r.clock.now.Sub(r.began))
		delete(r.recorder.open, s.name)
	}
	if s.state = slotIdle; !s.addsFirst {
		s.added, s.state = r.launch(zone), slotRestarts
	}
}

// nextTime returns when a slot must act at the latest, zero if only events matter. working is false if all slots are idle.
func (r *roller) nextTime() (next time.Time, working bool) {
	for _, s := range r.slots {
		at := time.Time{}
		switch working = working || s.state != slotIdle; s.state {
		case slotDrains:
			at = earliest(s.deadline, s.retry)
		case slotDeletes:
			at = s.deadline
		}
		next = earliest(next, at)
	}
	return next, working
}

// record tells the recorder what the slots wait for.
func (r *roller) record() {
	rec := r.recorder
	rec.forecast.Steps++
	rec.addElapsedTime(r.clock.now)
	rec.size = r.group.Desired
	rec.forecast.Peak = max(rec.forecast.Peak, rec.size)
	rec.waiting = "earlier nodes"
	for _, s := range r.slots {
		if s.state == slotBoots || s.state == slotRestarts {
			rec.waiting = "new nodes"
		}
		if n := rec.open[s.name]; n != nil && s.state == slotDrains {
			if n.waits = r.describeBlocker(s.old.node.pods); n.waits != "" {
				n.waited = n.waits
			}
		}
	}
}

// describeBlocker returns what keeps the pods on their node, "" for nothing.
func (r *roller) describeBlocker(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if drain.Judge(pod, r.req.Policy(), false).Fate != drain.Go {
			continue
		}
		if obstacle := drain.Predict(pod, r.budgets.index, nil, false).Obstacle; obstacle.Kind != drain.NoObstacle {
			return cmp.Or(obstacle.BudgetName(), "pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	return ""
}

// predictRolling completes a forecast whose nodes a cloud replaces in slots.
func (c *Cluster) predictRolling(ctx context.Context, how *Rolling, req record.Request, r *recorder) (Forecast, error) {
	result, err := c.roll(ctx, how, req, r)
	r.size = c.group.Desired
	r.finishForecast(c.clock.now)
	r.forecast.SizeAfter = c.group.Desired
	c.finishCounts(r)
	r.forecast.Unplaced = c.Unplaced()
	r.recordEnding(result, c.countNotReached(r.nodes))
	if endless, isEndless := errors.AsType[*EndlessError](err); isEndless {
		r.markEndless(endless)
		err = nil
	}
	return r.forecast, err
}
