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

// Live is what a live view shows of a running upgrade.
type Live struct {
	Moment
	Record *record.Record
	// Impacts lists what the upgrade has cost workloads so far.
	Impacts []record.WorkloadImpact
	// AllPods counts, by node in flight, the most pods that the view has seen on it.
	AllPods map[string]int
	// Hint says what Ctrl-C does.
	Hint string
}

// See replaces what the view shows, and keeps the pods that each node in flight had at first.
func (l *Live) See(now Moment, rec *record.Record, impacts []record.WorkloadImpact) {
	l.Moment, l.Record, l.Impacts = now, rec, impacts
	pods := map[string]int{}
	for _, n := range now.Status.Nodes {
		if n.Batch > 0 || n.State == record.NodeDraining {
			pods[n.Name] = max(l.AllPods[n.Name], n.Pods)
		}
	}
	l.AllPods = pods
}

// leastLive is the number of lines of a live view without its rows: two above them, their titles, three below.
const leastLive = 6

// LiveLines returns the lines of a live view: at most height lines, each narrower than o.Width cells. Each node in flight has a
// row. If the rows do not fit, the last one counts the nodes that are left out.
func LiveLines(l *Live, o Options, height int) []string {
	s := &l.Status
	lines := []string{o.cut(l.describeHead()), o.cutBar(s.Replaced, s.Total, l.describeRest())}
	rows := l.listRows()
	shown := rows[:min(len(rows), max(0, height-leastLive))]
	if len(shown) < len(rows) && len(shown) > 0 {
		shown = shown[:len(shown)-1]
	}
	lines = append(lines, o.formatRows(shown)...)
	if more := len(rows) - len(shown); more > 0 {
		lines = append(lines, o.cut(fmt.Sprintf(" and %s in flight", formatCount(more, "more node"))))
	}
	for _, line := range []string{l.describeCounts(), l.describeImpacts(), withPrefix(" waiting for ", s.Waiting)} {
		if line != "" {
			lines = append(lines, o.cut(line))
		}
	}
	return lines[:max(0, min(len(lines), height))]
}

// FollowLines returns the lines of a live view of an upgrade that another process may run: those of LiveLines and, below them, that
// process, what could not be read and what is left over. They are at most height lines, each narrower than o.Width cells.
func FollowLines(l *Live, s *UpgradeStatus, o Options, height int) []string {
	about := []string{" run by " + cmp.Or(s.Holder, "nobody")}
	if s.Unread != "" {
		about = append(about, " the group could not be read, only the cluster's nodes are shown: "+s.Unread)
	}
	for _, left := range s.Leftovers {
		about = append(about, " left over: "+left.What+": "+left.Remedy)
	}
	about = about[:max(0, min(len(about), height-leastLive))]
	for i := range about {
		about[i] = o.cut(about[i])
	}
	return append(LiveLines(l, o, height-len(about)), about...)
}

