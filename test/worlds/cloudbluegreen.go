package worlds

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// blueGreenState is how far a blue-green operation is.
type blueGreenState struct {
	// isRollback is true for an operation that takes another one back. It has no soaks.
	isRollback bool
	// cordoned is true once all outdated nodes are cordoned. kept contains the instances whose drain has ended.
	cordoned bool
	kept     map[string]bool
	// restsUntil is the end of the soak of the last batch, and soaksUntil the end of the soak after the last one.
	restsUntil, soaksUntil time.Time
	// deletes is true once the outdated nodes are being deleted.
	deletes bool
}

// drawCloudBlueGreen makes the other cloud upgrade half of its groups blue-green. It draws from its own generator, so that all other
// worlds stay the same.
func drawCloudBlueGreen(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x626c7565))}
	if !p.isOtherCloud() || !d.chance(50) {
		return
	}
	r := &p.Request
	batchSoak := record.Duration{Duration: pick(d, 0, 0, d.between(time.Second, 10*time.Minute))}
	soak := record.Duration{Duration: pick(d, 0, d.between(time.Second, 10*time.Minute), d.between(10*time.Minute, 6*time.Hour), d.between(10*time.Minute, 6*time.Hour))}
	r.CloudStrategy, r.SetsRollout, r.BlueGreen = record.BlueGreen, d.chance(50), &record.BlueGreenRequest{Batch: d.IntN(4), BatchSoak: batchSoak, Soak: soak}
	r.Surge, r.MaxUnavailable, r.Window, p.Minimal = p.countOutdated(), 0, max(1, r.BlueGreen.Batch), false
	if p.Calm > 0 {
		p.Calm += soak.Duration
	}
	if d.chance(40) {
		return
	}
	for range 1 + d.IntN(3) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, EndsSoak, EndsSoak, EndsSoak, Pauses, RollsBack, Kill, Interrupt), At: d.between(0, pick(d, 10*time.Minute, time.Hour, soak.Duration+time.Hour)), Pick: d.IntN(1000)})
	}
}

func (p *Plan) isCloudBlueGreen() bool { return p.Request.CloudStrategy == record.BlueGreen }

// rolloutOfGroup returns the settings of the group: those of the request, unless the request sets them.
func (p *Plan) rolloutOfGroup() nodegroup.Rollout {
	bg := p.Request.BlueGreen
	if bg == nil || p.Request.SetsRollout {
		return nodegroup.Rollout{}
	}
	return nodegroup.Rollout{Strategy: string(record.BlueGreen), Batch: nodegroup.Quantity{N: bg.Batch}, BatchSoak: bg.BatchSoak.Duration, Soak: bg.Soak.Duration}
}

