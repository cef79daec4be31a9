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

// Live is an upgrade under way as a live view shows it.
type Live struct {
	Moment
	Record *record.Record
	// Impacts are what the upgrade cost workloads so far.
	Impacts []record.WorkloadImpact
	// AllPods is how many pods each node in flight had at first, as far as was seen.
	AllPods map[string]int
	// Rest is what is known of the rest; its zero value for nothing.
	Rest Rest
	// Hint says what Ctrl-C does.
	Hint string
}

// See takes in what the view shows from now on.
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

// leastLive is how many lines a live view takes beside its rows: two above them, one with their titles, three beneath.
const leastLive = 6

// LiveLines are the lines of a live view: no more than so many, and none wider than so many cells. Nodes in flight have a row
// each; of too many the last ones are counted.
func LiveLines(l *Live, o Options, height int) []string {
	p := newPage(nil, o)
	s := &l.Status
	lines := []string{p.cut(l.describeHead()), p.cutBar(s.Replaced, s.Total, l.describeRest())}
	rows := l.listRows()
	shown := rows[:min(len(rows), max(0, height-leastLive))]
	if len(shown) < len(rows) && len(shown) > 0 {
		shown = shown[:len(shown)-1]
	}
	lines = append(lines, p.formatRows(shown)...)
	if more := len(rows) - len(shown); more > 0 {
		lines = append(lines, p.cut(fmt.Sprintf(" and %s in flight", formatCount(more, "more node"))))
	}
	for _, line := range []string{l.describeCounts(), l.describeImpacts(), withPrefix(" waiting for ", s.Waiting)} {
		if line != "" {
			lines = append(lines, p.cut(line))
		}
	}
	return lines[:min(len(lines), height)]
}

// AboutLines say who carries an upgrade out, and what could not be read or is left over.
func AboutLines(s *UpgradeStatus, o Options) []string {
	p := newPage(nil, o)
	lines := []string{" run by " + cmp.Or(s.Holder, "nobody")}
	if s.Unread != "" {
		lines = append(lines, " not read: the group, only what the cluster tells: "+s.Unread)
	}
	for _, l := range s.Leftovers {
		lines = append(lines, " left over: "+l.What+": "+l.Remedy)
	}
	for i := range lines {
		lines[i] = p.cut(lines[i])
	}
	return lines
}

// describeHead says what is upgraded to what, in which phase, and how large the group is.
func (l *Live) describeHead() string {
	s, r := &l.Status, l.Record
	text := fmt.Sprintf("%s to %s  %s", s.Group, cmp.Or(r.Target.Name, "?"), s.Phase)
	if s.Manager != "" {
		text += " by " + s.Manager
	}
	if l.Stopping != "" {
		text += ", stopping: " + string(l.Stopping)
	}
	if s.Max > 0 {
		text += fmt.Sprintf("  desired %d, max %d", s.Desired, s.Max)
	}
	if s.Owed > 0 {
		text += fmt.Sprintf(", %d ours", s.Owed)
	}
	if s.New > s.NewReady {
		text += fmt.Sprintf("  %d of %s ready", s.NewReady, formatCount(s.New, "new node"))
	}
	return text
}

// describeRest says how long it takes still or, where no one knows, for how long it has gone on.
func (l *Live) describeRest() string {
	switch r := &l.Rest; {
	case r.RemainingUnknown == "" && r.RemainingEnds == nil && r.Remaining.Latest.Duration > 0:
		return formatSpan(r.Remaining) + " left"
	case r.RemainingUnknown == "" && r.RemainingEnds != nil:
		return "ends " + describeEnds(r.RemainingEnds)
	case !l.Record.Started.IsZero():
		return "started " + duration.HumanDuration(max(0, l.At.Sub(l.Record.Started))) + " ago"
	default:
		return ""
	}
}

// liveRow is the row of a node in flight.
type liveRow struct {
	state, node, zone, pods, since, waits string
	tone                                  tone
}

// listRows are those of the nodes in flight, in order of their start.
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

// describeWait says in few words what a node waits for: its budget, or what keeps a pod.
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

// stateSince is when the node came into its state, as far as the record tells.
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

// describeCounts counts the nodes that are not in flight, and names those that were set aside.
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

// describeImpacts says what the upgrade cost workloads so far.
func (l *Live) describeImpacts() string {
	evictions, without, lacking := 0, []string{}, 0
	for _, w := range l.Impacts {
		evictions += w.Evictions
		if w.Out {
			without = append(without, w.Name)
		}
		if w.Lacks > 0 {
			lacking++
		}
	}
	text := " " + formatCount(evictions, "eviction")
	switch {
	case len(without) > 0:
		text += " · without a ready pod: " + NameFew(without)
	case lacking > 0:
		text += fmt.Sprintf(" · %s with fewer ready pods than before", formatCount(lacking, "workload"))
	default:
		text += " · all workloads have their ready pods"
	}
	return text + withPrefix(" · ", l.Hint)
}

// cut cuts a line to the page's width. Some terminals wrap after their last cell, which stays free.
func (p *page) cut(line string) string { return CutLine(sanitizeCell(p.Style, line), p.Width-1) }

// bar is a bar of so many cells for a part of a whole.
func bar(part, whole, cells int) string {
	full := 0
	if whole > 0 {
		full = min(cells, cells*part/whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// cutBar draws how many of all nodes are replaced, and says how long it takes.
func (p *page) cutBar(replaced, total int, rest string) string {
	percent := 0
	if total > 0 {
		percent = 100 * replaced / total
	}
	before := fmt.Sprintf("%d of %d replaced ", replaced, total)
	after := fmt.Sprintf(" %d%%  %s", percent, rest)
	const most, least = 30, 5
	cells := min(most, p.Width-1-len(before)-len(after))
	if cells < least {
		return p.cut(before + strings.TrimLeft(after, " "))
	}
	return p.cut(before + bar(replaced, total, cells) + after)
}

// formatRows draws the rows under their titles, each on one line; none where there are no rows.
func (p *page) formatRows(rows []liveRow) []string {
	if len(rows) == 0 {
		return nil
	}
	table := [][]string{{"STATE", "NODE", "ZONE", "PODS", "FOR", "WAITS FOR"}}
	f := fitted{columns: []column{{}, {title: "NODE", cut: cutDomain}, {title: "ZONE", cut: cutRegion}, {}, {}, {}}}
	for _, row := range rows {
		cells := []string{row.state, row.node, row.zone, row.pods, row.since, row.waits}
		f.rows = append(f.rows, sanitizeRows(p.Style, [][]string{cells})[0])
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
		line := CutLine(strings.TrimRight(text.String(), " "), p.Width-1)
		if r > 0 {
			line = p.paint(rows[r-1].tone, line)
		}
		lines = append(lines, line)
	}
	return lines
}
