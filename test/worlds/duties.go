package worlds

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// maxEvictionsPerBudget is how many evictions of one budget may be in flight at the same time (Kubernetes K06).
	maxEvictionsPerBudget = 4
	// evictionInterval is the shortest time between two evictions of one budget.
	evictionInterval = 100 * time.Millisecond
	// evictionsAtOnce is how many evictions a process has in flight, of all budgets together.
	evictionsAtOnce = 5
	// visibleWithin is how long an accepted request may take to become visible.
	visibleWithin = 30 * time.Second
)

// dutyState is the state of the rules about the order of nodes and about time limits.
type dutyState struct {
	// batches contains the names of the nodes of each batch.
	batches map[int]map[string]bool
	// budgetOf is the budget that each eviction uses, by the action's key. sentPerBudget counts the evictions of one step.
	budgetOf      map[string]string
	sentPerBudget map[string]int
	// waited is, by node UID, how long this process has seen the node wait only for other nodes. waitingAt is when it last saw that.
	waited, waitingAt map[types.UID]time.Duration
	// unanswered contains the keys of launches whose answer was lost, to this process or to the previous one.
	unanswered map[string]bool
	// stopped is true after the upgrade began to stop before its goal.
	stopped bool
}

func newDutyState() dutyState {
	return dutyState{batches: map[int]map[string]bool{}, budgetOf: map[string]string{}, sentPerBudget: map[string]int{}, unanswered: map[string]bool{}}
}

// resetWaits forgets the waits that the previous process saw.
func (d *dutyState) resetWaits() {
	d.waited, d.waitingAt = map[types.UID]time.Duration{}, map[types.UID]time.Duration{}
}

// checkOrderAndPatience checks one decision against the rules about the order of nodes and about time limits.
func (r *rules) checkOrderAndPatience(p *process, w *upgrade.World, step *upgrade.Step) {
	r.duties.stopped = r.duties.stopped || step.Record.Stopping != ""
	clear(r.duties.sentPerBudget)
	r.checkSurgeDistribution(w, step)
	r.checkStartedNodes(w, step)
	r.checkNodeTime(p, w, step)
	r.noteUnanswered(w, step)
	for _, action := range step.Actions {
		r.checkQuiesced(action)
	}
	if !w.Now.Equal(r.c.now) {
		return // answers may have arrived after the decision, while the record was stored
	}
	for _, action := range step.Actions {
		r.checkRetry(p, w, action)
	}
	for _, a := range w.Open {
		switch a.Action.(type) {
		case nodemark.HoldNode, schedule.Restart:
			continue // the upgrade continues without these optional actions
		}
		if a.Outcome == nodegroup.OutcomeFatal && !a.InFlight && step.Record.Stopping == "" && step.Record.Result == "" {
			r.fail("fatal", "to %s was refused for good, but the upgrade continues", a.Action)
		}
	}
}

// noteUnanswered records the launches whose answer was lost, or was not received by the previous process.
func (r *rules) noteUnanswered(w *upgrade.World, step *upgrade.Step) {
	for key, a := range w.Open {
		if a.Outcome == nodegroup.OutcomeUnclear {
			r.duties.unanswered[key] = true
		}
	}
	for _, action := range step.Actions {
		if a, launch := action.(nodegroup.AddCapacity); launch && w.Open[a.Key()].Begun.IsZero() && slices.ContainsFunc(w.Record.Ledger.Books().Zones[a.Zone].Open, func(l ledger.Launch) bool {
			return ledger.Token(w.Record.Run, a.Zone, l.Serial) == a.Token
		}) {
			r.duties.unanswered[a.Key()] = true
		}
	}
}

// checkRetry checks that an action is not repeated while it is in flight, shortly after it was accepted, or before its retry is due.
func (r *rules) checkRetry(p *process, w *upgrade.World, action nodegroup.Action) {
	before, begun := p.open[action.Key()]
	add, launch := action.(nodegroup.AddCapacity)
	switch {
	case !begun && launch:
		r.checkRelaunch(p, w, add)
	case !begun:
	case before.InFlight:
		r.fail("I10", "%s is begun while it is in flight", action)
	case before.Outcome == nodegroup.OutcomeDone && w.Now.Sub(before.Ended) < visibleWithin:
		r.fail("I10", "%s is begun again %s after it was accepted", action, w.Now.Sub(before.Ended))
	case before.Outcome == nodegroup.OutcomeLater || before.Outcome == nodegroup.OutcomeUnclear || before.Outcome == nodegroup.OutcomeExhausted:
		if w.Now.Before(before.NotBefore) {
			r.fail("backoff", "%s is begun again %s too soon", action, before.NotBefore.Sub(w.Now))
		}
	}
}

