package worlds

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// operationTick is how often an operation checks its nodes.
	operationTick = 5 * time.Second
	// nodeLimit is how long the operation tries to drain a node (EKS E41). nodeSettle is how long it then waits (EKS E44).
	nodeLimit, nodeSettle = 15 * time.Minute, time.Minute
	// bootLimit is how long the operation waits for new nodes.
	bootLimit = 20 * time.Minute

	evictionFailure = "PodEvictionFailure"
	creationFailure = "NodeCreationFailure"
)

// operation is one change of the group that its cloud carries out by itself: an upgrade to the revision to or, where to is "", a
// change of the configuration.
type operation struct {
	id, token, to string
	force         bool
	state         nodegroup.OperationState
	code          string
	resources     []string
	began, shown  time.Time
	// lost is true while readings do not show the operation. lostAt is when they did not show it for the first time.
	lost   bool
	lostAt time.Time
	// booting is the time since when the operation waits for new nodes. drains is, by instance, the time since when it is drained.
	// emptied is the time since when it is empty.
	booting         time.Time
	drains, emptied map[string]time.Time
}

func (o *operation) running() bool { return o.state == nodegroup.OperationRunning }

// delegate begins an operation for a request to upgrade the group. A token that was used before gets the operation that it began.
func (c *cluster) delegate(a nodegroup.Delegate) error {
	for _, op := range c.cloud.operations {
		if op.token != a.Token {
			continue
		}
		if op.to != a.To.ID || op.force != a.Force {
			return answered(nodegroup.OutcomeFatal, "the token was used for another request, to %s (forbidden)", op.to)
		}
		return nil
	}
	if c.befalls(Forbidden) {
		return answered(nodegroup.OutcomeFatal, "not authorized (forbidden)")
	}
	if c.runningOperation() != nil {
		return answered(nodegroup.OutcomeMoved, "another update is under way (ResourceInUseException)")
	}
	c.operate(operation{to: a.To.ID, force: a.Force, token: a.Token})
	return nil
}

// cancelOperation ends an operation a while after the request. Nodes that are being drained may be made schedulable again.
func (c *cluster) cancelOperation(a nodegroup.CancelOperation) error {
	op := c.runningOperation()
	switch {
	case !c.plan.byOtherCloud():
		return answered(nodegroup.OutcomeFatal, "operations cannot be cancelled (forbidden)")
	case op == nil || op.id != a.Operation:
		return answered(nodegroup.OutcomeMoved, "operation %s is over", a.Operation)
	}
	c.after(c.draw(time.Minute), func() { c.endOperation(op, nodegroup.OperationCancelled, "") })
	return nil
}

// cloudSurge returns the highest number of nodes that the group's own cloud adds first.
func (p *Plan) cloudSurge() int {
	if p.byOtherCloud() {
		return p.Request.Surge
	}
	return max(2*p.Zones, p.Request.MaxUnavailable)
}

func (c *cluster) runningOperation() *operation {
	if ops := c.cloud.operations; len(ops) > 0 && ops[len(ops)-1].running() {
		return ops[len(ops)-1]
	}
	return nil
}

// operate begins an operation. Readings show it a moment later, and its work takes time.
func (c *cluster) operate(o operation) {
	op := &o
	op.id, op.state, op.began, op.shown = fmt.Sprintf("u%d", len(c.cloud.operations)+1), nodegroup.OperationRunning, c.now, c.now
	op.drains, op.emptied = map[string]time.Time{}, map[string]time.Time{}
	if c.befalls(OperationHidden) {
		op.shown = c.now.Add(c.draw(2 * time.Minute))
	}
	c.cloud.operations = append(c.cloud.operations, op)
	if op.to == "" {
		c.after(c.draw(5*time.Minute), func() { c.endOperation(op, nodegroup.OperationSucceeded, "") })
		return
	}
	if c.befalls(OperationOvertaken) {
		c.overtake(op)
		return
	}
	if c.befalls(OperationFails) {
		code := []string{"InsufficientFreeAddresses", "AccessDenied", "ClusterUnreachable", evictionFailure, creationFailure}[c.rng.IntN(5)]
		c.after(c.draw(30*time.Minute), func() { c.endOperation(op, nodegroup.OperationFailed, code) })
	}
	if c.befalls(OperationCancelled) {
		c.after(c.draw(30*time.Minute), func() { c.endOperation(op, nodegroup.OperationCancelled, "") })
	}
	if c.befalls(OperationShort) {
		c.after(c.draw(30*time.Minute), func() { c.endOperation(op, nodegroup.OperationSucceeded, "") })
	}
	if c.befalls(OperationLost) {
		c.after(c.draw(30*time.Minute), func() { c.loseOperation(op) })
	}
	c.after(c.draw(time.Minute), func() { c.scaleUp(op) })
}

