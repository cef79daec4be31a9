package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Event is one change of an upgrade's state, as a person or a program follows it.
type Event struct {
	// Type is phase, capacity, node, workload, blocked, waiting or note.
	Type string `json:"type"`
	Node string `json:"node,omitempty"`
	// State is the phase or node state reached.
	State string `json:"state,omitempty"`
	Text  string `json:"text"`
}

// Moment is what one step showed.
type Moment struct {
	At      time.Time
	Status  record.Status
	Blocked []drain.Blocked
	// Sent are the actions that the step begins.
	Sent []nodegroup.Action
	// Stopping is the result that the upgrade is being brought to an end with, "" while it goes on. No
	// workload is looked at then.
	Stopping record.Result
	// told are the waits that were told before of nodes that a cloud has fenced. Whether the cloud drains such a node is
	// not known, so that they come and go with each drain that is seen.
	told map[string]bool
}

// DescribeChanges lists what is different between two moments, one event for each thing that
// changed, the group's own changes first. Refusals that are only retried are not changes.
func DescribeChanges(before, now Moment) []Event {
	events := listGroupChanges(&before.Status, &now.Status)
	for _, node := range now.Status.Nodes {
		old, known := before.Status.FindNode(node.Name)
		if !known || old.State != node.State {
			if text := describeNode(node); text != "" {
				events = append(events, Event{Type: "node", Node: node.Name, State: string(node.State), Text: text})
			}
		}
	}
	for _, node := range before.Status.Nodes {
		if _, still := now.Status.FindNode(node.Name); !still && (node.State == record.NodeRemoving || now.Status.Manager != "") {
			events = append(events, Event{
				Type: "node", Node: node.Name, State: string(record.NodeGone),
				Text: fmt.Sprintf("node %s is gone (%d of %d replaced)", node.Name, now.Status.Replaced, now.Status.Total),
			})
		}
	}
	if now.Stopping == "" {
		events = append(events, listWorkloadChanges(&before.Status, &now.Status)...)
	}
	events = append(events, listMoves(now.Sent)...)
	return append(events, listBlockedChanges(before, now)...)
}

func listGroupChanges(before, now *record.Status) []Event {
	var events []Event
	if now.Phase != before.Phase {
		events = append(events, Event{Type: "phase", State: string(now.Phase), Text: "phase " + string(now.Phase) + describePhase(before, now)})
	}
	if now.Note != "" && now.Note != before.Note {
		events = append(events, Event{Type: "note", Text: now.Note})
	}
	if was, is := before.Retried, now.Retried; is.Action != "" && (is.Action != was.Action || is.Detail != was.Detail) {
		events = append(events, Event{Type: "waiting", Text: "it is tried again " + is.String()})
	}
	if before.Group != "" && (now.Desired != before.Desired || now.Max != before.Max) {
		events = append(events, Event{Type: "capacity", Text: fmt.Sprintf("group size desired %d, max %d%s", now.Desired, now.Max, Parenthesize(now.Zones))})
	}
	if now.NewReady != before.NewReady && now.New > 0 {
		events = append(events, Event{Type: "capacity", Text: formatCount(now.NewReady, "new node") + " ready" + describeStarting(now.New-now.NewReady)})
	}
	if fenced := countUnstarted(now, record.NodeFenced); fenced > countUnstarted(before, record.NodeFenced) && countUnstarted(now, record.NodePending) == 0 {
		events = append(events, Event{Type: "capacity", Text: formatCount(fenced, "node") + " not started yet, all fenced"})
	}
	return events
}

// describeStarting says how many new nodes are still to be ready; "" for none.
func describeStarting(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", %d starting", n)
}

// countUnstarted counts the nodes in one of the states before the start.
func countUnstarted(s *record.Status, state record.NodeState) int {
	n := 0
	for i := range s.Nodes {
		if s.Nodes[i].State == state {
			n++
		}
	}
	return n
}

func describePhase(before, now *record.Status) string {
	if before.Phase != "" {
		return ""
	}
	text := ": " + formatCount(now.Total-now.Replaced, "outdated node")
	if now.Max > 0 {
		text += fmt.Sprintf(", desired %d, max %d", now.Desired, now.Max)
	}
	return text + Parenthesize(now.Zones)
}

// formatCount is a count with its noun.
func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func describeNode(n record.NodeStatus) string {
	switch n.State {
	case record.NodeDraining:
		return fmt.Sprintf("node %s draining %s (%s)", n.Name, formatCount(n.Pods, "pod"), strings.Join(describePlace(n), ", "))
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
			return fmt.Sprintf("node %s drained, but %s started on it again; it stays fenced until its owner replaces it", n.Name, formatCount(n.Pods, "pod"))
		}
		return fmt.Sprintf("node %s drained; it stays fenced until its owner replaces it", n.Name)
	default:
		return ""
	}
}

// describePlace is where a node stands: in its batch, which one that a cloud drains has not, and in
// its zone.
func describePlace(n record.NodeStatus) []string {
	var parts []string
	if n.Batch > 0 {
		parts = append(parts, fmt.Sprintf("batch %d", n.Batch))
	}
	if n.Zone != "" {
		parts = append(parts, "zone "+n.Zone)
	}
	return parts
}

// listBlockedChanges tells of each wait once, as soon as it is worth a line.
func listBlockedChanges(before, now Moment) []Event {
	told := map[string]bool{}
	for _, w := range CollectWaits(before.Blocked, before.At) {
		if w.Lasting {
			told[w.key] = true
		}
	}
	var events []Event
	for _, w := range CollectWaits(now.Blocked, now.At) {
		if w.Lasting && !told[w.key] && !now.told[w.key] {
			events = append(events, Event{Type: "blocked", Node: w.Node, Text: fmt.Sprintf("node %s waits%s: %s", w.Node, w.formatLimit(now.Status.Manager, now.At), w)})
		}
	}
	return events
}

// DescribeHeartbeat says in one line what a quiet upgrade is doing and waiting for.
func DescribeHeartbeat(now Moment) string {
	s := &now.Status
	text := fmt.Sprintf("phase %s, %d of %d replaced", s.Phase, s.Replaced, s.Total)
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
		text += fmt.Sprintf("; %s blocked, first%s: %s", formatCount(len(now.Blocked), "pod"), waits[0].formatLimit(s.Manager, now.At), waits[0])
	}
	return text
}

// After returns the moment as the one that follows the other, with the waits that were told by then.
func (m Moment) After(before Moment) Moment {
	if m.Status.Manager == "" {
		return m
	}
	m.told = maps.Clone(before.told)
	if m.told == nil {
		m.told = map[string]bool{}
	}
	for _, w := range CollectWaits(before.Blocked, before.At) {
		if w.Lasting && w.Until.IsZero() {
			m.told[w.key] = true
		}
	}
	return m
}
