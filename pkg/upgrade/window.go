package upgrade

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// startMoreNodes starts nodes while the window has room: at most maxUnavailable nodes may be between Draining and
// Removing (EKS E40).
func (d *decision) startMoreNodes() {
	d.awaitSilentNodes()
	for d.rec.Stopping == "" && !d.pausing && len(d.count.pending) > 0 && d.awaitWindow(d.leastUnavailableCost()) {
		m := d.chooseOrDrawNode()
		if m == nil {
			d.awaitMissingNodes()
			return
		}
		if !d.awaitWindow(d.unavailableCost(m)) || (d.fencing && m.Node != nil && !d.isFencedByRun(m)) {
			return
		}
		if d.deferForRecord(m) {
			return
		}
		d.startNode(m)
	}
}

// awaitMissingNodes waits until the group has all of its nodes again, for at most the boot timeout. It is called when
// no further node may be started: workloads may wait for pods that are Pending because nodes are missing.
func (d *decision) awaitMissingNodes() {
	lacks := d.rec.Ledger.PendingLaunches() > 0 || d.countUnavailable() > 0
	if d.w.Group.Can.Resize && lacks && d.rec.CountInFlight() == 0 && !d.rec.Request.IsFilledByAutoscaler() && !d.deferStarts() {
		d.awaitReplacement()
	}
}

// chooseOrDrawNode returns the node to start next, or nil if none may be started now. It is the node that loses the least time.
// In the forecast of a cloud that picks nodes at random, it is the next node of a random order (EKS E40).
func (d *decision) chooseOrDrawNode() *nodegroup.Member {
	if d.w.OrderSeed == 0 || d.deferStarts() {
		return d.chooseNextNode()
	}
	return slices.MinFunc(d.count.pending, func(a, b *nodegroup.Member) int {
		return cmp.Compare(drawPlace(a.Name(), d.w.OrderSeed), drawPlace(b.Name(), d.w.OrderSeed))
	})
}

// drawPlace returns the node's place in the random order of the seed.
func drawPlace(name string, seed uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", seed, name)
	return h.Sum64()
}

// awaitWindow waits until one more node may be started: the window is not full, the group would not lack more than
// maxUnavailable nodes, and the batch or zone turn is not about to end. price is how many serving nodes the start takes
// away.
func (d *decision) awaitWindow(price int) (open bool) {
	req, busy := &d.rec.Request, d.rec.CountInFlight()
	if req.BatchBarrier && busy > 0 && d.rec.Begun%req.Window == 0 {
		d.setWaiting("the batch to end")
		return false
	}
	if d.isTurnEnding() {
		d.setWaiting("zone " + d.rec.Turn + " to end")
		if busy == 0 {
			d.awaitReplacement()
		}
		return false
	}
	window, unavailable := req.Window, req.MaxUnavailable
	if unready := d.count.unready; unready > 0 {
		// Unready current nodes from before the upgrade count as unavailable, but never stop the upgrade entirely.
		window, unavailable = max(1, window-unready), min(unavailable, max(1, unavailable-unready))
	}
	if busy >= window {
		return false
	}
	// Nodes that an autoscaler adds during the upgrade serve, but the upgrade may not count on them. So the ledger
	// limits the start as well.
	spent := d.w.Group.Can.Resize && d.rec.Ledger.ConfirmedSurge()-d.rec.CountDraining() <= -req.MaxUnavailable
	if spent || busy+price+d.countMissingNodes() > unavailable {
		d.awaitReplacement()
		return false
	}
	return true
}

// unavailableCost returns how many serving nodes are lost when the member is started: 0 if it does not serve and will
// not serve again soon, otherwise 1.
func (d *decision) unavailableCost(m *nodegroup.Member) int { return d.rankCost()(m) }

// rankCost returns the function unavailableCost, for calls with many members at the same moment.
func (d *decision) rankCost() func(*nodegroup.Member) int {
	urgencyOf := d.rankUrgency()
	return func(m *nodegroup.Member) int {
		if urgencyOf(m) < urgencies-1 && d.returnsUntil(m).IsZero() {
			return 0
		}
		return 1
	}
}