// overtake makes an operation fail at once. Another actor changes the group's configuration before a reading shows the failure. Some
// readings stop showing that change while it is carried out.
func (c *cluster) overtake(op *operation) {
	c.endOperation(op, nodegroup.OperationFailed, "AccessDenied")
	op.shown = c.now.Add(time.Second)
	c.after(time.Second, func() {
		if c.runningOperation() != nil {
			return
		}
		c.operate(operation{})
		if change := c.runningOperation(); c.chance(50) {
			c.after(c.draw(time.Minute), func() { c.loseOperation(change) })
		}
	})
}

// loseOperation hides an operation from readings, for good or for a while. The operation continues.
func (c *cluster) loseOperation(op *operation) {
	op.lost, op.lostAt = true, c.now
	if c.chance(50) {
		c.after(c.draw(10*time.Minute), func() { op.lost = false })
	}
}

// endOperation ends a running operation. It is not documented what happens to closed nodes after a failure: here they may stay closed.
func (c *cluster) endOperation(op *operation, state nodegroup.OperationState, code string) {
	if !op.running() {
		return
	}
	op.state, op.code = state, code
	if code == evictionFailure {
		for _, id := range sortedKeys(op.drains) {
			if i := c.cloud.instances[id]; i != nil && c.chance(50) {
				id = c.nodeOf(i)
			}
			op.resources = append(op.resources, id)
		}
	}
	if state == nodegroup.OperationSucceeded || c.chance(50) {
		return
	}
	for _, i := range c.cloud.living() {
		c.changeNode(c.nodeOf(i), func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t == fenceTaint(c.plan.Provider) })
		})
	}
}

// scaleUp enlarges the group, except under MINIMAL (EKS E02, E03, E09, E21).
func (c *cluster) scaleUp(op *operation) {
	if !op.running() {
		return
	}
	k := &c.cloud
	k.pointed, op.booting = op.to, c.now
	if surge := min(c.plan.cloudSurge(), len(c.outdatedFor(op))) - k.extra; surge > 0 && !c.plan.Minimal {
		k.extra, k.desired, k.max = k.extra+surge, k.desired+surge, k.max+surge
	}
	c.fill()
	c.advance(op)
}

func (c *cluster) outdatedFor(op *operation) []*instance {
	return slices.DeleteFunc(c.cloud.living(), func(i *instance) bool { return i.revision == op.to })
}

// advance takes the operation one step further, and schedules the next step.
func (c *cluster) advance(op *operation) {
	if !op.running() {
		return
	}
	old, up := c.outdatedFor(op), c.newNodesUp(op)
	switch {
	case up:
		op.booting = c.now
	case c.now.Sub(op.booting) > bootLimit:
		c.endOperation(op, nodegroup.OperationFailed, creationFailure)
		return
	}
	if up && len(old) == 0 {
		c.scaleDown(op)
		return
	}
	if up || len(op.drains) > 0 {
		c.drainNodes(op, old, up)
	}
	c.after(operationTick, func() { c.advance(op) })
}

// newNodesUp reports whether the group has all its nodes, and the nodes of the operation's revision are Ready and labelled (EKS E26,
// E27).
func (c *cluster) newNodesUp(op *operation) bool {
	living := c.cloud.living()
	return len(living) >= c.cloud.desired && !slices.ContainsFunc(living, func(i *instance) bool {
		node := c.nodes[c.nodeOf(i)]
		return i.revision == op.to && (node == nil || !isReady(node) || node.Labels[imageLabel] == "")
	})
}

// drainNodes closes all old nodes, picks some of them at random, and drains these (EKS E30, E40). MINIMAL closes each node only when
// it is drained (EKS E50).
func (c *cluster) drainNodes(op *operation, old []*instance, more bool) {
	for _, n := range c.rng.Perm(len(old)) {
		i := old[n]
		_, begun := op.drains[i.id]
		if !begun && more && len(op.drains) < c.plan.Request.MaxUnavailable {
			op.drains[i.id], begun = c.now, true
		}
		if begun || !c.plan.Minimal {
			c.close(c.nodeOf(i))
		}
	}
	for _, id := range sortedKeys(op.drains) {
		if i := c.cloud.instances[id]; i == nil || i.leaving {
			delete(op.drains, id)
		} else if op.running() {
			c.drainNode(op, i)
		}
	}
}

