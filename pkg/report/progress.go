package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// EventType says what an event is about.
type EventType string

const (
	// PhaseEvent reports that an upgrade has reached a phase or its end.
	PhaseEvent EventType = "phase"
	// CapacityEvent reports a new group size, or new nodes that are ready.
	CapacityEvent EventType = "capacity"
	// NodeEvent reports that an outdated node has reached a state.
	NodeEvent EventType = "node"
	// WorkloadEvent reports that a workload delays the upgrade or no longer does, or that its users may notice
	// the upgrade.
	WorkloadEvent EventType = "workload"
	// BlockedEvent reports a node whose pods cannot leave.
	BlockedEvent EventType = "blocked"
	// WaitingEvent reports a request that is retried, or what the upgrade does after 30 seconds without
	// another event.
	WaitingEvent EventType = "waiting"
	// NoteEvent is anything else that a user should know.
	NoteEvent EventType = "note"
)

// Event is one change of an upgrade's state.
type Event struct {
	// Type says what the event is about.
	Type EventType `json:"type"`
	// Node is the node that the event is about.
	Node string `json:"node,omitempty"`
	// Zone is the node's zone, and Batch the number of its batch from 1.
	Zone  string `json:"zone,omitempty"`
	Batch int    `json:"batch,omitempty"`
	// Pods counts the pods that must still leave the node.
	Pods *int `json:"pods,omitempty"`
	// Workload is the workload that the event is about, NAMESPACE/KIND/NAME.
	Workload string `json:"workload,omitempty"`
	// State is the phase, the node's state or the result that was reached.
	State string `json:"state,omitempty"`
	// Text is the line that a person reads.
	Text string `json:"text"`
}

// EventLine is one line of --progress=json.
type EventLine struct {
	metav1.TypeMeta `json:",inline"`
	// Time is when the event was written; in a simulation, when it would happen.
	Time time.Time `json:"time"`
	// Group is the name of the node group.
	Group string `json:"group"`
	// Run is the identifier of the upgrade. It is left out before the upgrade has one.
	Run string `json:"run,omitempty"`
	Event
	// Counts are the numbers of nodes at that moment. They are left out before the group was read.
	Counts *Counts `json:"counts,omitempty"`
}

// Counts are the numbers of nodes at one moment of an upgrade.
type Counts struct {
	// Total counts the nodes that the upgrade replaces. Replaced counts those of them that are gone.
	Total    int `json:"total"`
	Replaced int `json:"replaced"`
	// Outdated counts the outdated nodes that the upgrade has not started to drain.
	Outdated int `json:"outdated"`
	// New counts the nodes of the target revision that came up during the upgrade. NewReady counts those of them that can run pods.
	New      int `json:"new"`
	NewReady int `json:"newReady"`
	// Desired and Max are the group's desired and maximum size. They are left out for a group without a size.
	Desired *int `json:"desired,omitempty"`
	Max     *int `json:"max,omitempty"`
}

// NewEventLine returns the event as a line of --progress=json, with the counts of the moment at which it was written.
func NewEventLine(at time.Time, group, run string, event Event, now *record.Status) EventLine {
	line := EventLine{Time: at.UTC(), Group: group, Run: run, Event: event}
	line.TypeMeta, _ = NewMeta("Event", "")
	line.State = KebabCase(line.State)
	if now.GroupCounts == nil {
		return line
	}
	counted := now.Counted()
	line.Counts = &Counts{Total: now.Total, Replaced: now.Replaced, Outdated: now.Outdated, New: counted.New, NewReady: counted.NewReady}
	if counted.Max > 0 {
		line.Counts.Desired, line.Counts.Max = &counted.Desired, &counted.Max
	}
	return line
}

// Moment is what an upgrade shows after one step.
type Moment struct {
	At      time.Time
	Status  record.Status
	Blocked []drain.Blocked
	// Sent are the actions that the step begins.
	Sent []nodegroup.Action
	// Stopping is the result with which the upgrade is about to end, "" while it continues. Workloads are not observed during the stop.
	Stopping record.Result
	// TimeLeft is the forecast of the time left, counted from At.
	TimeLeft TimeLeft
	// reportedWaits has the waits that were already reported, for nodes that a cloud has fenced. It is not
	// known whether the cloud drains such a node, so its waits appear and disappear with each observed drain.
	reportedWaits map[string]bool
}

