package report

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// What a history keeps at most, so that an upgrade that takes days does not grow without end.
const (
	mostNodesKept   = 5000
	mostPeriodsKept = 12
	mostSizesKept   = 300
	mostHoldersKept = 100
	// The first lines of the log and the last ones are kept.
	firstLogKept, lastLogKept = 200, 400
)

// shortestWait is how long a wait lasts at least that is kept: every drain waits a little. Two waits for the same thing that
// are no further apart are one.
const shortestWait = time.Second

// takenUpAfter is the time after the start of an upgrade from which a first moment is not the first of the upgrade.
const takenUpAfter = 30 * time.Second

// Period is a time during which a node or a group was in one state.
type Period struct {
	// What is the node state, the phase, or what was waited for.
	What string `json:"what"`
	// From is when it began.
	From time.Time `json:"from"`
	// To is when it ended. A period that had not ended ends with the report.
	To time.Time `json:"to"`
}

// NodeHistory is what happened to a node that the upgrade started to drain.
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

// SizeSample is the size of the group from a time until the next sample.
type SizeSample struct {
	// At is when the group had this size for the first time.
	At time.Time `json:"at"`
	// Desired is the group's desired size, 0 for a group without a size. Owed counts the nodes of it that the upgrade added.
	Desired int `json:"desired,omitempty"`
	Owed    int `json:"added,omitempty"`
	// New counts the new nodes, NewReady those of them that are ready.
	New      int `json:"new"`
	NewReady int `json:"newReady"`
}

// Holder is a budget or another obstacle that nodes waited for.
type Holder struct {
	// What is the budget, or the obstacle in full where it is none.
	What string `json:"what"`
	// For is how long at least one node waited for it. Nodes counts the nodes that did.
	For   record.Duration `json:"for"`
	Nodes int             `json:"nodes"`
}

// LogLine is an event of an upgrade.
type LogLine struct {
	// At is when the event was seen; in a simulation, when it would happen.
	At time.Time `json:"at"`
	Event
}

// History keeps what was seen of one upgrade, for its report. The zero value is ready to use.
type History struct {
	// First and Last are the times of the first and the last moment; zero if there was none.
	First, Last time.Time
	// UnseenBefore counts the nodes that were replaced before the first moment and of which the record does not tell when. TakenUp is true
	// if the upgrade had begun before it.
	UnseenBefore int
	TakenUp      bool

	nodes   map[string]*NodeHistory
	phases  []Period
	sizes   []SizeSample
	holders map[string]*holder
	// ready has workloads that had fewer ready pods than before, by name.
	ready map[string]*ReadyPods
	log   []LogLine
	// logLeftOut counts the lines that were dropped; nodesLeftOut has the names of the nodes that were.
	logLeftOut   int
	nodesLeftOut map[string]bool
	// nodeSeconds adds up the desired size over the seconds for which it is known, which are sizedSeconds.
	nodeSeconds, sizedSeconds float64
	last                      Moment
}

// holder is a Holder that is being counted.
type holder struct {
	lasted time.Duration
	nodes  map[string]bool
}

// See adds a moment of the upgrade. Its first call also takes the times of earlier states from the record.
func (h *History) See(now Moment, rec *record.Record) {
	now = now.After(h.last)
	if h.First.IsZero() {
		h.First = now.At
		h.TakenUp = len(rec.Nodes) > 0 || rec.Replaced > 0 || now.At.Sub(rec.Started) > takenUpAfter
		h.nodes, h.holders, h.nodesLeftOut = map[string]*NodeHistory{}, map[string]*holder{}, map[string]bool{}
		h.ready = map[string]*ReadyPods{}
		h.addGone(rec)
	}
	for _, event := range DescribeChanges(h.last, now) {
		h.AddEvent(now.At, event)
	}
	if h.last.At.IsZero() { // what lasts already counts from its beginning
		h.countHolders(now.Blocked, func(b *drain.Blocked) time.Time { return b.Since }, now.At)
	} else {
		h.countHolders(h.last.Blocked, func(*drain.Blocked) time.Time { return h.last.At }, now.At)
	}
	h.seeNodes(now, rec)
	h.seeWaits(now)
	h.seeGroup(now)
	h.seeWorkloads(now.At, rec)
	h.last, h.Last = now, now.At
}

// AddEvent adds a line to the log. A long log loses its middle.
func (h *History) AddEvent(at time.Time, event Event) {
	h.log = append(h.log, LogLine{At: at, Event: event})
	if len(h.log) > firstLogKept+lastLogKept {
		h.log = slices.Delete(h.log, firstLogKept, firstLogKept+1)
		h.logLeftOut++
	}
}