// leastUnavailableCost returns the lowest unavailableCost of the nodes that are still to be started.
func (d *decision) leastUnavailableCost() int {
	costOf := d.rankCost()
	if slices.ContainsFunc(d.count.pending, func(m *nodegroup.Member) bool { return costOf(m) == 0 }) {
		return 0
	}
	return 1
}

// returnsUntil returns when a node that is no longer Ready counts as lost; zero for all other nodes. Until then it may
// be Ready again at any moment, as all nodes are after an API server failure, and so it counts as serving.
func (d *decision) returnsUntil(m *nodegroup.Member) time.Time {
	if m.Node == nil || mayBeBooting(&d.rec, m) {
		return time.Time{}
	}
	if at := lostAt(m.Node); at.After(d.w.Now) {
		return at
	}
	return time.Time{}
}

// awaitSilentNodes schedules a step for the time at which a node that is not Ready counts as lost.
func (d *decision) awaitSilentNodes() {
	for _, m := range d.count.pending {
		if at := d.returnsUntil(m); !at.IsZero() {
			d.requeueAt(at)
		}
	}
}

func (d *decision) awaitReplacement() {
	d.pollCloudSoon(d.describeReplacement() + d.describeUnusableNewNode() + d.describeWorkloadShortfall())
	if d.rec.CountInFlight() > 0 {
		return
	}
	since, read := d.rec.LastChange(), d.w.Group.Observed
	if d.w.Group.Can.Refill == nodegroup.RefillByUser {
		if d.count.Fresh-d.count.Usable < d.countUnavailable() {
			return // a user may add the next node at any time
		}
		since, read = d.noteClosedSince(), d.w.Now // a watch shows new nodes
	}
	deadline := since.Add(d.rec.Request.BootTimeout.Duration)
	if !d.w.Now.Before(deadline) && !read.Before(deadline) {
		d.stopUpgradeWith(record.NodeCreationFailure, d.describeBootFailure(d.count.Usable+d.countUnavailable(), since))
		return
	}
	d.requeueAt(deadline)
}

// describeReplacement returns which new nodes the upgrade waits for: the replacement from the cloud or, without a
// cloud, those that users must bring.
func (d *decision) describeReplacement() string {
	lacking := d.countUnavailable()
	if d.w.Group.Can.Refill != nodegroup.RefillByUser || lacking == 0 {
		return "a replacement to be ready"
	}
	nodes := "1 new node that you add"
	if lacking > 1 {
		nodes = fmt.Sprintf("%d new nodes that you add", lacking)
	}
	if len(d.rec.Request.Current) == 0 {
		return nodes
	}
	return nodes + " with " + labels.FormatLabels(d.rec.Request.Current)
}

// describeWorkloadShortfall names the first workload that lacks ready pods while the user must bring a node; "" if there is none,
// or if the cloud brings the node.
func (d *decision) describeWorkloadShortfall() string {
	if d.w.Group.Can.Refill != nodegroup.RefillByUser {
		return ""
	}
	for _, h := range d.health {
		if h.lacksPods() && !d.rec.Request.IgnoresUnready(h.name) {
			return fmt.Sprintf("; until then %s has %d of %d ready pods", h.name, h.ready, h.before.Ready)
		}
	}
	return ""
}

// noteClosedSince notes and returns since when the owner's new nodes exist while not all of them take pods.
func (d *decision) noteClosedSince() time.Time {
	since := d.w.Notes.ClosedSince.Add(d.w.Idle)
	if d.w.Notes.ClosedSince.IsZero() {
		since = d.w.Now
	}
	d.notes.ClosedSince = since
	return since
}