// DescribeChanges returns an event for each difference between two moments. Events about the group come first.
// Sending a refused request again is not a difference.
func DescribeChanges(before, now Moment) []Event {
	events := listGroupChanges(&before.Status, &now.Status)
	for _, node := range now.Status.Nodes {
		old, known := before.Status.FindNode(node.Name)
		if !known || old.State != node.State {
			if text := describeNodeState(node); text != "" {
				events = append(events, Event{Type: NodeEvent, Node: node.Name, Zone: node.Zone, Batch: node.Batch, Pods: &node.Pods, State: string(node.State), Text: text})
			}
		}
	}
	for _, node := range before.Status.Nodes {
		if _, still := now.Status.FindNode(node.Name); !still && (node.State == record.NodeRemoving || now.Status.Manager != "") {
			events = append(events, Event{
				Type: NodeEvent, Node: node.Name, Zone: node.Zone, Batch: node.Batch, State: string(record.NodeGone),
				Text: fmt.Sprintf("node %s is gone (%d of %d replaced)%s", node.Name, now.Status.Replaced, now.Status.Total, withPrefix("; ", now.TimeLeft.formatLeft(now.At))),
			})
		}
	}
	if now.Stopping == "" {
		events = append(events, listWorkloadChanges(&before.Status, &now.Status)...)
	}
	events = append(events, listNoticeableActions(now.Sent)...)
	return append(events, listNewWaits(before, now)...)
}

func listGroupChanges(before, now *record.Status) []Event {
	var events []Event
	if now.Phase != before.Phase {
		events = append(events, Event{Type: PhaseEvent, State: string(now.Phase), Text: "phase " + string(now.Phase) + describeStart(before, now)})
	}
	if now.Note != "" && now.Note != before.Note {
		events = append(events, Event{Type: NoteEvent, Text: now.Note})
	}
	if was, is := before.Retried, now.Retried; is.Action != "" && (is.Action != was.Action || is.Detail != was.Detail) {
		events = append(events, Event{Type: WaitingEvent, Text: "trying again " + is.String()})
	}
	was, is := before.Counted(), now.Counted()
	if before.GroupCounts != nil && now.GroupCounts != nil && (is.Desired != was.Desired || is.Max != was.Max) {
		events = append(events, Event{Type: CapacityEvent, Text: fmt.Sprintf("group resized: desired %d, max %d%s", is.Desired, is.Max, Parenthesize(now.Zones))})
	}
	if is.NewReady != was.NewReady && is.New > 0 {
		events = append(events, Event{Type: CapacityEvent, Text: formatCount(is.NewReady, "new node") + " ready" + describeNotReady(is.New-is.NewReady)})
	}
	if fenced := countInState(now, record.NodeFenced); fenced > countInState(before, record.NodeFenced) && countInState(now, record.NodePending) == 0 {
		events = append(events, Event{Type: CapacityEvent, Text: formatCount(fenced, "node") + " not started yet, all fenced"})
	}
	return events
}

// describeNotReady returns how many new nodes are not ready yet; "" for none.
func describeNotReady(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", %d starting", n)
}

// countInState counts the nodes in the state.
func countInState(s *record.Status, state record.NodeState) int {
	n := 0
	for i := range s.Nodes {
		if s.Nodes[i].State == state {
			n++
		}
	}
	return n
}

func describeStart(before, now *record.Status) string {
	if before.Phase != "" {
		return ""
	}
	text := ": " + formatCount(now.Total-now.Replaced, "outdated node")
	if group := now.Counted(); group.Max > 0 {
		text += fmt.Sprintf(", desired %d, max %d", group.Desired, group.Max)
	}
	return text + Parenthesize(now.Zones)
}

