package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// LiveView is the content of the screen that shows a running upgrade.
type LiveView struct {
	Moment
	Record *record.Record
	// Impacts lists what the upgrade has cost workloads so far.
	Impacts []record.WorkloadImpact
	// MaxPods is the largest number of pods that the view has seen on each node in flight.
	MaxPods map[string]int
	// Hint says what Ctrl-C does.
	Hint string
}

// Update replaces the content of the view. It keeps the largest number of pods of each node in flight.
func (l *LiveView) Update(now Moment, rec *record.Record, impacts []record.WorkloadImpact) {
	l.Moment, l.Record, l.Impacts = now, rec, impacts
	pods := map[string]int{}
	for _, n := range now.Status.Nodes {
		if n.Batch > 0 || n.State == record.NodeDraining {
			pods[n.Name] = max(l.MaxPods[n.Name], n.Pods)
		}
	}
	l.MaxPods = pods
}

// minLiveLines is the number of lines of a live view without node rows: two lines above, one with titles,
// three below.
const minLiveLines = 6

// LiveLines returns the lines of a live view: at most height lines, each narrower than o.Width cells. Each
// node in flight has a row. If the rows do not fit, a last row counts the nodes that are left out.
func LiveLines(l *LiveView, o Options, height int) []string {
	s := &l.Status
	lines := []string{o.truncate(l.describeHeader()), o.formatProgressBar(s.Replaced, s.Total, l.describeTimeLeft())}
	rows := l.listRows()
	shown := rows[:min(len(rows), max(0, height-minLiveLines))]
	if len(shown) < len(rows) && len(shown) > 0 {
		shown = shown[:len(shown)-1]
	}
	lines = append(lines, o.formatLiveRows(shown)...)
	if more := len(rows) - len(shown); more > 0 {
		lines = append(lines, o.truncate(fmt.Sprintf(" and %s in flight", formatCount(more, "more node"))))
	}
	for _, line := range []string{l.describeCounts(), l.describeImpacts(), withPrefix(" waiting for ", s.Waiting)} {
		if line != "" {
			lines = append(lines, o.truncate(line))
		}
	}
	return lines[:max(0, min(len(lines), height))]
}

// FollowLines returns the lines of a live view of an upgrade that another process may run. Below the lines of
// LiveLines it shows the process, read errors and leftovers. It returns at most height lines, each narrower
// than o.Width cells.
func FollowLines(l *LiveView, s *UpgradeStatus, o Options, height int) []string {
	about := []string{" run by " + cmp.Or(s.Holder, s.Follows, "nobody")}
	if s.Unread != "" {
		about = append(about, " the group could not be read, only the cluster's nodes are shown: "+s.Unread)
	}
	for _, left := range s.Leftovers {
		about = append(about, " left over: "+left.What+": "+left.Remedy)
	}
	about = about[:max(0, min(len(about), height-minLiveLines))]
	for i := range about {
		about[i] = o.truncate(about[i])
	}
	return append(LiveLines(l, o, height-len(about)), about...)
}

// describeHeader returns the first line: the group, its target, the phase and the size.
func (l *LiveView) describeHeader() string {
	s, r := &l.Status, l.Record
	text := fmt.Sprintf("%s to %s  %s", s.Group, cmp.Or(r.Target.Name, "?"), s.Phase)
	if s.Manager != "" {
		text += " by " + s.Manager
	}
	if l.Stopping != "" {
		text += ", stopping: " + string(l.Stopping)
	}
	group := s.Counted()
	if group.Max > 0 {
		text += fmt.Sprintf("  desired %d, max %d", group.Desired, group.Max)
	}
	if s.Owed > 0 {
		text += fmt.Sprintf(", %d ours", s.Owed)
	}
	if group.New > group.NewReady {
		text += fmt.Sprintf("  %d of %s ready", group.NewReady, formatCount(group.New, "new node"))
	}
	return text
}

// describeTimeLeft returns the time left or, if that is not known, the time since the start.
func (l *LiveView) describeTimeLeft() string {
	left := l.TimeLeft.formatLeft(l.At)
	switch r := &l.TimeLeft; {
	case left != "" && r.RemainingUnknown == "":
		return left
	case r.RemainingUnknown == "" && r.RemainingEnds != nil:
		return "ends " + describeEnds(r.RemainingEnds)
	case !l.Record.Started.IsZero():
		return "started " + duration.HumanDuration(max(0, l.At.Sub(l.Record.Started))) + " ago" + withPrefix(", ", left)
	default:
		return left
	}
}