// close keeps new pods off a node. It is not documented whether by the taint or by the cordon.
func (c *cluster) close(name string) {
	if node := c.nodes[name]; node == nil || nodegroup.IsClosed(node) {
		return
	}
	c.changeNode(name, func(n *corev1.Node) {
		if n.Spec.Unschedulable = !c.plan.Minimal; c.plan.Minimal {
			n.Spec.Taints = append(slices.Clone(n.Spec.Taints), fenceTaint(c.plan.Provider))
		}
	})
}

// drainNode evicts the pods of a node until the drain limit, and then fails or deletes them. A node without pods is terminated a while
// later (EKS E41 to E44).
func (c *cluster) drainNode(op *operation, i *instance) {
	name := c.nodeOf(i)
	left := c.leaving(name)
	emptied, empty := op.emptied[i.id]
	late := c.now.Sub(op.drains[i.id]) >= c.plan.Request.DrainTimeout.Duration
	switch {
	case empty && c.now.Sub(emptied) >= c.plan.Request.Settle.Duration:
		c.replace(op, i)
	case empty:
	case len(left) == 0:
		op.emptied[i.id] = c.now
	case late && op.force:
		op.emptied[i.id] = c.now
		for _, pod := range left {
			c.delete(pod.UID)
		}
	case late:
		c.endOperation(op, nodegroup.OperationFailed, evictionFailure)
	default:
		for _, pod := range left {
			if pod.DeletionTimestamp == nil {
				_ = c.evict(schedule.Eviction{Pod: pod.Name, UID: pod.UID, Node: name}) // the next step tries again
			}
		}
	}
}

// leaving returns the pods that the cloud waits for on a node. On a silent node it does not wait for deleted pods.
func (c *cluster) leaving(name string) []*corev1.Pod {
	lost := silent(c.nodes[name], c.now)
	return slices.DeleteFunc(c.on(name), func(pod *corev1.Pod) bool { return !mustGo(pod, lost) })
}

// replace terminates an old node. The last replacements shrink the group to its size before (EKS E48, E60).
func (c *cluster) replace(op *operation, i *instance) {
	k := &c.cloud
	if k.extra >= len(c.outdatedFor(op)) {
		k.desired, k.max, k.extra = k.desired-1, k.max-1, k.extra-1
	}
	delete(op.drains, i.id)
	c.leave(i)
	c.fill()
}

// scaleDown removes the rest of the surge, and ends the operation a while later.
func (c *cluster) scaleDown(op *operation) {
	k := &c.cloud
	k.desired, k.max, k.extra = k.desired-k.extra, k.max-k.extra, 0
	c.fill()
	c.after(c.draw(2*time.Minute), func() { c.endOperation(op, nodegroup.OperationSucceeded, "") })
}

// managed returns what a reading shows of the cloud's operations: the newest visible one.
func (c *cluster) managed() *nodegroup.Managed {
	m := &nodegroup.Managed{
		MaxUnavailable: nodegroup.Quantity{N: c.plan.Request.MaxUnavailable}, TerminateFirst: c.plan.Minimal, ChangeWidth: "the console",
		MaxSurge: nodegroup.Quantity{N: 2, PerZone: true}, SurgeCoversUnavailable: true, DrainTimeout: nodeLimit, Settle: nodeSettle, DrawsNodes: true,
	}
	if r := &c.plan.Request; c.plan.byOtherCloud() {
		m.MaxSurge, m.SurgeCoversUnavailable, m.DrainTimeout, m.Settle = nodegroup.Quantity{N: r.Surge}, false, r.DrainTimeout.Duration, r.Settle.Duration
		m.DrawsNodes, m.DeletesRest, m.TakesWidth, m.Cancels, m.ChangeWidth = false, true, true, true, ""
	}
	for _, op := range c.cloud.operations {
		if op.shown.After(c.now) || op.lost {
			continue
		}
		m.Operation = nodegroup.Operation{ID: op.id, State: op.state, Kind: "ConfigUpdate", Began: op.began, Force: op.force, Code: op.code, Resources: slices.Clone(op.resources)}
		if op.to != "" {
			m.Operation.To, m.Operation.Kind = revision(op.to), "VersionUpdate"
		}
		if op.state == nodegroup.OperationFailed {
			m.Operation.Failure = op.code + ": see to it"
			m.Operation.Cause = map[string]nodegroup.FailureCause{evictionFailure: nodegroup.DrainFailed, creationFailure: nodegroup.LaunchFailed}[op.code]
		}
	}
	return m
}
