package report

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// The limits of a history, so that it does not grow without end during an upgrade that takes days.
const (
	maxNodesKept      = 5000
	maxPeriodsKept    = 12
	maxSizesKept      = 300
	maxWaitCausesKept = 100
	// The log keeps its first and its last lines.
	firstLogKept, lastLogKept = 200, 400
)

// minWait is how long a wait must last to be kept, because every drain waits for a short time. Two waits for
// the same thing are merged if the gap between them is no longer than minWait.
const minWait = time.Second

// takeoverDelay is the longest time between the start of an upgrade and its first observed moment. If the time
// is longer, another process had begun the upgrade.
const takeoverDelay = 30 * time.Second

// Period is a time during which a node or a group was in one state.
type Period struct {
	// What is the node state, the phase, or the cause of the wait.
	What string `json:"what"`
	// From is when it began.
	From time.Time `json:"from"`
	// To is when the period ended. A period that is still open ends with the report.
	To time.Time `json:"to"`
}

// NodeHistory is the history of a node whose drain the upgrade started.
type NodeHistory struct {
	// Name is the name of the node, and Zone its zone.
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// State is the node's last state.
	State record.NodeState `json:"state"`
	// States lists the node's states in order of time. Waits lists what its pods waited for.
	States []Period `json:"states,omitempty"`
	Waits  []Period `json:"waits,omitempty"`
	// Reason says why the node was quarantined.
	Reason string `json:"reason,omitempty"`
}

// SizeSample is the size of the group from At until the next sample.
type SizeSample struct {
	// At is when the group reached this size.
	At time.Time `json:"at"`
	// Desired is the group's desired size, 0 for a group without a size. Owed is how many of these nodes the
	// upgrade added.
	Desired int `json:"desired,omitempty"`
	Owed    int `json:"added,omitempty"`
	// New counts the new nodes, NewReady those of them that are ready.
	New      int `json:"new"`
	NewReady int `json:"newReady"`
}

// WaitCause is a budget or another obstacle that nodes waited for.
type WaitCause struct {
	// What is the name of the budget, or the full text of another obstacle.
	What string `json:"what"`
	// For is how long at least one node waited for it. Nodes is how many nodes waited for it.
	For   record.Duration `json:"for"`
	Nodes int             `json:"nodes"`
}

// LogLine is an event of an upgrade with its time.
type LogLine struct {
	// At is when the event was seen; in a simulation, when it would happen.
	At time.Time `json:"at"`
	Event
}

// History collects observations of one upgrade for its report. The zero value is ready to use.
type History struct {
	// First and Last are the times of the first and the last observed moment. They are zero if there was none.
	First, Last time.Time
	// UntimedReplaced counts the nodes that were replaced before the first moment and whose times the record
	// does not have. TakenOver is true if another process had begun the upgrade before the first moment.
	UntimedReplaced int
	TakenOver       bool

	nodes      map[string]*NodeHistory
	phases     []Period
	sizes      []SizeSample
	waitCauses map[string]*waitCauseTotals
	// ready has the workloads that had fewer ready pods than before, by name.
	ready map[string]*ReadyPods
	log   []LogLine
	// logLeftOut counts the log lines that were dropped. nodesLeftOut has the names of the nodes that were
	// dropped.
	logLeftOut   int
	nodesLeftOut map[string]bool
	// nodeSeconds is the sum of the desired size over time. sizedSeconds is how long the desired size was
	// known.
	nodeSeconds, sizedSeconds float64
	last                      Moment
}

// waitCauseTotals adds up the waits for one WaitCause.
type waitCauseTotals struct {
	lasted time.Duration
	nodes  map[string]bool
}

// Observe adds a moment of the upgrade. The first call also adds what the record shows of the time before it.
func (h *History) Observe(now Moment, rec *record.Record) {
	now = now.WithWaitsReportedBy(h.last)
	if h.First.IsZero() {
		h.First = now.At
		h.TakenOver = len(rec.Nodes) > 0 || rec.Replaced > 0 || now.At.Sub(rec.Started) > takeoverDelay
		h.nodes, h.waitCauses, h.nodesLeftOut = map[string]*NodeHistory{}, map[string]*waitCauseTotals{}, map[string]bool{}
		h.ready = map[string]*ReadyPods{}
		h.addGoneNodes(rec)
	}
	for _, event := range DescribeChanges(h.last, now) {
		h.AddEvent(now.At, event)
	}
	if h.last.At.IsZero() { // a wait that has already begun counts from its beginning
		h.addWaitTimes(now.Blocked, func(b *drain.Blocked) time.Time { return b.Since }, now.At)
	} else {
		h.addWaitTimes(h.last.Blocked, func(*drain.Blocked) time.Time { return h.last.At }, now.At)
	}
	h.addNodeStates(now, rec)
	h.updateWaits(now)
	h.addGroupState(now)
	h.addReadyPods(now.At, rec)
	h.last, h.Last = now, now.At
}

