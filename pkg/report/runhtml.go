package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// WriteReportHTML writes the report as one HTML page without scripts and links. The page also contains the
// report as JSON.
func WriteReportHTML(w io.Writer, r *RunReport) error {
	data, err := json.Marshal(convertReport(*r)) // Marshal writes < as \u003c
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	b.WriteString("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	b.WriteString(string(textElement("title", "Node group "+r.Name+": "+string(r.About))) + "\n<style>" + reportStyle + "</style>\n</head>\n<body>\n<main>\n")
	t, verdict := r.verdict()
	b.WriteString(string(textElement("h1", "Node group "+r.Name)) + "\n")
	b.WriteString(string(textElement("p", verdict, class("verdict "+cssClassOfTone(t)))) + "\n")
	for _, section := range r.sections() {
		if section.body != "" {
			b.WriteString(string(element("section", nil, textElement("h2", section.title), "\n", section.body)) + "\n")
		}
	}
	b.WriteString("</main>\n<script type=\"application/json\" id=\"report\">")
	b.Write(data)
	b.WriteString("</script>\n</body>\n</html>\n")
	_, err = w.Write(b.Bytes())
	return err
}

// WriteReportJSON writes the report as a JSON document.
func WriteReportJSON(w io.Writer, r *RunReport) error {
	data, err := json.MarshalIndent(convertReport(*r), "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

func cssClassOfTone(t tone) string {
	return map[tone]string{good: "good", warning: "warning", bad: "bad"}[t]
}

// section is a part of the page. Sections without a body are left out.
type section struct {
	title string
	body  markup
}

func (r *RunReport) sections() []section {
	return []section{
		{"Summary", r.summaryHTML()},
		{"Timeline", r.timelineHTML()},
		{"Workloads", r.workloadsHTML()},
		{"What delayed it", r.waitCausesHTML()},
		{r.waysTitle(), r.waysHTML()},
		{"Findings", r.findingsHTML()},
		{"More", r.detailsHTML()},
	}
}

// keyFacts has the names of the facts that the page shows in large type.
var keyFacts = []string{"Nodes", "Time", "Plan said", "Evictions", "Without a ready pod", "Nodes at the peak", "Extra instance-hours"}

func (r *RunReport) summaryHTML() markup {
	var large, small []markup
	for _, f := range r.listFacts() {
		value := textElement("dd", f.value)
		if f.name == "Command" {
			value = element("dd", nil, textElement("code", f.value))
		}
		pair := element("div", nil, textElement("dt", f.name), value)
		if slices.Contains(keyFacts, f.name) {
			large = append(large, pair)
		} else {
			small = append(small, pair)
		}
	}
	body := element("dl", []attribute{class("key")}, large...) + "\n" + element("dl", []attribute{class("facts")}, small...)
	if len(r.NotKnown) == 0 {
		return body
	}
	var items []markup
	for _, line := range r.NotKnown {
		items = append(items, textElement("li", line))
	}
	return body + "\n" + textElement("h3", "Not known") + element("ul", nil, items...)
}

// legend returns a line that explains the colours of bars.
func legend(entries ...[2]string) markup {
	var items []markup
	for _, e := range entries {
		items = append(items, element("span", nil, element("i", []attribute{class(e[0])}), escapeText(e[1])))
	}
	return element("p", []attribute{class("legend")}, items...) + "\n"
}

func (r *RunReport) timelineHTML() markup {
	body := r.drawTimeline()
	if body != "" {
		body = legend([2]string{"p", "planned, earliest to latest"}, [2]string{"b", "boots"}, [2]string{"d", "drains"}, [2]string{"w", "waits"},
			[2]string{"s", "empty, settles"}, [2]string{"t", "terminates"}) + body
	}
	if body != "" && !r.From.IsZero() && (r.About == AboutPlan || r.About == AboutSimulation) {
		body += textElement("p", "This is a forecast, nothing has happened yet: coloured bars show the upgrade if pods end as soon as they may.", class("dim"))
	}
	if phases := describePeriods(r.Phases); phases != "" {
		body += textElement("p", "Phases: "+phases, class("dim"))
	}
	if sizes := r.drawSizes(); sizes != "" {
		body += textElement("h3", "Desired size over time, at most "+formatOptionalInt(r.Peak)) + legend([2]string{"g", "the group's own"}, [2]string{"b", "added by the upgrade"}) + sizes
	}
	if ready := r.drawReadyPods(); ready != "" {
		body += textElement("h3", "Ready pods of the workloads that users noticed most") + legend([2]string{"s", "ready"}, [2]string{"w", "fewer than before"}) + ready
	}
	return body
}

// describePeriods returns the periods with their durations.
func describePeriods(all []Period) string {
	parts := make([]string, 0, len(all))
	for _, p := range all {
		if p.What == string(record.PhaseDone) {
			continue
		}
		parts = append(parts, p.What+" "+formatWholeSeconds(p.To.Sub(p.From)))
	}
	return strings.Join(parts, " · ")
}

// workloadRows returns the rows of the workload table.
func (r *RunReport) workloadRows() [][]string {
	rows := make([][]string, 0, len(r.Workloads))
	for i := range r.Workloads {
		w := &r.Workloads[i]
		rows = append(rows, []string{w.Name, strconv.Itoa(w.Evictions), formatSeconds(w.Below.Duration), formatSeconds(w.None.Duration), describeCurrentLack(w)})
	}
	return rows
}

// describeCurrentLack returns how many ready pods a workload lacks at the end of the report.
func describeCurrentLack(w *record.WorkloadImpact) string {
	switch {
	case w.Out:
		return "no ready pod"
	case w.Lacks > 0:
		return formatCount(w.Lacks, "pod") + " fewer"
	default:
		return "as before"
	}
}

var (
	workloadHeader  = []string{"Workload", "Evictions", "Fewer ready than before", "None ready", "At the end"}
	waitCauseHeader = []string{"Waited for", "Time", "Nodes"}
)

func (r *RunReport) workloadsHTML() markup {
	if len(r.Workloads) == 0 {
		return textElement("p", "Unknown: no workload was measured.", class("dim"))
	}
	return tableElement(1, workloadHeader, r.workloadRows())
}

// waitCauseRows returns the rows of the table of wait causes.
func (r *RunReport) waitCauseRows() [][]string {
	rows := make([][]string, 0, len(r.WaitCauses))
	for _, h := range r.WaitCauses {
		rows = append(rows, []string{h.What, formatWholeSeconds(h.For.Duration), strconv.Itoa(h.Nodes)})
	}
	return rows
}

// describeNoWaits returns why there is no table of wait causes.
func (r *RunReport) describeNoWaits() string {
	if r.About == AboutStatus || r.From.IsZero() {
		return "Unknown: the upgrade was not watched."
	}
	if r.takenOver {
		return "No node waited for a second or longer while this process ran. The time before is unknown."
	}
	return "No node waited for a second or longer."
}

func (r *RunReport) waitCausesHTML() markup {
	if len(r.WaitCauses) == 0 {
		return textElement("p", r.describeNoWaits(), class("dim"))
	}
	return tableElement(1, waitCauseHeader, r.waitCauseRows())
}

var wayHeader = []string{"Way", "Takes", "Peak", "Extra instance-hours", "Evictions", "Forced", "Without a ready pod", "Ends", "Best"}

func (r *RunReport) waysTitle() string {
	if r.About == AboutUpgrade {
		return "What would have been faster"
	}
	return "Other ways"
}

// wayRows returns a table row for each way to upgrade that has a forecast. If the upgrade has ended, a row with its own
// values comes first.
func (r *RunReport) wayRows() [][]string {
	if r.Comparison == nil {
		return nil
	}
	var rows [][]string
	if r.About == AboutUpgrade && !r.Ended.IsZero() {
		rows = append(rows, []string{"this upgrade", r.describeTime(), r.describePeak(), formatHours(r.ExtraInstanceHours), formatOptionalInt(r.Evictions), unknownValue, r.describeTimeWithoutReadyPod(), string(r.Result), ""})
	}
	for i := range r.Comparison.Ways {
		if w := &r.Comparison.Ways[i]; w.WayForecast != nil {
			rows = append(rows, formatWay(w))
		}
	}
	return rows
}

// wayLines returns which way is best, and which ways have no forecast.
func (r *RunReport) wayLines() []string {
	if r.Comparison == nil {
		return []string{"Unknown" + withPrefix(": ", r.noComparison) + "."}
	}
	lines := comparisonFooter(r.Comparison)
	for i, line := range lines {
		said := labelOf(line)
		lines[i] = strings.TrimSpace(said) + ": " + line[len(said):]
	}
	return lines
}

func (r *RunReport) waysHTML() markup {
	var body markup
	if rows := r.wayRows(); len(rows) > 0 {
		body = tableElement(1, wayHeader, rows) + "\n"
	}
	for _, line := range r.wayLines() {
		body += textElement("p", line, class("dim"))
	}
	return body
}

// findingRows returns the rows of the findings. Findings with the same rule and message share a row.
func (r *RunReport) findingRows() [][]string {
	merged := mergeFindings(slices.Clone(r.Findings), func(f *preflight.Finding) string { return f.Rule + f.Message })
	rows := make([][]string, 0, len(merged))
	for i := range merged {
		f := &merged[i]
		rows = append(rows, []string{string(f.Severity), f.Rule, f.String() + Parenthesize(withPrefix("skipped: ", f.Skipped))})
	}
	return rows
}

func (r *RunReport) findingsHTML() markup {
	if len(r.Findings) == 0 {
		return textElement("p", r.describeNoFindings(), class("dim"))
	}
	return tableElement(3, []string{"Severity", "Rule", "Finding"}, r.findingRows())
}

func (r *RunReport) describeNoFindings() string {
	if r.Plan == nil {
		return "Unknown: the rules were not checked."
	}
	return "None."
}

// settingRows returns the settings by their JSON names.
func (r *RunReport) settingRows() [][]string {
	if r.Settings.Strategy == "" {
		return nil
	}
	var values map[string]json.RawMessage
	data, err := json.Marshal(r.Settings)
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		return [][]string{{"settings", unknownValue}}
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		rows = append(rows, []string{name, strings.Trim(string(values[name]), `"`)})
	}
	return rows
}

// logLines returns the lines of the log, with the times since the start of the timeline.
func (r *RunReport) logLines() []string {
	lines := make([]string, 0, len(r.Log))
	for _, l := range r.Log {
		lines = append(lines, "+"+formatWholeSeconds(l.At.Sub(r.From))+"  "+sanitizeCell(Plain, l.Text))
	}
	return lines
}

func (r *RunReport) detailsHTML() markup {
	fold := func(title string, body markup) markup {
		return element("details", nil, textElement("summary", title), "\n", body) + "\n"
	}
	var body markup
	if rows := r.settingRows(); len(rows) > 0 {
		body = fold("Settings", tableElement(2, []string{"Setting", "Value"}, rows))
	}
	if p := r.Plan; p != nil && len(p.Assumptions)+len(p.Unread) > 0 {
		var items []markup
		for _, line := range slices.Concat(p.Assumptions, p.Unread) {
			items = append(items, textElement("li", line))
		}
		body += fold("What the plan assumes", element("ul", nil, items...))
	}
	if lines := r.logLines(); len(lines) > 0 {
		for i := range lines {
			lines[i] = string(escapeText(lines[i]))
		}
		body += fold(fmt.Sprintf("Log (%s)", formatCount(len(lines), "line")), element("pre", nil, markup(strings.Join(lines, "\n"))))
	}
	return body
}

// reportStyle is the CSS of the page. It has dark colours for readers whose system uses a dark mode.
const reportStyle = `
:root{--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d8dee4;--card:#f6f8fa;--good:#1a7f37;--warning:#9a6700;--bad:#cf222e;
--p:#d3d9e0;--b:#8250df;--d:#0969da;--w:#d4850a;--s:#3fa66b;--t:#7d8590;--g:#8fb8e8}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--line:#30363d;--card:#161b22;--good:#3fb950;--warning:#d29922;--bad:#f85149;
--p:#363d47;--b:#a371f7;--d:#4493f8;--w:#e3a008;--s:#3fb950;--t:#8b949e;--g:#2f5f99}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2rem 0 .6rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:.95rem;margin:1.2rem 0 .3rem}
.verdict{margin:.5rem 0;padding:.6rem .8rem;border-left:4px solid var(--dim);background:var(--card);overflow-wrap:anywhere}
.good{border-color:var(--good)}.warning{border-color:var(--warning)}.bad{border-color:var(--bad)}
dl{margin:0}dt{color:var(--dim);font-size:.8rem}dd{margin:0;overflow-wrap:anywhere}
.key{display:grid;grid-template-columns:repeat(auto-fill,minmax(10.5rem,1fr));gap:.6rem}
.key div{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem}.key dd{font-weight:600}
.facts{margin-top:.8rem}.facts div{display:grid;grid-template-columns:7rem 1fr;gap:.6rem;padding:.15rem 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:600}td:first-child{overflow-wrap:anywhere;min-width:8rem}
.n{text-align:right;padding-right:0;padding-left:.7rem;font-variant-numeric:tabular-nums}
code,pre{font:.85rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--card);padding:.7rem;border-radius:6px;max-height:40rem;overflow-y:auto}
details{margin:.5rem 0}summary{cursor:pointer;font-weight:600}
.dim{color:var(--dim)}ul{padding-left:1.2rem;margin:.3rem 0}li{overflow-wrap:anywhere}
svg{display:block;overflow:hidden;shape-rendering:crispEdges}svg text{fill:var(--fg);font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}svg .at{fill:var(--dim);font-size:11px}
.tick{stroke:var(--line)}
.p{fill:var(--p);background:var(--p)}.b{fill:var(--b);background:var(--b)}.d{fill:var(--d);background:var(--d)}.w{fill:var(--w);background:var(--w)}
.s{fill:var(--s);background:var(--s)}.t{fill:var(--t);background:var(--t)}.g{fill:var(--g);background:var(--g)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.2rem 0 .5rem;color:var(--dim);font-size:.85rem}.legend span{display:inline-flex;align-items:center;gap:.35rem}
.legend i{width:14px;height:9px;border-radius:2px}
@media print{pre{max-height:none}}
`