// countHolders adds to each holder the time from since until now.
func (h *History) countHolders(blocked []drain.Blocked, since func(*drain.Blocked) time.Time, now time.Time) {
	longest := map[*holder]time.Duration{}
	for i := range blocked {
		b := &blocked[i]
		if from := since(b); !from.IsZero() && now.After(from) {
			of := h.findHolder(nameHolder(b))
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

// findHolder returns the count of a holder. If there are too many, the further ones share a count.
func (h *History) findHolder(what string) *holder {
	of, known := h.holders[what]
	if !known && len(h.holders) >= mostHoldersKept {
		what = "others"
		of, known = h.holders[what]
	}
	if !known {
		of = &holder{nodes: map[string]bool{}}
		h.holders[what] = of
	}
	return of
}

// nameHolder returns the budget that a blocked pod waits for, or else its obstacle in full.
func nameHolder(b *drain.Blocked) string {
	if budget := b.BudgetName(); budget != "" {
		return budget
	}
	return b.String()
}

// seeNodes notes the nodes' states. A node that the status no longer lists is gone.
func (h *History) seeNodes(now Moment, rec *record.Record) {
	for i := range now.Status.Nodes {
		n := &now.Status.Nodes[i]
		if n.State == record.NodePending || n.State == record.NodeFenced {
			continue
		}
		node, known := h.nodes[n.Name]
		if !known {
			if len(h.nodes) >= mostNodesKept {
				h.nodesLeftOut[n.Name] = true
				continue
			}
			node = &NodeHistory{Name: n.Name, Zone: n.Zone}
			h.nodes[n.Name] = node
			if began := rec.Nodes[n.Name]; began.Batch > 0 {
				node.enterRecorded(began.Began, began.EmptyAt, began.Terminated, now.At)
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

// addGone adds the nodes that the record has as gone.
func (h *History) addGone(rec *record.Record) {
	for i := range rec.Gone {
		gone := &rec.Gone[i]
		node, known := h.nodes[gone.Name]
		if !known {
			node = &NodeHistory{Name: gone.Name, Zone: gone.Zone}
			h.nodes[gone.Name] = node
		}
		node.enterRecorded(gone.Began, gone.EmptyAt, gone.Terminated, gone.Gone)
		node.enterState(record.NodeGone, gone.Gone)
	}
	drained := record.CountNodes(rec, func(n record.NodeRecord) bool { return n.State == record.NodeDrained })
	h.UnseenBefore = max(0, rec.Replaced-drained-len(rec.Gone))
}

// enterRecorded enters the states that a record has of the time before now. A time that is zero is of a state that was not seen.
func (n *NodeHistory) enterRecorded(draining, empty, removing, now time.Time) {
	for _, state := range []struct {
		is record.NodeState
		at time.Time
	}{{record.NodeDraining, draining}, {record.NodeEmpty, empty}, {record.NodeRemoving, removing}} {
		if !state.at.IsZero() && !state.at.After(now) {
			n.enterState(state.is, state.at)
		}
	}
}

// stateBegan returns when the node entered its state by its record, or now if the record does not have it.
func stateBegan(state record.NodeState, rec record.NodeRecord, now time.Time) time.Time {
	at := map[record.NodeState]time.Time{record.NodeDraining: rec.Began, record.NodeEmpty: rec.EmptyAt, record.NodeRemoving: rec.Terminated}[state]
	if at.IsZero() || at.After(now) {
		return now
	}
	return at
}

// enterState ends the node's last state and begins the next one. It does nothing if the node is in that state.
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
	case record.NodeGone, record.NodeQuarantined, record.NodeDrained: // nothing is done with it any more
	default:
		if len(n.States) < mostPeriodsKept {
			n.States = append(n.States, Period{What: string(state), From: at})
		}
	}
}

// seeWaits begins and ends the waits of nodes.
func (h *History) seeWaits(now Moment) {
	waits := map[string]Period{}
	for i := range now.Blocked {
		b := &now.Blocked[i]
		if _, known := waits[b.Node]; !known {
			waits[b.Node] = Period{What: nameHolder(b), From: b.Since}
		}
	}
	for name, node := range h.nodes {
		node.waitFor(waits[name].What, waits[name].From, now.At)
	}
}

// waitFor notes what the node's pods wait for now and since when; what is "" if they wait for nothing.
func (n *NodeHistory) waitFor(what string, since, at time.Time) {
	last := len(n.Waits) - 1
	if last >= 0 && n.Waits[last].To.IsZero() {
		if n.Waits[last].What == what {
			return
		}
		if n.Waits[last].To = at; at.Sub(n.Waits[last].From) < shortestWait {
			n.Waits = n.Waits[:last]
			last--
		}
	}
	switch {
	case what == "":
	case last >= 0 && n.Waits[last].What == what && at.Sub(n.Waits[last].To) <= shortestWait:
		n.Waits[last].To = time.Time{}
	case len(n.Waits) < mostPeriodsKept:
		if since.IsZero() || since.After(at) || (last >= 0 && since.Before(n.Waits[last].To)) {
			since = at
		}
		n.Waits = append(n.Waits, Period{What: what, From: since})
	}
}

// seeGroup notes the phase and the size of the group.
func (h *History) seeGroup(now Moment) {
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
	if h.sizes = append(h.sizes, sample); len(h.sizes) > mostSizesKept {
		h.sizes = thin(h.sizes, func(a, b *SizeSample) bool { return a.Desired > b.Desired }) // the largest stays
	}
}

// thin returns the samples without every other one. It keeps the first, the last and the one for which less is least.
func thin[T any](samples []T, less func(a, b *T) bool) []T {
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

// listNodes returns the nodes in order of start, each with its open periods ended at the last moment.
func (h *History) listNodes() []NodeHistory {
	all := make([]NodeHistory, 0, len(h.nodes))
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		n := *h.nodes[name]
		n.States, n.Waits = endPeriods(n.States, h.Last), endPeriods(n.Waits, h.Last)
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

// endPeriods returns a copy in which a period that has not ended ends at a time.
func endPeriods(all []Period, at time.Time) []Period {
	all = slices.Clone(all)
	for i := range all {
		if all[i].To.IsZero() {
			all[i].To = at
		}
	}
	return all
}

// listHolders returns what nodes waited for, the longest wait first.
func (h *History) listHolders() []Holder {
	all := make([]Holder, 0, len(h.holders))
	for what, of := range h.holders {
		if of.lasted >= shortestWait {
			all = append(all, Holder{What: what, For: record.Duration{Duration: of.lasted}, Nodes: len(of.nodes)})
		}
	}
	slices.SortFunc(all, func(a, b Holder) int {
		if a.For != b.For {
			return int(min(1, max(-1, b.For.Duration-a.For.Duration)))
		}
		return strings.Compare(a.What, b.What)
	})
	return all
}