// liveRow is the row of a node in flight.
type liveRow struct {
	state, node, zone, pods, since, waits string
	tone                                  tone
}

// isPassedOver reports whether the service that replaces the nodes has not begun with a node because something keeps it.
func (l *LiveView) isPassedOver(n *record.NodeStatus) bool {
	return n.State == record.NodePending && slices.ContainsFunc(l.Blocked, func(b drain.Blocked) bool { return b.Passed && b.Node == n.Name })
}

// listRows returns the rows of the nodes in flight, in the order in which their drains started, and of nodes that something
// keeps.
func (l *LiveView) listRows() []liveRow {
	waits := map[string]Wait{}
	for _, w := range CollectWaits(l.Blocked, l.At) {
		if before, known := waits[w.Node]; !known || w.Since.Before(before.Since) {
			waits[w.Node] = w
		}
	}
	nodes := slices.DeleteFunc(slices.Clone(l.Status.Nodes), func(n record.NodeStatus) bool {
		return n.Batch == 0 && n.State != record.NodeDraining && !l.isPassedOver(&n) || n.State == record.NodeQuarantined || n.State == record.NodeDrained
	})
	slices.SortStableFunc(nodes, func(a, b record.NodeStatus) int {
		return l.Record.Nodes[a.Name].Began.Compare(l.Record.Nodes[b.Name].Began)
	})
	rows := make([]liveRow, 0, len(nodes))
	for _, n := range nodes {
		row := liveRow{state: strings.ToLower(string(n.State)), node: n.Name, zone: cmp.Or(n.Zone, "-"), pods: strconv.Itoa(n.Pods), since: "-"}
		if l.isPassedOver(&n) { // its pods are not counted before its drain
			row.state, row.pods = "kept", "-"
		}
		if all := l.MaxPods[n.Name]; all > 0 {
			row.pods = fmt.Sprintf("%d/%d", n.Pods, all)
		}
		if since := l.stateSince(n); !since.IsZero() {
			row.since = duration.HumanDuration(max(0, l.At.Sub(since)))
		}
		if w, blocked := waits[n.Name]; blocked {
			if row.waits = l.describeWait(w); w.Lasting {
				row.tone = warning
			}
		}
		if n.Silent != "" {
			row.waits, row.tone = n.Silent, bad
		}
		rows = append(rows, row)
	}
	return rows
}

// describeWait returns what a node waits for in a few words: a budget with its numbers, or the cause of the
// wait.
func (l *LiveView) describeWait(w Wait) string {
	i := slices.IndexFunc(l.Blocked, func(b drain.Blocked) bool { return b.Node == w.Node && b.Since.Equal(w.Since) })
	if i < 0 || l.Blocked[i].BudgetName() == "" {
		return w.Cause
	}
	b := &l.Blocked[i]
	text := fmt.Sprintf("%s needs %d ready, has %d", b.BudgetName(), b.Need, b.Have)
	if w.Pods > 1 {
		text += fmt.Sprintf(" (%s)", formatCount(w.Pods, "pod"))
	}
	return text
}

// stateSince returns when the node entered its state. It returns the zero time if the record does not have it.
func (l *LiveView) stateSince(n record.NodeStatus) time.Time {
	of := l.Record.Nodes[n.Name]
	switch n.State {
	case record.NodeEmpty:
		return of.EmptyAt
	case record.NodeRemoving:
		return of.Terminated
	default:
		return of.Began
	}
}

// describeCounts returns the numbers of waiting and replaced nodes, and the names of quarantined nodes.
func (l *LiveView) describeCounts() string {
	s := &l.Status
	parts := []string{fmt.Sprintf(" %d waiting", s.Outdated), fmt.Sprintf("%d replaced", s.Replaced)}
	for _, n := range s.Nodes {
		if n.State == record.NodeQuarantined {
			parts = append(parts, "set aside: "+n.Name+Parenthesize(l.Record.Nodes[n.Name].Reason))
		}
	}
	return strings.Join(parts, " · ")
}

