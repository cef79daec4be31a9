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
	// operationDrainLimit is how long the operation tries to drain a node (EKS E41). operationSettle is how long it waits after the
	// node is empty (EKS E44).
	operationDrainLimit, operationSettle = 15 * time.Minute, time.Minute
	// operationBootLimit is how long the operation waits for new nodes.
	operationBootLimit = 20 * time.Minute

	evictionFailure = "PodEvictionFailure"
	creationFailure = "NodeCreationFailure"
)

// operation is a change of the group that its cloud carries out by itself: an upgrade to a revision, or a change of the configuration.
type operation struct {
	id, token string
	// revision is the new revision; "" for a change of the configuration. from is the revision of the group before.
	revision  string
	from      string
	force     bool
	state     nodegroup.OperationState
	code      string
	resources []string
	// shownFrom is the time from which readings show the operation.
	began, shownFrom time.Time
	// hidden is true while readings do not show the operation. hiddenAt is when they first stopped showing it.
	hidden   bool
	hiddenAt time.Time
	// before contains the instances from before the operation, for whose nodes it does not wait.
	before map[string]bool
	// waitsForNodesSince is the time since when the operation waits for new nodes.
	waitsForNodesSince time.Time
	// blue is how far it is if it is blue-green.
	blue blueGreenState
	// drainingSince is, by instance, the time since when the operation drains it. emptySince is the time since when it has no pods.
	drainingSince, emptySince map[string]time.Time
}

func (o *operation) isRunning() bool { return o.state == nodegroup.OperationRunning }

// delegate starts an operation for a request to upgrade the group. EKS starts no second operation for a known token. The other cloud
// has no tokens: it refuses a request with an old etag.
func (c *cluster) delegate(a nodegroup.Delegate) error {
	if c.plan.isOtherCloud() {
		return c.delegateByEtag(a)
	}
	for _, op := range c.cloud.operations {
		if op.token != a.Token {
			continue
		}
		if op.revision != a.To.ID || op.force != a.Force {
			return errCloud(nodegroup.OutcomeFatal, "the token was used for another request, to %s (forbidden)", op.revision)
		}
		return nil
	}
	if c.drawFault(Forbidden) {
		return errCloud(nodegroup.OutcomeFatal, "not authorized (forbidden)")
	}
	if c.runningOperation() != nil {
		return errCloud(nodegroup.OutcomeMoved, "another update is under way (ResourceInUseException)")
	}
	c.startOperation(operation{revision: a.To.ID, force: a.Force, token: a.Token})
	return nil
}

// delegateByEtag starts an operation of the other cloud. A rollback goes back to the revision from before the last upgrade, if that was
// cancelled or failed. It changes nothing if the last upgrade succeeded. As for GKE, the provider asks for a rollback only if it goes to
// the target.
func (c *cluster) delegateByEtag(a nodegroup.Delegate) error {
	switch {
	case c.drawFault(Forbidden):
		return errCloud(nodegroup.OutcomeFatal, "not authorized (forbidden)")
	case c.runningOperation() != nil:
		return errCloud(nodegroup.OutcomeLater, "the cluster is running an incompatible operation")
	case a.Etag != c.etag() && !a.Rollback:
		return errCloud(nodegroup.OutcomeMoved, "the etag is not the current one (ABORTED)")
	}
	to := a.To.ID
	for _, op := range c.cloud.operations {
		switch {
		case !a.Rollback || op.revision == "":
		case op.state == nodegroup.OperationSucceeded && op.from == a.To.ID:
			to = op.revision
		default: // if it would go elsewhere, the provider asks for an upgrade
			to = a.To.ID
		}
	}
	c.startOperation(operation{revision: to, force: a.Force, token: a.Token, blue: blueGreenState{isRollback: a.Rollback}})
	return nil
}

// etag returns the version of the group's settings. Each start and each end of an operation changes it.
func (c *cluster) etag() string {
	changes := len(c.cloud.operations)
	for _, op := range c.cloud.operations {
		if !op.isRunning() {
			changes++
		}
	}
	return fmt.Sprintf("e%d", changes)
}