// beginBlueGreen adds a new node for each outdated one, except for those that an earlier operation has added. Nodes of the operation's
// revision take pods again.
func (c *cluster) beginBlueGreen(op *operation) {
	k := &c.cloud
	op.blue.kept = map[string]bool{}
	if missing := len(c.outdatedFor(op)) - k.extra; missing > 0 {
		k.extra, k.desired, k.max = k.extra+missing, k.desired+missing, k.max+missing
	}
	for _, i := range k.liveInstances() {
		if name := c.nodeNameOf(i); i.revision == op.revision && c.nodes[name] != nil && c.nodes[name].Spec.Unschedulable {
			c.changeNode(name, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		}
	}
	c.reconcileSize()
	c.advanceBlueGreen(op)
}

// advanceBlueGreen carries out one step of a blue-green operation (GKE G40), and schedules the next step.
func (c *cluster) advanceBlueGreen(op *operation) {
	if !op.isRunning() {
		return
	}
	old, up := c.outdatedFor(op), c.areNewNodesUp(op)
	if up || op.blue.cordoned {
		op.waitsForNodesSince = c.now
	}
	switch {
	case c.now.Sub(op.waitsForNodesSince) > operationBootLimit:
		c.endOperation(op, nodegroup.OperationFailed, creationFailure)
		return
	case len(old) == 0 && up:
		c.removeOperationSurge(op)
		return
	case up && !op.blue.cordoned:
		op.blue.cordoned = true
	case op.blue.cordoned:
		c.emptyOldNodes(op, old)
	}
	for _, i := range old {
		if op.blue.cordoned {
			c.keepPodsOff(c.nodeNameOf(i))
		}
	}
	c.after(operationTick, func() { c.advanceBlueGreen(op) })
}

// emptyOldNodes drains the cordoned nodes batch by batch, keeps them for the soak, and deletes them (GKE G44 to G49).
func (c *cluster) emptyOldNodes(op *operation, old []*instance) {
	b, asked := &op.blue, c.plan.Request.BlueGreen
	c.drainBatch(op)
	switch {
	case len(op.drainingSince) > 0 || c.now.Before(b.restsUntil) || c.startCloudBatch(op, old, asked.Batch):
		return
	case b.soaksUntil.IsZero():
		b.soaksUntil = c.now.Add(asked.Soak.Duration)
		if b.isRollback {
			b.soaksUntil = c.now
		}
	}
	if c.now.Before(b.soaksUntil) {
		return
	}
	b.deletes = true
	for _, i := range old {
		for _, pod := range c.podsToLeave(c.nodeNameOf(i)) {
			c.deletePod(pod.UID)
		}
		c.replaceInstance(op, i)
	}
}

// startCloudBatch begins to drain the next batch in a random order. It returns false if no node is left.
func (c *cluster) startCloudBatch(op *operation, old []*instance, size int) (started bool) {
	for _, n := range c.rng.Perm(len(old)) {
		if id := old[n].id; !op.blue.kept[id] && len(op.drainingSince) < size {
			op.drainingSince[id], started = c.now, true
		}
	}
	return started
}

// drainBatch evicts the pods of the batch. A node keeps the pods that are left at the end of its time (GKE G44). After the last node of
// the batch, the operation rests.
func (c *cluster) drainBatch(op *operation) {
	if len(op.drainingSince) == 0 {
		return
	}
	for _, id := range sortedKeys(op.drainingSince) {
		i := c.cloud.instances[id]
		if i == nil || i.leaving {
			delete(op.drainingSince, id)
			continue
		}
		name := c.nodeNameOf(i)
		left := c.podsToLeave(name)
		if len(left) == 0 || c.now.Sub(op.drainingSince[id]) >= c.plan.Request.DrainTimeout.Duration {
			op.blue.kept[id] = true
			delete(op.drainingSince, id)
			continue
		}
		for _, pod := range left {
			if pod.DeletionTimestamp == nil {
				_ = c.evictPod(schedule.Eviction{Pod: pod.Name, UID: pod.UID, Node: name}) // the next step repeats a refused eviction
			}
		}
	}
	if len(op.drainingSince) == 0 && !op.blue.isRollback {
		op.blue.restsUntil = c.now.Add(c.plan.Request.BlueGreen.BatchSoak.Duration)
	}
}

// soakEnd returns when the operation begins to delete the nodes that it keeps; zero if it does not soak.
func (o *operation) soakEnd(now time.Time) time.Time {
	if o.isRunning() && !o.blue.deletes && o.blue.soaksUntil.After(now) {
		return o.blue.soaksUntil
	}
	return time.Time{}
}

// endSoak ends the soak of an operation up to a minute after the request.
func (c *cluster) endSoak(a nodegroup.EndSoak) error {
	op := c.runningOperation()
	switch {
	case c.drawFault(Forbidden):
		return errCloud(nodegroup.OutcomeFatal, "not authorized (forbidden)")
	case op == nil || op.id != a.Operation || op.soakEnd(c.now).IsZero():
		return errCloud(nodegroup.OutcomeMoved, "operation %s does not soak", a.Operation)
	}
	c.after(c.drawUpTo(time.Minute), func() { op.blue.soaksUntil = c.now })
	return nil
}

// checkEndOfSoak checks G52: the upgrade ends only the soak of the operation that it follows, and only after a user requested it.
func (r *rules) checkEndOfSoak(w *upgrade.World, step *upgrade.Step, end nodegroup.EndSoak) {
	followed := step.Record.Delegation
	if !r.soaks.completed || followed.ID != end.Operation || w.Group.Managed.Operation.SoaksUntil.IsZero() {
		r.fail("G52", "%s, and the request is %+v of the record %+v", end, w.Asked, followed)
	}
}

// checkCloudSoak checks that an upgrade waits without a process only while its operation soaks.
func (r *rules) checkCloudSoak(rec record.Record) {
	for _, op := range r.c.cloud.operations {
		if op.id == rec.Delegation.ID && op.blue.soaksUntil.Equal(rec.Soak.Until) && rec.Phase == record.PhaseSoak {
			return
		}
	}
	if !r.soaks.completed { // the end has moved since the reading
		r.fail("G49", "it waits until %s in phase %q, and operation %s does not soak", rec.Soak.Until, rec.Phase, rec.Delegation.ID)
	}
}