// describeImpacts returns the number of evictions, and the workloads with fewer ready pods than before. Only
// workloads with evicted pods are watched, so a good state is reported only for these. The evictions of a service are not
// counted, so their number is left out.
func (l *LiveView) describeImpacts() string {
	evictions := 0
	for _, w := range l.Impacts {
		evictions += w.Evictions
	}
	text := " " + formatCount(evictions, "eviction")
	if l.Status.Manager != "" && evictions == 0 {
		text = " evictions by " + l.Status.Manager + " are not counted"
	}
	switch without, fewer, stuck := namesWithoutReadyPod(l.Impacts), countDegraded(l.Impacts), l.Status.Unhealthy; {
	case len(without) > 0:
		text += " · without a ready pod: " + JoinFew(without)
	case len(stuck) > 0:
		text += " · not recovering: " + JoinFew(namesOfUnhealthy(stuck))
	case fewer > 0:
		text += fmt.Sprintf(" · %s with fewer ready pods than before", formatCount(fewer, "workload"))
	case evictions > 0:
		text += " · each evicted workload has its ready pods"
	}
	return text + withPrefix(" · ", l.Hint)
}

// namesWithoutReadyPod returns the names of the workloads that had a ready pod and have none now.
func namesWithoutReadyPod(all []record.WorkloadImpact) []string {
	var names []string
	for _, w := range all {
		if w.Out {
			names = append(names, w.Name)
		}
	}
	return names
}

// countDegraded counts the workloads that have fewer ready pods than before.
func countDegraded(all []record.WorkloadImpact) int {
	n := 0
	for _, w := range all {
		if w.Lacks > 0 || w.Out {
			n++
		}
	}
	return n
}

func namesOfUnhealthy(all []record.Unhealthy) []string {
	names := make([]string, 0, len(all))
	for _, u := range all {
		names = append(names, u.Name)
	}
	return names
}

// truncate cuts a line to one cell less than the width, because some terminals wrap after the last cell.
func (o Options) truncate(line string) string {
	return TruncateLine(sanitizeCell(o.Style, line), o.Width-1)
}

// drawBar returns a bar of the given width in cells that shows the share of part in whole.
func drawBar(part, whole, cells int) string {
	full := 0
	if whole > 0 {
		full = min(cells, cells*part/whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// formatProgressBar returns a line with the share of replaced nodes as a bar, and the time left. On a narrow
// terminal the line has no bar.
func (o Options) formatProgressBar(replaced, total int, rest string) string {
	percent := 0
	if total > 0 {
		percent = 100 * replaced / total
	}
	before := fmt.Sprintf("%d of %d replaced ", replaced, total)
	after := fmt.Sprintf(" %d%%  %s", percent, rest)
	const most, least = 30, 5
	cells := min(most, o.Width-1-len(before)-len(after))
	if cells < least {
		return o.truncate(before + strings.TrimLeft(after, " "))
	}
	return o.truncate(before + drawBar(replaced, total, cells) + after)
}

// formatLiveRows returns one line for each row, below a line with titles. It returns nil if there are no rows.
func (o Options) formatLiveRows(rows []liveRow) []string {
	if len(rows) == 0 {
		return nil
	}
	table := [][]string{{"STATE", "NODE", "ZONE", "PODS", "FOR", "WAITS FOR"}}
	f := fittedTable{columns: []column{{}, {title: "NODE", cut: cutDomain}, {title: "ZONE", cut: cutRegion}, {}, {}, {}}}
	for _, row := range rows {
		cells := []string{row.state, row.node, row.zone, row.pods, row.since, row.waits}
		f.rows = append(f.rows, sanitizeRows(o.Style, [][]string{cells})[0])
	}
	f.cutCommonNameParts()
	table = append(table, f.rows...)
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], displayWidth(cell))
		}
	}
	lines := make([]string, 0, len(table))
	for r, cells := range table {
		var text strings.Builder
		for i, cell := range cells {
			if text.WriteString(" " + cell); i+1 < len(cells) {
				text.WriteString(strings.Repeat(" ", widths[i]-displayWidth(cell)+1))
			}
		}
		line := TruncateLine(strings.TrimRight(text.String(), " "), o.Width-1)
		if r > 0 {
			line = o.paint(rows[r-1].tone, line)
		}
		lines = append(lines, line)
	}
	return lines
}
