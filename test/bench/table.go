package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// target is a value that the tool should not exceed.
type target struct {
	what  string
	most  float64
	value func(*result) (value float64, known bool)
}

// result is a measured scenario. The tool's figure is the last one.
type result struct {
	*scenario
	figures []figure
}

func (r *result) toolFigure() *figure { return &r.figures[len(r.figures)-1] }

func floorTarget(most float64) target {
	return target{"time to floor", most, func(r *result) (float64, bool) { return r.toolFigure().took.Seconds() / r.floor.time.Seconds(), true }}
}

func rivalTarget(rival rival, most float64) target {
	return target{"time to " + rival.way, most, func(r *result) (float64, bool) {
		i := slices.IndexFunc(r.figures, func(f figure) bool { return f.way == rival.way })
		if i < 0 {
			return 0, false
		}
		return r.toolFigure().took.Seconds() / r.figures[i].took.Seconds(), true
	}}
}

// otherNodesTarget returns the target for the time until the nodes without pods of the broken workload are empty. The floor is computed
// without this workload.
func otherNodesTarget(most float64) target {
	return target{"time of the other nodes to floor", most, func(r *result) (float64, bool) {
		return r.toolFigure().othersEmpty.Seconds() / r.floor.time.Seconds(), true
	}}
}

// explanationTarget returns the target for the time until the tool names the budget of the broken workload.
func explanationTarget(most time.Duration) target {
	return target{"seconds until it explains what blocks", most.Seconds(), func(r *result) (float64, bool) { return r.toolFigure().explained.Seconds(), true }}
}

// fixedRequests is the number of requests that an upgrade of any size may make in addition to the requests for each node.
const fixedRequests = 40

// commonTargets returns the targets of every scenario.
func commonTargets() []target {
	return []target{
		{"evictions per pod", 1.01, func(r *result) (float64, bool) { return r.evictionsPerPod(r.toolFigure()), true }},
		{"share of answers 429, in %", 1, func(r *result) (float64, bool) { return 100 * r.toolFigure().refusedShare(), true }},
		{fmt.Sprintf("other requests per node, except %d", fixedRequests), 4, func(r *result) (float64, bool) {
			return float64(max(0, r.toolFigure().other-fixedRequests)) / float64(r.nodes), !r.disturbed // unknown if watches are cut, because each must be opened again
		}},
		{"gets of single pods", 0, func(r *result) (float64, bool) { return float64(r.toolFigure().pods), true }},
	}
}

func (r *result) evictionsPerPod(f *figure) float64 { return float64(f.evictions) / float64(r.pods()) }

func (r *requests) refusedShare() float64 { return float64(r.refused) / float64(max(1, r.all)) }

// write writes the tables of the measurements, of the CPU times and of the targets.
func (r *result) write(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: %s\nfloor = %s = %s\n\n", r.name, r.title, r.floor.formula, r.floor.time)
	header := []string{"WAY", "TIME", "TO-FLOOR"}
	for i := range r.figures[:len(r.figures)-1] {
		header = append(header, "TO-"+strconv.Itoa(i+1))
	}
	header = append(header, "OTHERS", "EVICTIONS", "PER-POD", "429S", "GET", "ONE-POD", "LIST", "WATCH", "WRITE", "LEASE+RECORD")
	var rows [][]string
	for i := range r.figures {
		rows = append(rows, r.row(i))
	}
	if err := report.WriteTable(w, report.Plain, header, rows); err != nil {
		return err
	}
	if err := r.writeLoad(w); err != nil {
		return err
	}
	return r.writeTargets(w)
}

func (r *result) row(i int) []string {
	f := &r.figures[i]
	row := []string{fmt.Sprintf("%d %s", i+1, f.way), formatSeconds(f.took), formatRatio(f.took, r.floor.time)}
	for j := range r.figures[:len(r.figures)-1] {
		row = append(row, formatRatio(f.took, r.figures[j].took))
	}
	others := "-"
	if r.broken != nil {
		others = formatSeconds(f.othersEmpty)
	}
	row = append(row, others, strconv.Itoa(f.evictions), fmt.Sprintf("%.2f", r.evictionsPerPod(f)), fmt.Sprintf("%.1f%%", 100*f.refusedShare()))
	for _, n := range []int{f.get, f.pods, f.list, f.watch, f.write, f.leaseAndRecord} {
		row = append(row, strconv.Itoa(n))
	}
	return row
}

func (r *result) writeTargets(w io.Writer) error {
	fmt.Fprintln(w)
	var rows [][]string
	for _, t := range slices.Concat(r.targets, commonTargets()) {
		value, known := t.value(r)
		rows = append(rows, targetRow(t.what, t.most, value, known))
	}
	return report.WriteTable(w, report.Plain, targetHeader(), rows)
}

func targetHeader() []string { return []string{"TARGET", "AT-MOST", "MEASURED", "VERDICT"} }

// targetRow returns the row of a target. known is false if the value was not measured.
func targetRow(what string, most, value float64, known bool) []string {
	verdict, measured := "unknown", "-"
	if known {
		measured, verdict = fmt.Sprintf("%.2f", value), "met"
		if value > most {
			verdict = "missed"
		}
	}
	return []string{what, fmt.Sprintf("%.2f", most), measured, verdict}
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func formatRatio(a, b time.Duration) string { return fmt.Sprintf("%.2f", a.Seconds()/b.Seconds()) }
