package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Options select how a document is written as text.
type Options struct {
	Style Style
	// Wide adds columns.
	Wide bool
	// Now is the current time, from which ages are counted.
	Now time.Time
	// Width is the width of the terminal in cells. It is 0 if the output is not a terminal.
	Width int
	// Color turns colours on. NoHeaders omits the titles of columns.
	Color, NoHeaders bool
}

// WriteGroups writes a table of groups. It returns the error of w.
func WriteGroups(w io.Writer, list *NodeGroupList, o Options) error {
	columns := []column{{title: "NAME", wraps: true}, {title: "PROVIDER", alwaysShown: true}, {title: "NODES", alwaysShown: true}, {title: "OUTDATED", alwaysShown: true}, {title: "PHASE", alwaysShown: true}, {title: "AGE", alwaysShown: true}}
	if o.Wide {
		columns = append(columns, column{title: "KIND"}, column{title: "WANTED"}, column{title: "REFUSED-BECAUSE"})
	}
	var rows [][]string
	for i := range list.Items {
		g := &list.Items[i]
		outdated := "?"
		if g.Outdated != nil {
			outdated = strconv.Itoa(*g.Outdated)
		}
		phase := cmp.Or(g.Phase, "-")
		if g.PhaseUnknown {
			phase = "?"
		}
		row := []string{g.Name, g.Provider, strconv.Itoa(g.Nodes), outdated, phase, formatAge(g.Created, o.Now)}
		if o.Wide {
			row = append(row, g.Kind, cmp.Or(g.Wanted, "-"), cmp.Or(g.Refusal, "-"))
		}
		rows = append(rows, row)
	}
	out := newPage(w, o)
	out.addTable(columns, rows)
	return out.err
}

func formatAge(since, now time.Time) string {
	return dashUnless(!since.IsZero(), duration.HumanDuration(now.Sub(since)))
}

// WriteStatus writes the state of an upgrade on one screen. It returns the error of w.
func WriteStatus(w io.Writer, s *UpgradeStatus, o Options) error {
	out := newPage(w, o)
	if s.Run != "" {
		out.addVerdict(statusVerdict(s))
	}
	out.addLines(statusHeaderLines(s, o.Now)...)
	var rows [][]string
	for _, n := range s.Status.Nodes {
		if n.Batch > 0 || n.State == record.NodeDraining {
			rows = append(rows, []string{n.Name, cmp.Or(n.Zone, "-"), string(n.State), dashUnless(n.Batch > 0, strconv.Itoa(n.Batch)), strconv.Itoa(n.Pods), strconv.Itoa(n.Staying)})
		}
	}
	if len(rows) > 0 {
		out.addLines("")
		out.addTable([]column{{title: "NODE", cut: cutDomain, alwaysShown: true}, {title: "ZONE", cut: cutRegion}, {title: "STATE", alwaysShown: true}, {title: "BATCH"}, {title: "PODS", alwaysShown: true}, {title: "STAYING"}}, rows)
	}
	return out.err
}

func statusHeaderLines(s *UpgradeStatus, now time.Time) []string {
	st := &s.Status
	if s.Run == "" {
		head := fmt.Sprintf("Node group %s: no upgrade was started with this tool; ", s.Name)
		if s.Outdated == nil {
			head += "it is unknown which nodes are outdated: " + s.Unknown
		} else {
			head += fmt.Sprintf("%d outdated", *s.Outdated)
		}
		return slices.Concat([]string{head}, operationLines(s), paceLines(s.Pace, now), s.maintenanceLines(), LeftoverLines(s.Leftovers))
	}
	lines := []string{
		fmt.Sprintf("Group       %s to %s, run %s, started %s ago", s.Name, s.Target.Name, s.Run, formatAge(s.Started, now)),
		fmt.Sprintf("Phase       %s, for %s", st.Phase, formatAge(st.Since, now)),
		"Run by      " + cmp.Or(s.Holder, s.Follows, "nobody"),
	}
	lines = append(lines, operationLines(s)...)
	lines = append(lines, paceLines(s.Pace, now)...)
	lines = append(lines, s.maintenanceLines()...)
	if s.Unread != "" {
		lines = append(lines, "Not read    the group; only the cluster's data is shown: "+s.Unread)
	}
	lines = append(lines, resultLines(s)...)
	if st.Waiting != "" {
		lines = append(lines, "Waits for   "+st.Waiting)
	}
	for _, w := range CollectWaits(s.Blocked, now) {
		lines = append(lines, fmt.Sprintf("Blocked     node %s%s%s: %s", w.Node, w.formatDuration(now), w.formatTimeLimit(s.Status.Manager, now), w))
	}
	for _, line := range ImpactLines(s.Impacts) {
		lines = append(lines, "Workloads   "+line)
	}
	lines = append(lines, TimeLeftLines(&s.TimeLeft, st.Manager, now)...)
	isOver := slices.Contains([]record.Result{record.Succeeded, record.LeftBehind, record.Aborted}, s.Result)
	switch {
	case st.Owed > 0 && isOver:
		lines = append(lines, "Keeps       "+formatCount(st.Owed, "added node")+": the upgrade is over, so lower the group's size yourself if it is too large")
	case st.Owed > 0:
		lines = append(lines, "Gives back  "+formatCount(st.Owed, "added node"))
	}
	if len(s.Suspended) > 0 {
		lines = append(lines, "Suspended   "+strings.Join(s.Suspended, ", ")+", until it ends")
	}
	return append(lines, LeftoverLines(s.Leftovers)...)
}