// cancelOperation ends an operation up to a minute after the request. Nodes that are being drained may become schedulable again.
func (c *cluster) cancelOperation(a nodegroup.CancelOperation) error {
	op := c.runningOperation()
	switch {
	case !c.plan.isOtherCloud():
		return errCloud(nodegroup.OutcomeFatal, "operations cannot be cancelled (forbidden)")
	case op == nil || op.id != a.Operation:
		return errCloud(nodegroup.OutcomeMoved, "operation %s is over", a.Operation)
	case op.blue.deletes:
		return errCloud(nodegroup.OutcomeLater, "operation %s deletes the outdated nodes", a.Operation) // GKE G53
	}
	c.after(c.drawUpTo(time.Minute), func() { c.endOperation(op, nodegroup.OperationCancelled, "") })
	return nil
}

// cloudSurge returns the number of nodes that the group's own cloud adds at most before it drains nodes.
func (p *Plan) cloudSurge() int {
	if p.isOtherCloud() {
		return p.Request.Surge
	}
	return max(2*p.Zones, p.Request.MaxUnavailable)
}

func (c *cluster) runningOperation() *operation {
	if ops := c.cloud.operations; len(ops) > 0 && ops[len(ops)-1].isRunning() {
		return ops[len(ops)-1]
	}
	return nil
}

// startOperation starts an operation and draws its faults. Readings may show the operation late.
func (c *cluster) startOperation(o operation) {
	op := &o
	op.id, op.state, op.began, op.shownFrom = fmt.Sprintf("u%d", len(c.cloud.operations)+1), nodegroup.OperationRunning, c.now, c.now
	op.from = c.cloud.pointed
	op.drainingSince, op.emptySince, op.before = map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}
	for id := range c.cloud.instances {
		op.before[id] = true
	}
	if c.drawFault(OperationHidden) {
		op.shownFrom = c.now.Add(c.drawUpTo(2 * time.Minute))
	}
	c.cloud.operations = append(c.cloud.operations, op)
	if op.revision == "" {
		c.after(c.drawUpTo(5*time.Minute), func() { c.endOperation(op, nodegroup.OperationSucceeded, "") })
		return
	}
	if c.drawFault(OperationOvertaken) {
		c.overtakeOperation(op)
		return
	}
	if c.drawFault(OperationFails) {
		code := []string{"InsufficientFreeAddresses", "AccessDenied", "ClusterUnreachable", evictionFailure, creationFailure}[c.rng.IntN(5)]
		c.after(c.drawUpTo(30*time.Minute), func() { c.endOperation(op, nodegroup.OperationFailed, code) })
	}
	if c.drawFault(OperationCancelled) {
		c.after(c.drawUpTo(30*time.Minute), func() { c.endOperation(op, nodegroup.OperationCancelled, "") })
	}
	if c.drawFault(OperationShort) {
		c.after(c.drawUpTo(30*time.Minute), func() { c.endOperation(op, nodegroup.OperationSucceeded, "") })
	}
	if c.drawFault(OperationLost) {
		c.after(c.drawUpTo(30*time.Minute), func() { c.hideOperation(op) })
	}
	c.after(c.drawUpTo(time.Minute), func() { c.addOperationSurge(op) })
}

// overtakeOperation makes an operation fail at once. Before a reading shows the failure, an actor changes the group's
// configuration. In half of the cases, later readings do not show that change while it is carried out.
func (c *cluster) overtakeOperation(op *operation) {
	c.endOperation(op, nodegroup.OperationFailed, "AccessDenied")
	op.shownFrom = c.now.Add(time.Second)
	c.after(time.Second, func() {
		if c.runningOperation() != nil {
			return
		}
		c.startOperation(operation{})
		if change := c.runningOperation(); c.chance(50) {
			c.after(c.drawUpTo(time.Minute), func() { c.hideOperation(change) })
		}
	})
}

// hideOperation hides an operation from readings, for good or for up to 10 minutes. The operation continues.
func (c *cluster) hideOperation(op *operation) {
	op.hidden, op.hiddenAt = true, c.now
	if c.chance(50) {
		c.after(c.drawUpTo(10*time.Minute), func() { op.hidden = false })
	}
}

// endOperation ends a running operation. EKS does not document whether fenced nodes stay fenced after a failure. Here this is random.
func (c *cluster) endOperation(op *operation, state nodegroup.OperationState, code string) {
	if !op.isRunning() {
		return
	}
	op.state, op.code = state, code
	if code == evictionFailure {
		for _, id := range sortedKeys(op.drainingSince) {
			if i := c.cloud.instances[id]; i != nil && c.chance(50) {
				id = c.nodeNameOf(i)
			}
			op.resources = append(op.resources, id)
		}
	}
	if state == nodegroup.OperationSucceeded || c.chance(50) {
		return
	}
	for _, i := range c.cloud.liveInstances() {
		c.changeNode(c.nodeNameOf(i), func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t == fenceTaint(c.plan.Provider) })
		})
	}
}