// recordNodeStart adds the record of a node whose drain begins.
func (d *decision) recordNodeStart(m *nodegroup.Member) record.NodeRecord {
	n := record.NodeRecord{
		Instance: m.Instance.ID, Zone: d.rec.Ledger.ZoneOf(m.Zone()), State: record.NodeDraining,
		Batch: d.rec.Begun/d.rec.Request.Window + 1, Began: d.w.Now,
	}
	if m.Node != nil {
		n.UID = m.Node.UID
		n.Deadline = d.w.Now.Add(d.rec.Request.DrainTimeout.Duration)
	}
	d.rec.Begun++
	d.recordWorkloads(m)
	d.addNodeRecord(m, n)
	d.count.pending = slices.DeleteFunc(d.count.pending, func(p *nodegroup.Member) bool { return p == m })
	d.count.pendingIn[m.Zone()]--
	return n
}

// startNode begins a node's drain.
func (d *decision) startNode(m *nodegroup.Member) {
	d.recordNodeStart(m)
	d.requeueAt(d.w.Now.Add(time.Second))
	d.advanceNode(m.Name())
	if record.IsInDrain(d.rec.Nodes[m.Name()].State) {
		d.plan.AddNode(d.nodeForSchedule(m.Name(), m))
	}
}

// remedyOfRefusedLaunch returns what the user can do about the cloud's refusal of a launch.
func remedyOfRefusedLaunch(answer string) string {
	says := func(words ...string) bool {
		lower := strings.ToLower(answer)
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) })
	}
	switch {
	case says("unauthorized", "not authorized", "accessdenied", "access denied", "forbidden", "permission"):
		return "allow the group's role to launch instances from its launch template"
	case says("capacity", "quota", "limit", "exceeded", "exhausted", "insufficient", "enough", "sold out"):
		return "allow more instance types or zones, or request a higher quota"
	default:
		return "check the group's launch template and its scaling activities"
	}
}

// describeLaunchAnswer returns the cloud's last answer to the first launch with an answer, by key, or "".
func (w *World) describeLaunchAnswer() string {
	for _, key := range slices.Sorted(maps.Keys(w.Open)) {
		attempt := w.Open[key]
		answer := cmp.Or(attempt.Detail, w.Notes.Retries[key].Detail)
		if _, launches := attempt.Action.(nodegroup.AddCapacity); launches && answer != "" {
			return fmt.Sprintf("to %s: %s", attempt.Action, answer)
		}
	}
	return ""
}

// describeBootFailure returns the likely cause, among those that EKS knows, and what to do (EKS E33, E34).
func (d *decision) describeBootFailure(wanted int, since time.Time) string {
	waited := d.w.Now.Sub(since).Round(time.Second)
	head := fmt.Sprintf("after %s %d of %d new nodes are ready", waited, d.count.Usable, wanted)
	if refusal := d.rec.Ledger.LaunchRefusal(); refusal != "" {
		if d.rec.Request.KeepMax && d.w.Group.Desired >= d.w.Group.Max {
			return head + ": " + refusal + ": raise the group's max or remove --keep-max"
		}
		return head + ": " + refusal + ": " + remedyOfRefusedLaunch(refusal)
	}
	if f := d.w.Group.LaunchFailure; f.Message != "" && f.At.After(d.rec.Started) {
		return head + ": " + f.Message + ": " + remedyOfRefusedLaunch(f.Message)
	}
	for _, m := range d.rec.NewMembers(d.w.Members) {
		if why := d.describeUnusable(m); why != "" {
			return head + ": " + why
		}
	}
	if open := d.rec.Ledger.OpenLaunches(); open > 0 {
		if answer := d.w.describeLaunchAnswer(); answer != "" {
			return head + ": " + answer
		}
		return head + fmt.Sprintf(": the cloud has not answered %d launches: check that it can be reached", open)
	}
	return head + ": check the group's scaling activities"
}

// assignTurn gives the turn, and all of the surge, to the next zone when the nodes of the zone before are replaced (GKE
// G13, G14). It gives no turn if the cloud chooses the zones of new nodes: the zones would become uneven, because nodes
// added in one zone would be given back in another.
func (d *decision) assignTurn() {
	if !d.rec.Request.TakesTurns() {
		return
	}
	if d.rec.Ledger.Zonal() || !d.w.Group.Can.Resize {
		d.rec.Turn = d.chooseTurnZone()
		d.count.turn = &d.rec.Turn
	}
	d.bookKeeper().AssignAllSurge(d.rec.Ledger.ZoneOf(d.rec.Turn))
}

