package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// Options say how a value is written for people.
type Options struct {
	Style Style
	// Wide adds columns.
	Wide bool
	// Now is what ages are counted to.
	Now time.Time
}

// WriteGroups writes the list of groups.
func WriteGroups(w io.Writer, list *NodeGroupList, o Options) error {
	header := []string{"NAME", "PROVIDER", "NODES", "OUTDATED", "PHASE", "AGE"}
	if o.Wide {
		header = append(header, "KIND", "WANTED", "REFUSED-BECAUSE")
	}
	var rows [][]string
	for i := range list.Items {
		g := &list.Items[i]
		outdated := "?"
		if g.Outdated != nil {
			outdated = strconv.Itoa(*g.Outdated)
		}
		row := []string{g.Name, g.Provider, strconv.Itoa(g.Nodes), outdated, dash(g.Phase), age(g.Created, o.Now)}
		if o.Wide {
			row = append(row, g.Kind, dash(g.Wanted), dash(g.Refusal))
		}
		rows = append(rows, row)
	}
	return WriteTable(w, o.Style, header, rows)
}

func age(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(since))
}

// WritePlan writes what happens to the group, then the nodes in order of start, then what was found.
func WritePlan(w io.Writer, p *Plan, o Options) error {
	for _, line := range planHead(p) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if len(p.Nodes) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := writePlanNodes(w, p, o); err != nil {
			return err
		}
	}
	for _, line := range planFoot(p) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func writePlanNodes(w io.Writer, p *Plan, o Options) error {
	header := []string{"BATCH", "NODE", "ZONE", "FROM", "TO", "PODS", "STAYING", "BLOCKED-BY"}
	if o.Wide {
		header = append(header, "WHY-OUTDATED")
	}
	var rows [][]string
	for _, n := range p.Nodes {
		row := []string{
			strconv.Itoa(n.Batch), n.Name, dash(n.Zone), dash(n.From), dash(n.To),
			strconv.Itoa(n.Pods), strconv.Itoa(n.Staying), blockers(n.BlockedBy, o.Wide),
		}
		if o.Wide {
			row = append(row, dash(n.Why))
		}
		rows = append(rows, row)
	}
	return WriteTable(w, o.Style, header, rows)
}

// blockers is the first blocker and how many more there are, or all of them in a wide table.
func blockers(all []string, wide bool) string {
	switch {
	case len(all) == 0:
		return "-"
	case wide || len(all) == 1:
		return strings.Join(all, "; ")
	default:
		return fmt.Sprintf("%s (+%d)", all[0], len(all)-1)
	}
}

func planHead(p *Plan) []string {
	lines := []string{fmt.Sprintf("Node group %s (%s), context %s%s", p.Name, p.Kind, dash(p.Context), comma(p.Account))}
	if len(p.Nodes) == 0 {
		return append(lines, fmt.Sprintf("Nothing to do: all %d nodes are current (%s).", p.Current, p.To.Name))
	}
	lines = append(lines, fmt.Sprintf("Target      %s: %d of %d nodes are outdated", describe(p), len(p.Nodes), len(p.Nodes)+p.Current))
	req := &p.Request
	lines = append(lines, fmt.Sprintf("Strategy    %s like %s: at most %d in flight, %d unavailable; %s to drain a node, then %s; settle %s",
		req.Strategy, req.Like, req.Window, req.MaxUnavailable, req.DrainTimeout, req.OnTimeout, req.Settle))
	if p.Sizes.Max > 0 {
		lines = append(lines, sizes(p))
	}
	if len(p.Quiesce) > 0 {
		lines = append(lines, "Suspends    "+strings.Join(p.Quiesce, ", ")+" meanwhile")
	}
	if p.Resumes != "" {
		lines = append(lines, "Goes on     with run "+p.Resumes)
	}
	return lines
}

func comma(text string) string {
	if text == "" {
		return ""
	}
	return ", " + text
}