// addOperationSurge adds the surge nodes, except under MINIMAL, and begins the replacement (EKS E02, E03, E09, E21).
func (c *cluster) addOperationSurge(op *operation) {
	if !op.isRunning() {
		return
	}
	k := &c.cloud
	k.pointed, op.waitsForNodesSince = op.revision, c.now
	if c.plan.isCloudBlueGreen() {
		c.beginBlueGreen(op)
		return
	}
	if surge := min(c.plan.cloudSurge(), len(c.outdatedFor(op))) - k.extra; surge > 0 && !c.plan.Minimal {
		k.extra, k.desired, k.max = k.extra+surge, k.desired+surge, k.max+surge
	}
	c.reconcileSize()
	c.advanceOperation(op)
}

func (c *cluster) outdatedFor(op *operation) []*instance {
	return slices.DeleteFunc(c.cloud.liveInstances(), func(i *instance) bool { return i.revision == op.revision })
}

// advanceOperation carries out one step of the operation, and schedules the next step.
func (c *cluster) advanceOperation(op *operation) {
	if !op.isRunning() {
		return
	}
	old, up := c.outdatedFor(op), c.areNewNodesUp(op)
	switch {
	case up:
		op.waitsForNodesSince = c.now
	case c.now.Sub(op.waitsForNodesSince) > operationBootLimit:
		c.endOperation(op, nodegroup.OperationFailed, creationFailure)
		return
	}
	if up && len(old) == 0 {
		c.removeOperationSurge(op)
		return
	}
	if up || len(op.drainingSince) > 0 {
		c.drainOldNodes(op, old, up)
	}
	c.after(operationTick, func() { c.advanceOperation(op) })
}

// areNewNodesUp reports whether the group has its full size, and all nodes that were launched since the operation began are Ready and
// labelled (EKS E26, E27).
func (c *cluster) areNewNodesUp(op *operation) bool {
	living := c.cloud.liveInstances()
	return len(living) >= c.cloud.desired && !slices.ContainsFunc(living, func(i *instance) bool {
		node := c.nodes[c.nodeNameOf(i)]
		return i.revision == op.revision && !op.before[i.id] && (node == nil || !isNodeReady(node) || node.Labels[imageLabel] == "")
	})
}

// drainOldNodes keeps pods off all old nodes. If mayDrainMore is true, it picks up to MaxUnavailable nodes at random. It drains the
// picked nodes (EKS E30, E40). MINIMAL keeps pods off a node only when it drains the node (EKS E50).
func (c *cluster) drainOldNodes(op *operation, old []*instance, mayDrainMore bool) {
	for _, n := range c.rng.Perm(len(old)) {
		i := old[n]
		_, begun := op.drainingSince[i.id]
		if !begun && mayDrainMore && len(op.drainingSince) < c.plan.Request.MaxUnavailable {
			op.drainingSince[i.id], begun = c.now, true
		}
		if begun || !c.plan.Minimal {
			c.keepPodsOff(c.nodeNameOf(i))
		}
	}
	for _, id := range sortedKeys(op.drainingSince) {
		if i := c.cloud.instances[id]; i == nil || i.leaving {
			delete(op.drainingSince, id)
		} else if op.isRunning() {
			c.drainNode(op, i)
		}
	}
}

// keepPodsOff keeps new pods off a node, by the taint under MINIMAL and by a cordon otherwise. EKS does not document which one it
// uses.
func (c *cluster) keepPodsOff(name string) {
	if node := c.nodes[name]; node == nil || nodegroup.IsClosed(node) {
		return
	}
	c.changeNode(name, func(n *corev1.Node) {
		if n.Spec.Unschedulable = !c.plan.Minimal; c.plan.Minimal {
			n.Spec.Taints = append(slices.Clone(n.Spec.Taints), fenceTaint(c.plan.Provider))
		}
	})
}