// AddEvent adds a line to the log. A long log loses lines in the middle.
func (h *History) AddEvent(at time.Time, event Event) {
	h.log = append(h.log, LogLine{At: at, Event: event})
	if len(h.log) > firstLogKept+lastLogKept {
		h.log = slices.Delete(h.log, firstLogKept, firstLogKept+1)
		h.logLeftOut++
	}
}

// addWaitTimes adds the time from since until now to each cause that pods wait for.
func (h *History) addWaitTimes(blocked []drain.Blocked, since func(*drain.Blocked) time.Time, now time.Time) {
	longest := map[*waitCauseTotals]time.Duration{}
	for i := range blocked {
		b := &blocked[i]
		if from := since(b); !from.IsZero() && now.After(from) {
			of := h.findOrAddWaitCause(nameWaitCause(b))
			longest[of] = max(longest[of], now.Sub(from))
			if b.Node != "" {
				of.nodes[b.Node] = true
			}
		}
	}
	for of, lasted := range longest {
		of.lasted += lasted
	}
}

// findOrAddWaitCause returns the totals of a cause. If there are too many causes, new ones share their totals.
func (h *History) findOrAddWaitCause(what string) *waitCauseTotals {
	of, known := h.waitCauses[what]
	if !known && len(h.waitCauses) >= maxWaitCausesKept {
		what = "others"
		of, known = h.waitCauses[what]
	}
	if !known {
		of = &waitCauseTotals{nodes: map[string]bool{}}
		h.waitCauses[what] = of
	}
	return of
}

// nameWaitCause returns the budget that a blocked pod waits for, or the full text of another obstacle.
func nameWaitCause(b *drain.Blocked) string {
	if budget := b.BudgetName(); budget != "" {
		return budget
	}
	return b.String()
}

// addNodeStates updates the states of the nodes. A node that the status no longer lists is gone.
func (h *History) addNodeStates(now Moment, rec *record.Record) {
	for i := range now.Status.Nodes {
		n := &now.Status.Nodes[i]
		if n.State == record.NodePending || n.State == record.NodeFenced {
			continue
		}
		node, known := h.nodes[n.Name]
		if !known {
			if len(h.nodes) >= maxNodesKept {
				h.nodesLeftOut[n.Name] = true
				continue
			}
			node = &NodeHistory{Name: n.Name, Zone: n.Zone}
			h.nodes[n.Name] = node
			if began := rec.Nodes[n.Name]; began.Batch > 0 {
				node.enterRecordedStates(began.Began, began.EmptyAt, began.Terminated, now.At)
			}
		}
		node.enterState(n.State, stateBegan(n.State, rec.Nodes[n.Name], now.At))
		node.Reason = rec.Nodes[n.Name].Reason
	}
	for i := range h.last.Status.Nodes {
		name := h.last.Status.Nodes[i].Name
		if node := h.nodes[name]; node != nil {
			if _, still := now.Status.FindNode(name); !still {
				node.enterState(record.NodeGone, now.At)
			}
		}
	}
}

// addGoneNodes adds the nodes that are gone according to the record.
func (h *History) addGoneNodes(rec *record.Record) {
	for i := range rec.Gone {
		gone := &rec.Gone[i]
		node, known := h.nodes[gone.Name]
		if !known {
			node = &NodeHistory{Name: gone.Name, Zone: gone.Zone}
			h.nodes[gone.Name] = node
		}
		node.enterRecordedStates(gone.Began, gone.EmptyAt, gone.Terminated, gone.Gone)
		node.enterState(record.NodeGone, gone.Gone)
	}
	drained := record.CountNodes(rec, func(n record.NodeRecord) bool { return n.State == record.NodeDrained })
	h.UntimedReplaced = max(0, rec.Replaced-drained-len(rec.Gone))
}

// enterRecordedStates adds the states that a record has from the time before now. A zero time means that the
// state was not observed.
func (n *NodeHistory) enterRecordedStates(draining, empty, removing, now time.Time) {
	for _, state := range []struct {
		is record.NodeState
		at time.Time
	}{{record.NodeDraining, draining}, {record.NodeEmpty, empty}, {record.NodeRemoving, removing}} {
		if !state.at.IsZero() && !state.at.After(now) {
			n.enterState(state.is, state.at)
		}
	}
}

// stateBegan returns when the node entered its state according to its record, or now if the record does not
// have the time.
func stateBegan(state record.NodeState, rec record.NodeRecord, now time.Time) time.Time {
	at := map[record.NodeState]time.Time{record.NodeDraining: rec.Began, record.NodeEmpty: rec.EmptyAt, record.NodeRemoving: rec.Terminated}[state]
	if at.IsZero() || at.After(now) {
		return now
	}
	return at
}

// enterState ends the node's last state and begins a new one. It does nothing if the node is already in that
// state.
func (n *NodeHistory) enterState(state record.NodeState, at time.Time) {
	if n.State == state {
		return
	}
	if last := len(n.States) - 1; last >= 0 && n.States[last].To.IsZero() {
		if at.Before(n.States[last].From) {
			at = n.States[last].From
		}
		n.States[last].To = at
	}
	n.State = state
	switch state {
	case record.NodeGone, record.NodeQuarantined, record.NodeDrained: // the upgrade does nothing more with the node
	default:
		if len(n.States) < maxPeriodsKept {
			n.States = append(n.States, Period{What: string(state), From: at})
		}
	}
}