func describe(p *Plan) string {
	text := p.To.Name
	if p.To.Image != "" {
		text += ", " + p.To.Image
	}
	if p.To.Kubernetes != "" {
		text += ", kubelet " + p.To.Kubernetes
	}
	if p.From.ID != p.To.ID {
		text += fmt.Sprintf(" (the group points at %s now)", p.From.Name)
	}
	return text
}

func sizes(p *Plan) string {
	text := fmt.Sprintf("Size        desired %d, min %d, max %d", p.Sizes.Desired, p.Sizes.Min, p.Sizes.Max)
	if p.Request.Surge == 0 {
		return text + "; no node is added first"
	}
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(p.Surge)) {
		if zone == "" {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s +%d", zone, p.Surge[zone]))
	}
	text += fmt.Sprintf("; +%d while it lasts", p.Request.Surge)
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text + fmt.Sprintf(", at most %d, and back to %d", p.Peak, p.Sizes.Desired)
}

func planFoot(p *Plan) []string {
	var lines []string
	lines = append(lines, findings(p.Findings)...)
	for _, probe := range p.Probes {
		lines = append(lines, fmt.Sprintf("Probe       pod %s%s: %s", probe.Pod, under(probe.Budget), probe.Answer))
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}

// findings writes one line for all objects of which the same is to be said.
func findings(all []preflight.Finding) []string {
	var lines []string
	more := map[string]int{}
	for _, f := range all {
		more[f.Rule+f.Message]++
	}
	for _, f := range all {
		n := more[f.Rule+f.Message]
		if n == 0 {
			continue // said already
		}
		if n > 1 && f.Object != "" {
			f.Object += fmt.Sprintf(" and %d more", n-1)
		}
		delete(more, f.Rule+f.Message)
		lines = append(lines, mark(f.Severity)+f.String())
	}
	return lines
}

func under(budget string) string {
	if budget == "" {
		return ""
	}
	return " under PDB " + budget
}

func mark(s preflight.Severity) string {
	switch s {
	case preflight.Refuse:
		return "Refused     "
	case preflight.Block:
		return "Blocked     "
	default:
		return "Note        "
	}
}

// WriteStatus writes an upgrade as it stands, on one screen.
func WriteStatus(w io.Writer, s *UpgradeStatus, o Options) error {
	for _, line := range statusHead(s, o.Now) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, n := range s.Status.Nodes {
		if n.Batch > 0 {
			rows = append(rows, []string{n.Name, dash(n.Zone), string(n.State), strconv.Itoa(n.Batch), strconv.Itoa(n.Pods), strconv.Itoa(n.Staying)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return WriteTable(w, o.Style, []string{"NODE", "ZONE", "STATE", "BATCH", "PODS", "STAYING"}, rows)
}

func statusHead(s *UpgradeStatus, now time.Time) []string {
	st := &s.Status
	if s.Run == "" {
		return []string{fmt.Sprintf("Node group %s: no upgrade was started with this tool; %d outdated", s.Name, st.Outdated)}
	}
	lines := []string{
		fmt.Sprintf("Node group %s, run %s to %s, started %s ago", s.Name, s.Run, s.Target.Name, age(s.Started, now)),
		fmt.Sprintf("Phase       %s, for %s", st.Phase, age(st.Since, now)),
		fmt.Sprintf("Progress    %d of %d nodes replaced, %d not started", st.Replaced, st.Total, st.Outdated),
		fmt.Sprintf("Held by     %s", dash(s.Holder)),
	}
	if s.Result != "" {
		lines = append(lines, fmt.Sprintf("Ended       %s%s", s.Result, colon(s.Message)))
	}
	if st.Waiting != "" {
		lines = append(lines, "Waits for   "+st.Waiting)
	}
	for _, w := range Waits(s.Blocked, now) {
		lines = append(lines, fmt.Sprintf("Blocked     node %s%s: %s", w.Node, w.lasted(now), w))
	}
	if st.Owed > 0 {
		lines = append(lines, "Still ours  "+plural(st.Owed, "added node"))
	}
	if len(s.Suspended) > 0 {
		lines = append(lines, "Still ours  suspended "+strings.Join(s.Suspended, ", "))
	}
	return lines
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