// DescribeProgress returns how many nodes are replaced: "2 of 4 nodes replaced, 1 drained". replaced includes
// the drained nodes, which are not replaced yet.
func DescribeProgress(replaced, drained, total int) string {
	switch {
	case drained == 0:
		return fmt.Sprintf("%d of %s replaced", replaced, formatCount(total, "node"))
	case drained >= replaced:
		return fmt.Sprintf("%d of %s drained", drained, formatCount(total, "node"))
	default:
		return fmt.Sprintf("%d of %s replaced, %d drained", replaced-drained, formatCount(total, "node"), drained)
	}
}

// statusVerdict returns how far the upgrade is, and how many workloads have fewer ready pods than before.
func statusVerdict(s *UpgradeStatus) (tone, string) {
	st := &s.Status
	text := DescribeProgress(st.Replaced, st.Drained, st.Total)
	if st.Outdated > 0 {
		text += fmt.Sprintf(", %d not started", st.Outdated)
	}
	worse := describeDegraded(st.Unhealthy, s.Impacts)
	t := good
	if worse != "" || len(s.Blocked) > 0 || s.RemainingEnds != nil {
		t = warning
	}
	switch s.Result {
	case "":
		if s.RemainingUnknown == "" && s.RemainingEnds == nil && s.Remaining.Latest.Duration > 0 {
			text += ", " + FormatSpan(s.Remaining) + " left"
		}
	case record.Succeeded:
		text = "Done: " + text
	case record.Waiting, record.LeftBehind:
		t, text = warning, string(s.Result)+": "+text
	default:
		t, text = bad, string(s.Result)+": "+text
	}
	return t, text + withPrefix(", ", worse)
}

// describeDegraded returns the number of workloads that have fewer ready pods than before the upgrade, "" for
// none.
func describeDegraded(unhealthy []record.Unhealthy, impacts []record.WorkloadImpact) string {
	names := map[string]bool{}
	for _, u := range unhealthy {
		names[u.Name] = true
	}
	for _, w := range impacts {
		if w.Lacks > 0 || w.Out {
			names[w.Name] = true
		}
	}
	switch without := len(namesWithoutReadyPod(impacts)); {
	case without > 0:
		return formatCount(without, "workload") + " without a ready pod"
	case len(names) > 0:
		return formatCount(len(names), "workload") + " with fewer ready pods than before"
	default:
		return ""
	}
}

// resultLines returns how an upgrade ended, or what it waits for without a process. It returns nil for a
// running upgrade.
func resultLines(s *UpgradeStatus) []string {
	switch s.Result {
	case "":
		return nil
	case record.Waiting:
		what := "the soak"
		switch s.Status.Phase {
		case record.PhaseExpire:
			what = "outdated nodes to end"
		case record.PhaseWait:
			what = "the end of the time before the drain"
		}
		return []string{fmt.Sprintf("Waits for   %s, and no process has to run until then: %s", what, s.Message)}
	default:
		return []string{fmt.Sprintf("Ended       %s%s", s.Result, withPrefix(": ", s.Message))}
	}
}

// operationLines returns a line with the newest operation of a group that its cloud upgrades.
func operationLines(s *UpgradeStatus) []string {
	if s.Operation == nil {
		return nil
	}
	return []string{"Operation   " + describeOperation(s.Operation, s.OperationOf)}
}

// IsStuck reports whether a running upgrade goes no further until a person changes something: its service passes over all nodes
// that are left or cannot drain them, or may replace none for as long as is known. An annotation that ends at a time keeps no node for
// ever.
func (s *UpgradeStatus) IsStuck() bool {
	if len(s.Pace) > 0 && !slices.ContainsFunc(s.Pace, func(p Pace) bool { return p.Nodes > 0 }) {
		return true
	}
	kept := map[string]bool{}
	for _, b := range s.Blocked {
		endsItself := b.Kind == drain.BudgetSpent || b.Kind == drain.Keeps && b.Detail != ""
		kept[b.Node] = kept[b.Node] || b.Passed && !endsItself
	}
	return len(s.Status.Nodes) > 0 && !slices.ContainsFunc(s.Status.Nodes, func(n record.NodeStatus) bool { return !kept[n.Name] })
}

// paceLines returns a line with how many nodes may be replaced at the same time now, and with the next changes.
func paceLines(pace []Pace, now time.Time) []string {
	const most = 3
	if len(pace) == 0 {
		return nil
	}
	text := "Pace        " + describePace(pace[0].Nodes)
	for _, next := range pace[1:min(len(pace), most)] {
		text += fmt.Sprintf("; %s from %s on (in %s)", describePace(next.Nodes), next.From.UTC().Format("Mon 2006-01-02 15:04 UTC"), formatAge(now, next.From))
	}
	return []string{text}
}

// describePace returns how many nodes may be replaced at the same time.
func describePace(nodes int) string {
	if nodes == 0 {
		return "the budgets allow no node"
	}
	return "at most " + formatCount(nodes, "node") + " at a time"
}

// LeftoverLines returns a line for each leftover, with its remedy.
func LeftoverLines(all []Leftover) []string {
	var lines []string
	for _, l := range all {
		lines = append(lines, "Leftover    "+l.What+": "+l.Remedy)
	}
	return lines
}
