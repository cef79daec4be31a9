package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// The sizes of a timeline, in pixels. Widths are in percent, so that the timeline fits every page.
const (
	rowHeight, barTop, barHeight = 32, 18, 8
	axisHeight                   = 20
	chartHeight                  = 90
	ticks                        = 4
)

// longestNodeShown is how many cells of a node's name a row shows. The row's title has the full name.
const longestNodeShown = 40

// scale maps times between from and to to positions in a drawing.
type scale struct{ from, to time.Time }

// percentOfWidth returns the horizontal position of a time, in percent of the width.
func (s scale) percentOfWidth(at time.Time) float64 {
	whole := s.to.Sub(s.from)
	if whole <= 0 {
		return 0
	}
	return 100 * min(1, max(0, float64(at.Sub(s.from))/float64(whole)))
}

// bar returns a bar between two times with at least a visible width. It returns "" if the bar is outside of
// the drawing.
func (s scale) bar(classed string, y, height float64, from, to time.Time) markup {
	const least = 0.3
	if to.Before(s.from) || from.After(s.to) {
		return ""
	}
	x, end := s.percentOfWidth(from), s.percentOfWidth(to)
	width := max(least, end-x)
	x = min(x, 100-width)
	return element("rect", []attribute{
		class(classed), {"x", formatPercent(x)}, {"y", formatPixels(y)}, {"width", formatPercent(width)}, {"height", formatPixels(height)},
	})
}

func formatPercent(p float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", p), "0"), ".") + "%"
}

func formatPixels(p float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", p), "0"), ".")
}

// axis returns vertical lines over the height of a drawing, with the times since the start.
func (s scale) axis(height float64) markup {
	var b strings.Builder
	whole := s.to.Sub(s.from)
	for i := range ticks + 1 {
		x := formatPercent(100 * float64(i) / ticks)
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case ticks:
			anchor = "end"
		}
		label := "+" + duration.HumanDuration(whole*time.Duration(i)/ticks)
		if i == 0 {
			label = "start"
		}
		b.WriteString(string(element("line", []attribute{class("tick"), {"x1", x}, {"x2", x}, {"y1", formatPixels(axisHeight)}, {"y2", formatPixels(height)}})))
		b.WriteString(string(textElement("text", label, class("at"), attribute{"x", x}, attribute{"y", "12"}, attribute{"text-anchor", anchor})))
	}
	return markup(b.String())
}

// wrapSVG returns the parts as one SVG image.
func wrapSVG(label string, height float64, parts ...markup) markup {
	return element("svg", []attribute{{"role", "img"}, {"aria-label", label}, {"width", "100%"}, {"height", formatPixels(height)}}, parts...) + "\n"
}

// timelineScale returns the limits of the timeline and the start of the plan. The timeline shows what happened
// and what was planned. A plan that would take more than two thirds of the width is cut off.
func (r *RunReport) timelineScale() (of scale, planBegan time.Time) {
	of, planBegan = scale{r.From, r.To}, r.From
	if len(r.Sizes) > 0 {
		planBegan = r.Sizes[0].At
	}
	if r.From.IsZero() {
		planBegan = r.Made
		of = scale{r.Made, r.Made}
	}
	if r.Plan == nil {
		return of, planBegan
	}
	end := planBegan.Add(r.Plan.Duration.Latest.Duration)
	if seen := of.to.Sub(of.from); seen > 0 && r.About == AboutUpgrade && end.Sub(of.from) > 3*seen {
		end = of.from.Add(3 * seen)
	}
	if end.After(of.to) {
		of.to = end
	}
	return of, planBegan
}

// drawTimeline returns a timeline with a row for each node, "" if there is nothing to show.
func (r *RunReport) drawTimeline() markup {
	s, planBegan := r.timelineScale()
	rows := slices.Concat(r.Nodes, r.listNotStarted())
	if !s.to.After(s.from) || len(rows) == 0 {
		return ""
	}
	planned, domain := r.plannedByName(), commonDomain(rows)
	var b strings.Builder
	y := float64(axisHeight)
	row := func(parts ...markup) {
		b.WriteString(string(element("g", []attribute{{"transform", "translate(0 " + formatPixels(y) + ")"}}, parts...)) + "\n")
		y += rowHeight
	}
	if boots := r.bootPeriods(); len(boots) > 0 {
		parts := []markup{textElement("title", "new nodes that boot"), rowLabel("new nodes boot", "")}
		for _, p := range boots {
			parts = append(parts, s.bar("b", barTop, barHeight, p.From, p.To))
		}
		row(parts...)
	}
	for i := range rows {
		n := &rows[i]
		row(r.drawNodeRow(s, n, planned[n.Name], planBegan, domain)...)
	}
	label := fmt.Sprintf("timeline of %s", formatCount(len(rows), "node"))
	return wrapSVG(label, y+4, s.axis(y+4), markup(b.String()))
}