// checkRelaunch checks a new launch against the last answer in its zone. After a zone had no capacity, the upgrade waits before the
// next launch. A launch without a zone may be refused because an earlier launch without an answer changed the group's size. Before the
// next launch, the upgrade must read the group again.
func (r *rules) checkRelaunch(p *process, w *upgrade.World, add nodegroup.AddCapacity) {
	var last nodegroup.Attempt
	for _, before := range p.open {
		if other, ok := before.Action.(nodegroup.AddCapacity); ok && other.Zone == add.Zone && before.Ended.After(last.Ended) {
			last = before
		}
	}
	switch since := w.Now.Sub(last.Ended); {
	case last.Outcome == nodegroup.OutcomeExhausted && since < probeInterval:
		r.fail("backoff", "%s is begun %s after the zone was full", add, since)
	case last.Action == nil:
	case last.Outcome == nodegroup.OutcomeMoved && r.duties.unanswered[last.Action.Key()] && add.Zone == "" && !w.Group.Observed.After(last.Ended.Add(visibleWithin)):
		r.fail("I9", "%s is begun, but the group was read only %s after the last launch was refused", add, w.Group.Observed.Sub(last.Ended))
	}
}

// checkQuiesced checks S4: before the upgrade changes the group, it suspends the processes by which the cloud changes the group. It
// checks nothing after a stop.
func (r *rules) checkQuiesced(action nodegroup.Action) {
	if !r.undisturbed || !r.c.plan.hasSize() || r.duties.stopped {
		return
	}
	switch action.(type) {
	case nodegroup.AddCapacity, nodemark.Fence, nodemark.StartDrain, nodegroup.Terminate:
		if !slices.Contains(r.c.cloud.suspended, rebalance) {
			r.fail("S4", "%s, but %s is not suspended", action, rebalance)
		}
		if r.c.plan.keepsTarget() && !slices.Contains(r.c.cloud.suspended, alarm) {
			r.fail("G42", "%s, but %s is not suspended", action, alarm)
		}
	}
}

// checkSurgeDistribution checks E20 and E25: the surge is distributed over the zones in turn, and no zone gets more than it has
// outdated nodes.
func (r *rules) checkSurgeDistribution(w *upgrade.World, step *upgrade.Step) {
	if w.Record.Run != "" || step.Record.Run == "" || !r.c.plan.namesZones() {
		return
	}
	outdated := map[string]int{}
	for i := range w.Members {
		if m := &w.Members[i]; m.Outdated && m.Instance.State != nodegroup.InstanceLeaving {
			outdated[m.Instance.Zone]++
		}
	}
	zones := step.Record.Ledger.Books().Zones
	surge := func(zone string) int { return zones[zone].Surge }
	for _, zone := range sortedKeys(outdated) {
		most := outdated[zone]
		if surge(zone) > most {
			r.fail("E20", "zone %s gets %d surge nodes for %d outdated nodes", zone, surge(zone), most)
		}
		for _, other := range sortedKeys(outdated) {
			if surge(other) > surge(zone)+1 && surge(zone) < most && !r.c.plan.zonesTakeTurns() {
				r.fail("E25", "zone %s gets %d surge nodes, and zone %s gets %d for %d outdated nodes", other, surge(other), zone, surge(zone), most)
			}
		}
	}
}

// checkEvictionRate checks K06: at most maxEvictionsPerBudget evictions of one budget are in flight at the same time. The next
// eviction is sent after evictionInterval, or after the budget was charged for the previous one.
func (r *rules) checkEvictionRate(p *process, now time.Time, a schedule.Eviction, budget string) {
	r.duties.budgetOf[a.Key()] = budget
	r.duties.sentPerBudget[budget]++
	all := 0
	for _, n := range r.duties.sentPerBudget {
		all += n
	}
	n := r.duties.sentPerBudget[budget]
	hasty := n > 1
	for key, open := range p.open {
		sent, ok := open.Action.(schedule.Eviction)
		if !ok || !open.InFlight {
			continue
		}
		all++
		ago := now.Sub(open.Begun)
		if r.duties.budgetOf[key] == budget && r.c.chargedAt[sent.Pod].Before(r.c.now.Add(-ago)) {
			n++
			hasty = hasty || ago < evictionInterval
		}
	}
	if all > evictionsAtOnce {
		r.fail("K06", "%d evictions are in flight", all)
	}
	if budget == "" {
		return
	}
	if hasty {
		r.fail("K06", "an eviction of budget %s is sent less than %s after the previous one, for which the budget is not yet charged", budget, evictionInterval)
	}
	if n > maxEvictionsPerBudget {
		r.fail("K06", "%d evictions of budget %s are in flight", n, budget)
	}
}