// formatCount returns a count with its noun: "3 nodes".
func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func describeNodeState(n record.NodeStatus) string {
	switch n.State {
	case record.NodeDraining:
		return fmt.Sprintf("node %s draining %s (%s)", n.Name, formatCount(n.Pods, "pod"), strings.Join(describeBatchAndZone(n), ", "))
	case record.NodeForcing:
		return fmt.Sprintf("node %s out of time: deleting %s", n.Name, formatCount(n.Pods, "pod"))
	case record.NodeEmpty:
		return fmt.Sprintf("node %s empty", n.Name)
	case record.NodeRemoving:
		return fmt.Sprintf("node %s terminating", n.Name)
	case record.NodeQuarantined:
		return fmt.Sprintf("node %s quarantined with %s", n.Name, formatCount(n.Pods, "pod"))
	case record.NodeDrained:
		if n.Pods > 0 {
			return fmt.Sprintf("node %s drained, but %s started on it again; it stays fenced until you replace it", n.Name, formatCount(n.Pods, "pod"))
		}
		return fmt.Sprintf("node %s drained; it stays fenced until you replace it", n.Name)
	default:
		return ""
	}
}

// describeBatchAndZone returns a node's batch and zone. A node that a cloud drains has no batch.
func describeBatchAndZone(n record.NodeStatus) []string {
	var parts []string
	if n.Batch > 0 {
		parts = append(parts, fmt.Sprintf("batch %d", n.Batch))
	}
	if n.Zone != "" {
		parts = append(parts, "zone "+n.Zone)
	}
	return parts
}

// listNewWaits returns an event for each lasting wait that was not reported before.
func listNewWaits(before, now Moment) []Event {
	told := map[string]bool{}
	for _, w := range CollectWaits(before.Blocked, before.At) {
		if w.Lasting {
			told[w.key] = true
		}
	}
	var events []Event
	for _, w := range CollectWaits(now.Blocked, now.At) {
		if w.Lasting && !told[w.key] && !now.reportedWaits[w.key] {
			events = append(events, Event{Type: BlockedEvent, Node: w.Node, Text: fmt.Sprintf("node %s waits%s: %s", w.Node, w.formatTimeLimit(now.Status.Manager, now.At), w)})
		}
	}
	return events
}

// DescribeHeartbeat returns a line with what an upgrade does and what it waits for.
func DescribeHeartbeat(now Moment) string {
	s := &now.Status
	text := fmt.Sprintf("phase %s, %s%s", s.Phase, DescribeProgress(s.Replaced, s.Drained, s.Total), withPrefix(", ", now.TimeLeft.formatLeft(now.At)))
	var busy []string
	for _, n := range s.Nodes {
		if n.Batch > 0 && n.State != record.NodeQuarantined && n.State != record.NodeDrained {
			text := fmt.Sprintf("%s %s", n.Name, strings.ToLower(string(n.State)))
			if n.Pods > 0 {
				text += " " + formatCount(n.Pods, "pod")
			}
			if n.Silent != "" {
				text += " (" + n.Silent + ")"
			}
			busy = append(busy, text)
		}
	}
	slices.Sort(busy)
	const most = 4
	if len(busy) > most {
		busy = append(busy[:most], fmt.Sprintf("%d more", len(busy)-most))
	}
	if len(busy) > 0 {
		text += "; " + strings.Join(busy, ", ")
	}
	if s.Waiting != "" {
		text += "; waiting for " + s.Waiting
	}
	if s.Retried.Action != "" {
		text += "; tried again for " + now.At.Sub(s.Retried.Since).Round(time.Second).String() + ": " + s.Retried.String()
	}
	if waits := CollectWaits(now.Blocked, now.At); len(waits) > 0 {
		text += fmt.Sprintf("; %s blocked, first%s: %s", formatCount(len(now.Blocked), "pod"), waits[0].formatTimeLimit(s.Manager, now.At), waits[0])
	}
	return text
}

// WithWaitsReportedBy returns the moment with the waits that were reported until the earlier moment.
func (m Moment) WithWaitsReportedBy(earlier Moment) Moment {
	if m.Status.Manager == "" {
		return m
	}
	m.reportedWaits = maps.Clone(earlier.reportedWaits)
	if m.reportedWaits == nil {
		m.reportedWaits = map[string]bool{}
	}
	for _, w := range CollectWaits(earlier.Blocked, earlier.At) {
		if w.Lasting && w.Until.IsZero() {
			m.reportedWaits[w.key] = true
		}
	}
	return m
}