// rowLabel returns the two texts above a row's bar.
func rowLabel(name, at string) markup {
	label := textElement("text", TruncateLine(sanitizeCell(Plain, name), longestNodeShown), attribute{"y", "12"})
	if at != "" {
		label += textElement("text", at, class("at"), attribute{"x", "100%"}, attribute{"y", "12"}, attribute{"text-anchor", "end"})
	}
	return label
}

// cssClassOfState returns the CSS class of a bar for the state, "" if the state has no bar.
func cssClassOfState(state string) string {
	switch record.NodeState(state) {
	case record.NodeDraining, record.NodeForcing:
		return "d"
	case record.NodeEmpty, record.NodeParked:
		return "s"
	case record.NodeRemoving:
		return "t"
	default:
		return ""
	}
}

// drawNodeRow returns the row of a node.
func (r *RunReport) drawNodeRow(s scale, n *NodeHistory, plan *PlanNode, planBegan time.Time, domain string) []markup {
	parts := []markup{textElement("title", describeNodeHistory(n, plan)), rowLabel(strings.TrimSuffix(n.Name, domain), n.outcome())}
	if plan != nil && plan.Start != nil && plan.End.Latest.Duration > 0 {
		from, to := planBegan.Add(plan.Start.Earliest.Duration), planBegan.Add(plan.End.Latest.Duration)
		parts = append(parts, s.bar("p", barTop-2, barHeight+4, from, to))
	}
	for _, p := range n.States {
		if classed := cssClassOfState(p.What); classed != "" {
			parts = append(parts, s.bar(classed, barTop, barHeight, p.From, p.To))
		}
	}
	for _, p := range n.Waits {
		parts = append(parts, s.bar("w", barTop, barHeight, p.From, p.To))
	}
	return parts
}

// totalTime returns how long the node was in its drawn states.
func (n *NodeHistory) totalTime() time.Duration {
	if len(n.States) == 0 {
		return 0
	}
	return n.States[len(n.States)-1].To.Sub(n.States[0].From)
}

// outcome returns in a few words how the replacement of the node went.
func (n *NodeHistory) outcome() string {
	switch n.State {
	case "":
		return "not started"
	case record.NodeQuarantined:
		return "set aside"
	case record.NodeGone, record.NodeDrained:
		return formatWholeSeconds(n.totalTime())
	default:
		return strings.ToLower(string(n.State)) + ", " + formatWholeSeconds(n.totalTime())
	}
}

// describeNodeHistory returns the node's history in one line. The page shows it when the mouse points at the
// row.
func describeNodeHistory(n *NodeHistory, plan *PlanNode) string {
	parts := []string{n.Name + Parenthesize(n.Zone)}
	for _, p := range n.States {
		parts = append(parts, strings.ToLower(p.What)+" "+formatWholeSeconds(p.To.Sub(p.From)))
	}
	for _, p := range n.Waits {
		parts = append(parts, "waited "+formatWholeSeconds(p.To.Sub(p.From))+" for "+p.What)
	}
	if n.State == record.NodeQuarantined {
		parts = append(parts, "set aside"+withPrefix(": ", n.Reason))
	}
	if plan != nil {
		parts = append(parts, "plan: "+formatStart(plan.Start)+" to "+dashUnless(plan.End.Latest.Duration > 0, FormatSpan(plan.End)))
	}
	return strings.Join(parts, "; ")
}

// commonDomain returns the part after the first dot that all names share, with the dot. It returns "" if the
// names differ.
func commonDomain(rows []NodeHistory) string {
	common := ""
	for i := range rows {
		_, domain, dotted := strings.Cut(rows[i].Name, ".")
		switch {
		case !dotted || (i > 0 && "."+domain != common):
			return ""
		default:
			common = "." + domain
		}
	}
	return common
}

// drawSizes returns a chart of the group's size over time, "" for a group without a size.
func (r *RunReport) drawSizes() markup {
	s, _ := r.timelineScale()
	largest := 0
	for _, sample := range r.Sizes {
		largest = max(largest, sample.Desired)
	}
	if largest == 0 || !s.to.After(s.from) || len(r.Sizes) < 2 {
		return ""
	}
	parts := []markup{s.axis(axisHeight + chartHeight)}
	of := func(n int) float64 { return chartHeight * float64(n) / float64(largest) }
	for i, sample := range r.Sizes {
		until := r.To
		if i+1 < len(r.Sizes) {
			until = r.Sizes[i+1].At
		}
		own := max(0, sample.Desired-max(0, sample.Owed))
		bars := s.bar("g", axisHeight+chartHeight-of(own), of(own), sample.At, until)
		if added := sample.Desired - own; added > 0 {
			bars += s.bar("b", axisHeight+chartHeight-of(sample.Desired), of(added), sample.At, until)
		}
		title := fmt.Sprintf("desired %d, %d of them added by the upgrade", sample.Desired, sample.Desired-own)
		parts = append(parts, element("g", nil, textElement("title", title), bars))
	}
	return wrapSVG(fmt.Sprintf("desired size of the group over time, at most %d", largest), axisHeight+chartHeight, parts...)
}