// chooseTurnZone returns the zone whose turn it is. The zone keeps its turn while it has outdated nodes or lacks replacements.
func (d *decision) chooseTurnZone() string {
	turn := d.rec.Turn
	if d.count.pendingIn[turn] > 0 {
		return turn
	}
	for _, name := range d.rec.StartedNames() {
		n := d.rec.Nodes[name]
		if m := d.count.byName[name]; m != nil && (record.IsInDrain(n.State) || (n.State == record.NodeRemoving && !n.Landed)) {
			return m.Zone() // the turn is unknown if the record was lost
		}
	}
	if d.countMissingNodes() > 0 || d.rec.Ledger.PendingLaunches() > 0 || len(d.count.pendingIn) == 0 {
		return turn
	}
	return slices.Min(slices.Collect(maps.Keys(d.count.pendingIn)))
}

// isTurnEnding reports whether the current zone has no node to start any more.
func (d *decision) isTurnEnding() bool {
	return d.count.turn != nil && d.count.pendingIn[*d.count.turn] == 0
}

// countMissingNodes returns how many nodes the group lacks before the next may be started. Launched Spot nodes count as
// present where GKE does not wait for them (GKE G23).
func (d *decision) countMissingNodes() int {
	lacking := d.countUnavailable()
	if d.skipsSurgeWait() {
		lacking -= d.count.Fresh - d.count.Usable
	}
	return lacking
}

// skipsSurgeWait reports whether the upgrade does not wait for new nodes.
func (d *decision) skipsSurgeWait() bool { return d.w.Group.Spot && d.rec.Request.TakesTurns() }

// maxCandidates limits how many of the next nodes are compared before one is started. See
// docs/internals/eviction-order.md.
const maxCandidates = 32

// listCandidates returns the pending members that may be started now, the best first. Members that do not serve come
// first, ordered by urgency, because no workload loses anything with them. Otherwise the zone with the most outdated
// nodes is next, so that all zones finish at about the same time. Equal members are ordered by name.
func (c *memberCounts) listCandidates(zonal bool, urgencyOf func(*nodegroup.Member) int, deferDrain func(*nodegroup.Member) bool) []*nodegroup.Member {
	type ranked struct {
		*nodegroup.Member
		urgency, left int
	}
	var order []ranked
	var seen [urgencies]zoneCounts
	for _, m := range c.pending {
		if c.turn != nil && m.Zone() != *c.turn {
			continue
		}
		urgency := urgencyOf(m)
		before := seen[urgency].countsOf(m.Zone())
		if before.all < maxCandidates && !deferDrain(m) {
			order = append(order, ranked{m, urgency, c.pendingIn[m.Zone()] - before.all})
		}
		before.all++
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(a.urgency, b.urgency),
			cmp.Compare(b.left, a.left),
			cmp.Compare(a.Zone(), b.Zone()),
			cmp.Compare(a.Name(), b.Name()),
		)
	})
	// The eviction plan chooses among the first and its equals. A group that replaces nodes by itself keeps its zones in
	// balance only if they take turns.
	var candidates []*nodegroup.Member
	for _, m := range order[:min(len(order), maxCandidates)] {
		if first := order[0]; first.urgency == m.urgency && (zonal || c.pendingIn[first.Zone()] == c.pendingIn[m.Zone()]) {
			candidates = append(candidates, m.Member)
		}
	}
	return candidates
}

// urgencies is the number of urgency levels.
const urgencies = 4

func (d *decision) urgencyOf(m *nodegroup.Member) int { return d.rankUrgency()(m) }

// rankUrgency returns the function urgencyOf, for calls with many members at the same moment.
func (d *decision) rankUrgency() func(*nodegroup.Member) int {
	replaces := d.rec.Ledger.Carried()+d.rec.Ledger.Replaced() > 0
	return func(m *nodegroup.Member) int {
		switch {
		case m.Node == nil:
			return 0
		case !m.IsReady():
			return 1
		case replaces && d.isArriving(m):
			return 2
		default:
			return 3
		}
	}
}