// updateWaits begins and ends the waits of nodes.
func (h *History) updateWaits(now Moment) {
	waits := map[string]Period{}
	for i := range now.Blocked {
		b := &now.Blocked[i]
		if _, known := waits[b.Node]; !known {
			waits[b.Node] = Period{What: nameWaitCause(b), From: b.Since}
		}
	}
	for name, node := range h.nodes {
		node.setWait(waits[name].What, waits[name].From, now.At)
	}
}

// setWait updates what the node's pods wait for and since when. what is "" if they wait for nothing.
func (n *NodeHistory) setWait(what string, since, at time.Time) {
	last := len(n.Waits) - 1
	if last >= 0 && n.Waits[last].To.IsZero() {
		if n.Waits[last].What == what {
			return
		}
		if n.Waits[last].To = at; at.Sub(n.Waits[last].From) < minWait {
			n.Waits = n.Waits[:last]
			last--
		}
	}
	switch {
	case what == "":
	case last >= 0 && n.Waits[last].What == what && at.Sub(n.Waits[last].To) <= minWait:
		n.Waits[last].To = time.Time{}
	case len(n.Waits) < maxPeriodsKept:
		if since.IsZero() || since.After(at) || (last >= 0 && since.Before(n.Waits[last].To)) {
			since = at
		}
		n.Waits = append(n.Waits, Period{What: what, From: since})
	}
}

// addGroupState updates the phase and the size of the group.
func (h *History) addGroupState(now Moment) {
	s := &now.Status
	last := len(h.phases) - 1
	if last < 0 || h.phases[last].What != string(s.Phase) {
		if last >= 0 {
			h.phases[last].To = now.At
		}
		if s.Phase != "" {
			from := now.At
			if !s.Since.IsZero() && s.Since.Before(from) {
				from = s.Since
			}
			h.phases = append(h.phases, Period{What: string(s.Phase), From: from})
		}
	}
	if before := h.last.Status.Counted().Desired; before > 0 {
		seconds := now.At.Sub(h.last.At).Seconds()
		h.nodeSeconds, h.sizedSeconds = h.nodeSeconds+float64(before)*seconds, h.sizedSeconds+seconds
	}
	if s.GroupCounts == nil {
		return
	}
	group := s.Counted()
	sample := SizeSample{At: now.At, Desired: group.Desired, Owed: s.Owed, New: group.New, NewReady: group.NewReady}
	if n := len(h.sizes); n > 0 {
		before := h.sizes[n-1]
		before.At = sample.At
		if before == sample {
			return
		}
	}
	if h.sizes = append(h.sizes, sample); len(h.sizes) > maxSizesKept {
		h.sizes = thinOut(h.sizes, func(a, b *SizeSample) bool { return a.Desired > b.Desired }) // the largest size stays
	}
}

// thinOut removes every second sample. It keeps the first, the last and the least one according to less.
func thinOut[T any](samples []T, less func(a, b *T) bool) []T {
	least := 0
	for i := range samples {
		if less(&samples[i], &samples[least]) {
			least = i
		}
	}
	var kept []T
	for i, sample := range samples {
		if i%2 == 0 || i == least || i == len(samples)-1 {
			kept = append(kept, sample)
		}
	}
	return kept
}

// listNodes returns the nodes in order of start. Open periods end at the last moment.
func (h *History) listNodes() []NodeHistory {
	all := make([]NodeHistory, 0, len(h.nodes))
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		n := *h.nodes[name]
		n.States, n.Waits = closePeriods(n.States, h.Last), closePeriods(n.Waits, h.Last)
		all = append(all, n)
	}
	began := func(n *NodeHistory) time.Time {
		if len(n.States) == 0 {
			return h.Last
		}
		return n.States[0].From
	}
	slices.SortStableFunc(all, func(a, b NodeHistory) int { return began(&a).Compare(began(&b)) })
	return all
}

// closePeriods returns a copy in which open periods end at the time.
func closePeriods(all []Period, at time.Time) []Period {
	all = slices.Clone(all)
	for i := range all {
		if all[i].To.IsZero() {
			all[i].To = at
		}
	}
	return all
}

// listWaitCauses returns what nodes waited for, the longest wait first.
func (h *History) listWaitCauses() []WaitCause {
	all := make([]WaitCause, 0, len(h.waitCauses))
	for what, of := range h.waitCauses {
		if of.lasted >= minWait {
			all = append(all, WaitCause{What: what, For: record.Duration{Duration: of.lasted}, Nodes: len(of.nodes)})
		}
	}
	slices.SortFunc(all, func(a, b WaitCause) int {
		if a.For != b.For {
			return int(min(1, max(-1, b.For.Duration-a.For.Duration)))
		}
		return strings.Compare(a.What, b.What)
	})
	return all
}