// describeHead returns the first line: the group, its target, the phase and the size.
func (l *Live) describeHead() string {
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

// describeRest returns the time left. If that is not known, it returns the time since the start.
func (l *Live) describeRest() string {
	left := l.Rest.left(l.At)
	switch r := &l.Rest; {
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

// liveRow is the row of one node in flight.
type liveRow struct {
	state, node, zone, pods, since, waits string
	tone                                  tone
}

// listRows returns the rows of the nodes in flight, in the order in which the nodes were started.
func (l *Live) listRows() []liveRow {
	waits := map[string]Wait{}
	for _, w := range CollectWaits(l.Blocked, l.At) {
		if before, known := waits[w.Node]; !known || w.Since.Before(before.Since) {
			waits[w.Node] = w
		}
	}
	nodes := slices.DeleteFunc(slices.Clone(l.Status.Nodes), func(n record.NodeStatus) bool {
		return n.Batch == 0 && n.State != record.NodeDraining || n.State == record.NodeQuarantined || n.State == record.NodeDrained
	})
	slices.SortStableFunc(nodes, func(a, b record.NodeStatus) int {
		return l.Record.Nodes[a.Name].Began.Compare(l.Record.Nodes[b.Name].Began)
	})
	rows := make([]liveRow, 0, len(nodes))
	for _, n := range nodes {
		row := liveRow{state: strings.ToLower(string(n.State)), node: n.Name, zone: cmp.Or(n.Zone, "-"), pods: strconv.Itoa(n.Pods), since: "-"}
		if all := l.AllPods[n.Name]; all > 0 {
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

// describeWait returns a few words on what a node waits for: a budget with its numbers, or the cause of the wait.
func (l *Live) describeWait(w Wait) string {
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

// stateSince returns when the node entered its state, and the zero time if the record does not show it.
func (l *Live) stateSince(n record.NodeStatus) time.Time {
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

// describeCounts counts the nodes that are not in flight and names the quarantined ones.
func (l *Live) describeCounts() string {
	s := &l.Status
	parts := []string{fmt.Sprintf(" %d waiting", s.Outdated), fmt.Sprintf("%d replaced", s.Replaced)}
	for _, n := range s.Nodes {
		if n.State == record.NodeQuarantined {
			parts = append(parts, "set aside: "+n.Name+Parenthesize(l.Record.Nodes[n.Name].Reason))
		}
	}
	return strings.Join(parts, " · ")
}

// describeImpacts counts the evictions, and names or counts the workloads that are worse off than before. It says that there are
// none only of the workloads whose pods were evicted: the others are not counted.
func (l *Live) describeImpacts() string {
	evictions := 0
	for _, w := range l.Impacts {
		evictions += w.Evictions
	}
	text := " " + formatCount(evictions, "eviction")
	switch without, fewer, stuck := namesWithout(l.Impacts), countLacking(l.Impacts), l.Status.Unhealthy; {
	case len(without) > 0:
		text += " · without a ready pod: " + NameFew(without)
	case len(stuck) > 0:
		text += " · not recovering: " + NameFew(namesOf(stuck))
	case fewer > 0:
		text += fmt.Sprintf(" · %s with fewer ready pods than before", formatCount(fewer, "workload"))
	case evictions > 0:
		text += " · each evicted workload has its ready pods"
	}
	return text + withPrefix(" · ", l.Hint)
}

// namesWithout returns the workloads that have no ready pod now and had one before.
func namesWithout(all []record.WorkloadImpact) []string {
	var names []string
	for _, w := range all {
		if w.Out {
			names = append(names, w.Name)
		}
	}
	return names
}

// countLacking counts the workloads that have fewer ready pods now than before.
func countLacking(all []record.WorkloadImpact) int {
	n := 0
	for _, w := range all {
		if w.Lacks > 0 || w.Out {
			n++
		}
	}
	return n
}

func namesOf(all []record.Unhealthy) []string {
	names := make([]string, 0, len(all))
	for _, u := range all {
		names = append(names, u.Name)
	}
	return names
}

// cut cuts a line to one cell less than the width, because some terminals wrap after their last cell.
func (o Options) cut(line string) string { return CutLine(sanitizeCell(o.Style, line), o.Width-1) }

// bar draws part of whole as a bar of that many cells.
func bar(part, whole, cells int) string {
	full := 0
	if whole > 0 {
		full = min(cells, cells*part/whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// cutBar draws the share of replaced nodes as a bar, with the rest behind it. A narrow terminal has no bar.
func (o Options) cutBar(replaced, total int, rest string) string {
	percent := 0
	if total > 0 {
		percent = 100 * replaced / total
	}
	before := fmt.Sprintf("%d of %d replaced ", replaced, total)
	after := fmt.Sprintf(" %d%%  %s", percent, rest)
	const most, least = 30, 5
	cells := min(most, o.Width-1-len(before)-len(after))
	if cells < least {
		return o.cut(before + strings.TrimLeft(after, " "))
	}
	return o.cut(before + bar(replaced, total, cells) + after)
}

// formatRows draws the rows below their titles, each on one line. Without rows there are no titles.
func (o Options) formatRows(rows []liveRow) []string {
	if len(rows) == 0 {
		return nil
	}
	table := [][]string{{"STATE", "NODE", "ZONE", "PODS", "FOR", "WAITS FOR"}}
	f := fitted{columns: []column{{}, {title: "NODE", cut: cutDomain}, {title: "ZONE", cut: cutRegion}, {}, {}, {}}}
	for _, row := range rows {
		cells := []string{row.state, row.node, row.zone, row.pods, row.since, row.waits}
		f.rows = append(f.rows, sanitizeRows(o.Style, [][]string{cells})[0])
	}
	f.cutNames()
	table = append(table, f.rows...)
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], cellsOf(cell))
		}
	}
	lines := make([]string, 0, len(table))
	for r, cells := range table {
		var text strings.Builder
		for i, cell := range cells {
			if text.WriteString(" " + cell); i+1 < len(cells) {
				text.WriteString(strings.Repeat(" ", widths[i]-cellsOf(cell)+1))
			}
		}
		line := CutLine(strings.TrimRight(text.String(), " "), o.Width-1)
		if r > 0 {
			line = o.paint(rows[r-1].tone, line)
		}
		lines = append(lines, line)
	}
	return lines
}
