package report

import (
	"io"
	"slices"
	"strings"
)

// maxMarkdownNodes is how many nodes a Markdown report lists. HTML and JSON reports list all nodes.
const maxMarkdownNodes = 100

// WriteReportMarkdown writes the report as Markdown, for example for a ticket.
func WriteReportMarkdown(w io.Writer, r *RunReport) error {
	out := newPage(w, Options{Style: Markdown})
	heading := func(text string) { out.addRawLine("\n## " + sanitizeCell(Markdown, text) + "\n") }
	out.addRawLine("# Node group " + sanitizeCell(Markdown, r.Name) + "\n")
	out.addVerdict(r.verdict())
	heading("Summary")
	var facts [][]string
	for _, f := range r.listFacts() {
		facts = append(facts, []string{f.name, f.value})
	}
	out.addTable([]column{{title: "What"}, {title: "Value"}}, facts)
	if len(r.NotKnown) > 0 {
		out.addRawLine("\nNot known:\n")
		for _, line := range r.NotKnown {
			out.addRawLine("* " + sanitizeCell(Markdown, line))
		}
	}
	r.addNodesMarkdown(out, heading)
	tables := []struct {
		title   string
		header  []string
		rows    [][]string
		without string
		after   []string
	}{
		{"Workloads", workloadHeader, r.workloadRows(), "Unknown: no workload was measured.", r.readyPodLines()},
		{"What delayed it", waitCauseHeader, r.waitCauseRows(), r.describeNoWaits(), nil},
		{r.waysTitle(), wayHeader, r.wayRows(), "", r.wayLines()},
		{"Findings", []string{"Severity", "Rule", "Finding"}, r.findingRows(), r.describeNoFindings(), nil},
		{"Settings", []string{"Setting", "Value"}, r.settingRows(), "None: no upgrade is planned or recorded.", nil},
	}
	for _, t := range tables {
		heading(t.title)
		var columns []column
		for _, title := range t.header {
			columns = append(columns, column{title: title})
		}
		switch {
		case len(t.rows) > 0:
			out.addTable(columns, t.rows)
		case t.without != "":
			out.addRawLine(t.without)
		}
		for i, line := range t.after {
			if i > 0 || len(t.rows) > 0 {
				out.addRawLine("")
			}
			out.addRawLine(sanitizeCell(Markdown, line))
		}
	}
	return out.err
}

// readyPodLines returns a line for each charted workload with its numbers of ready pods over time.
func (r *RunReport) readyPodLines() []string {
	lines := make([]string, 0, len(r.Ready))
	for i := range r.Ready {
		lines = append(lines, r.Ready[i].describe(r.From))
	}
	return lines
}

// addNodesMarkdown adds a table of nodes, which replaces the timeline of the HTML report.
func (r *RunReport) addNodesMarkdown(out *page, heading func(string)) {
	nodes := slices.Concat(r.Nodes, r.listNotStarted())
	if len(nodes) == 0 {
		return
	}
	heading("Nodes")
	planned := r.plannedByName()
	var rows [][]string
	for i := range nodes[:min(len(nodes), maxMarkdownNodes)] {
		n := &nodes[i]
		plan := "-"
		if p := planned[n.Name]; p != nil && p.End.Latest.Duration > 0 {
			plan = formatStart(p.Start) + " to " + FormatSpan(p.End)
		}
		began := "-"
		if len(n.States) > 0 {
			began = "+" + formatWholeSeconds(n.States[0].From.Sub(r.From))
		}
		rows = append(rows, []string{n.Name, dashUnless(n.Zone != "", n.Zone), began, n.outcome(), dashUnless(len(n.Waits) > 0, strings.ReplaceAll(describePeriods(n.Waits), " · ", "; ")), plan})
	}
	out.addTable([]column{{title: "Node"}, {title: "Zone"}, {title: "Began"}, {title: "Took"}, {title: "Waited for"}, {title: "Planned"}}, rows)
	if more := len(nodes) - len(rows); more > 0 {
		out.addRawLine("\nand " + formatCount(more, "more node"))
	}
}