// drainNode evicts the pods of a node until the drain limit. After that, the operation fails or, with force, deletes the pods. A node
// without pods is replaced after the settle time (EKS E41 to E44).
func (c *cluster) drainNode(op *operation, i *instance) {
	name := c.nodeNameOf(i)
	left := c.podsToLeave(name)
	emptied, empty := op.emptySince[i.id]
	late := c.now.Sub(op.drainingSince[i.id]) >= c.plan.Request.DrainTimeout.Duration
	switch {
	case empty && c.now.Sub(emptied) >= c.plan.Request.Settle.Duration:
		c.replaceInstance(op, i)
	case empty:
	case len(left) == 0:
		op.emptySince[i.id] = c.now
	case late && op.force:
		op.emptySince[i.id] = c.now
		for _, pod := range left {
			c.deletePod(pod.UID)
		}
	case late:
		c.endOperation(op, nodegroup.OperationFailed, evictionFailure)
	default:
		for _, pod := range left {
			if pod.DeletionTimestamp == nil {
				_ = c.evictPod(schedule.Eviction{Pod: pod.Name, UID: pod.UID, Node: name}) // the next step repeats a refused eviction
			}
		}
	}
}

// podsToLeave returns the pods that must leave a node before the cloud terminates it.
func (c *cluster) podsToLeave(name string) []*corev1.Pod {
	lost := isSilent(c.nodes[name], c.now)
	return slices.DeleteFunc(c.podsOn(name), func(pod *corev1.Pod) bool { return !mustLeave(pod, lost) })
}

// replaceInstance terminates an old instance. The last replacements also shrink the group to its earlier size (EKS E48, E60).
func (c *cluster) replaceInstance(op *operation, i *instance) {
	k := &c.cloud
	if k.extra >= len(c.outdatedFor(op)) {
		k.desired, k.max, k.extra = k.desired-1, k.max-1, k.extra-1
	}
	delete(op.drainingSince, i.id)
	c.endInstance(i)
	c.reconcileSize()
}

// removeOperationSurge removes the rest of the surge, and ends the operation up to two minutes later.
func (c *cluster) removeOperationSurge(op *operation) {
	k := &c.cloud
	k.desired, k.max, k.extra = k.desired-k.extra, k.max-k.extra, 0
	c.reconcileSize()
	c.after(c.drawUpTo(2*time.Minute), func() { c.endOperation(op, nodegroup.OperationSucceeded, "") })
}

// managedGroup returns the cloud's settings for upgrades, and the newest operation that readings show.
func (c *cluster) managedGroup() *nodegroup.Managed {
	m := &nodegroup.Managed{
		MaxUnavailable: nodegroup.Quantity{N: c.plan.Request.MaxUnavailable}, TerminateFirst: c.plan.Minimal, ChangeWidth: "the console",
		MaxSurge: nodegroup.Quantity{N: 2, PerZone: true}, SurgeCoversUnavailable: true, DrainTimeout: operationDrainLimit, Settle: operationSettle, DrawsNodes: true,
	}
	if r := &c.plan.Request; c.plan.isOtherCloud() {
		m.MaxSurge, m.SurgeCoversUnavailable, m.DrainTimeout, m.Settle = nodegroup.Quantity{N: r.Surge}, false, r.DrainTimeout.Duration, r.Settle.Duration
		m.DrawsNodes, m.DeletesRest, m.TakesWidth, m.Cancels, m.RollsBack, m.ChangeWidth, m.Etag = false, true, true, true, true, "", c.etag()
		m.EndsSoaks, m.TakesRollout, m.Rollout = true, true, c.plan.rolloutOfGroup()
	}
	for _, op := range c.cloud.operations {
		if op.shownFrom.After(c.now) || op.hidden {
			continue
		}
		m.Operation = nodegroup.Operation{ID: op.id, State: op.state, Kind: "ConfigUpdate", Began: op.began, SoaksUntil: op.soakEnd(c.now), Soaks: !op.soakEnd(c.now).IsZero(), Deletes: op.isRunning() && op.blue.deletes, Force: op.force, Code: op.code, Resources: slices.Clone(op.resources)}
		if op.revision != "" {
			m.Operation.To, m.Operation.Kind = revisionOf(op.revision), "VersionUpdate"
		}
		if op.state == nodegroup.OperationFailed {
			m.Operation.Failure = op.code + ": see to it"
			m.Operation.Cause = map[string]nodegroup.FailureCause{evictionFailure: nodegroup.DrainFailed, creationFailure: nodegroup.LaunchFailed}[op.code]
		}
	}
	return m
}