// checkStartedNodes checks the order and the number of the nodes that are started.
func (r *rules) checkStartedNodes(w *upgrade.World, step *upgrade.Step) {
	var started []string
	batch, window := 0, step.Record.Request.Window
	for _, name := range sortedKeys(step.Record.Nodes) {
		n := step.Record.Nodes[name]
		if _, known := w.Record.Nodes[name]; !known && n.Batch > 0 { // surge nodes that are removed have no batch
			started, batch = append(started, name), max(batch, n.Batch)
			r.checkBatchSize(name, n.Batch, window)
		}
	}
	if len(started) == 0 {
		return
	}
	flying := nodesInFlight(&step.Record)
	for _, name := range flying {
		if n := step.Record.Nodes[name]; step.Record.Request.BatchBarrier && n.Batch < batch {
			r.fail("E40", "batch %d is begun before node %s of batch %d has ended", batch, name, n.Batch)
		}
	}
	if unready := countUnreadyCurrent(w); len(flying) > max(1, window-unready) && !isBlueGreen(&step.Record) && !r.c.plan.isAutoscaled() { // these two strategies have batches of the requested size
		r.fail("I1", "%d nodes are in flight and %d other nodes are unready, with a window of %d", len(flying), unready, window)
	}
	if len(nodesInFlight(&w.Record)) == 0 && step.Record.Phase != record.PhaseWait {
		r.checkUnreadyFirst(w, step, started)
	}
}

func (r *rules) checkBatchSize(name string, batch, window int) {
	if r.duties.batches[batch] == nil {
		r.duties.batches[batch] = map[string]bool{}
	}
	r.duties.batches[batch][name] = true
	if n := len(r.duties.batches[batch]); n > window {
		r.fail("E40", "batch %d has %d nodes, with a window of %d", batch, n, window)
	}
}

// nodesInFlight returns the started nodes that count against the window. A node counts until the cloud is known to have begun its
// termination.
func nodesInFlight(rec *record.Record) []string {
	var names []string
	for _, name := range sortedKeys(rec.Nodes) {
		switch n := rec.Nodes[name]; n.State {
		case record.NodeDraining, record.NodeForcing, record.NodeEmpty:
			names = append(names, name)
		case record.NodeRemoving:
			if !n.Landed {
				names = append(names, name)
			}
		}
	}
	return names
}

// countUnreadyCurrent counts the group's nodes that were current before the upgrade and are not ready.
func countUnreadyCurrent(w *upgrade.World) int {
	n := 0
	for i := range w.Members {
		m := &w.Members[i]
		current := !m.Outdated && strings.HasPrefix(m.Name(), "cur-")
		if current && m.Instance.State != nodegroup.InstanceLeaving && !isNodeReady(m.Node) {
			n++
		}
	}
	return n
}

// isRecorded reports whether the record contains the member, by its node's name or by its instance.
func isRecorded(record *record.Record, m *nodegroup.Member) bool {
	for name, n := range record.Nodes {
		if name == m.Name() || n.Instance == m.Instance.ID && m.Instance.ID != "" {
			return true
		}
	}
	return false
}

func hasReadyNode(m *nodegroup.Member) bool { return m.Node != nil && isNodeReady(m.Node) }

// checkUnreadyFirst checks that outdated nodes that are not Ready are started before others. A node may have to wait for its zone's
// turn, or for a workload that must first become ready on other nodes.
func (r *rules) checkUnreadyFirst(w *upgrade.World, step *upgrade.Step, started []string) {
	idle := ""
	for i := range w.Members {
		m := &w.Members[i]
		if !m.Outdated || hasReadyNode(m) || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if slices.Contains(started, m.Name()) {
			return
		}
		if awaitsTurn := step.Record.Turn != "" && m.Zone() != step.Record.Turn; !awaitsTurn && !isRecorded(&step.Record, m) && !r.waitsForWorkload(&step.Record, m) {
			idle = m.Name()
		}
	}
	if idle != "" {
		r.fail("order", "nodes %v are started before node %s, which is not Ready", started, idle)
	}
}

// waitsForWorkload reports whether a workload with pods on the member has not yet recovered: it has fewer ready pods than before, or
// no pod of it has become ready on a node that stays.
func (r *rules) waitsForWorkload(record *record.Record, m *nodegroup.Member) bool {
	return slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool {
		app := r.c.controllers[pod.Labels["app"]]
		known, lost := record.Workloads[app.id().String()]
		return lost && (!known.Proven || known.Lacks > 0)
	})
}

// checkZonesEven checks that rebalancing is resumed only if it would not terminate nodes. The sizes of the zones must differ by at
// most one node, or by no more than before the upgrade.
func (r *rules) checkZonesEven(p *process, w *upgrade.World, a nodegroup.Resume) {
	if _, again := p.open[a.Key()]; again || !slices.Contains(a.Processes, rebalance) {
		return // the zones may have changed since the first try
	}
	zones := map[string]int{}
	for i := range w.Group.Instances {
		if instance := &w.Group.Instances[i]; instance.State != nodegroup.InstanceLeaving && instance.State != nodegroup.InstanceStandby {
			zones[instance.Zone]++
		}
	}
	if now, first := r.zoneSpread(zones), r.zoneSpread(r.zones); now > max(1, first) {
		r.fail("E20", "%s, and the zones are %v and were %v", a, zones, r.zones)
	}
}

// zoneSpread returns by how many nodes the group's largest zone exceeds its smallest.
func (r *rules) zoneSpread(zones map[string]int) int {
	least, most := zones[zoneName(0)], zones[zoneName(0)]
	for i := range r.c.plan.Zones {
		least, most = min(least, zones[zoneName(i)]), max(most, zones[zoneName(i)])
	}
	return most - least
}
