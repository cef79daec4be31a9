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

func (r *result) ours() *figure { return &r.figures[len(r.figures)-1] }

func toFloor(most float64) target {
	return target{"time to floor", most, func(r *result) (float64, bool) { return r.ours().took.Seconds() / r.floor.time.Seconds(), true }}
}

func toRival(rival rival, most float64) target {
	return target{"time to " + rival.way, most, func(r *result) (float64, bool) {
		i := slices.IndexFunc(r.figures, func(f figure) bool { return f.way == rival.way })
		if i < 0 {
			return 0, false
		}
		return r.ours().took.Seconds() / r.figures[i].took.Seconds(), true
	}}
}

// othersToFloor returns the target for the nodes without a pod of the broken workload. The floor is that of a group without that
// workload.
func othersToFloor(most float64) target {
	return target{"time of the other nodes to floor", most, func(r *result) (float64, bool) { return r.ours().others.Seconds() / r.floor.time.Seconds(), true }}
}

// told returns the target for how soon the tool names the budget of the broken workload.
func told(most time.Duration) target {
	return target{"seconds until it says what is in the way", most.Seconds(), func(r *result) (float64, bool) { return r.ours().told.Seconds(), true }}
}

// constant is how many requests an upgrade of any size may make in addition to those for each node.
const constant = 40

// everywhere returns the targets of every scenario.
func everywhere() []target {
	return []target{
		{"evictions per pod", 1.01, func(r *result) (float64, bool) { return r.perPod(r.ours()), true }},
		{"share of answers 429, in %", 1, func(r *result) (float64, bool) { return 100 * r.ours().share(), true }},
		{fmt.Sprintf("other requests per node, but for %d", constant), 4, func(r *result) (float64, bool) {
			return float64(max(0, r.ours().other-constant)) / float64(r.nodes), !r.disturbed // a watch that is cut must be opened again
		}},
		{"questions for one pod", 0, func(r *result) (float64, bool) { return float64(r.ours().pods), true }},
	}
}

func (r *result) perPod(f *figure) float64 { return float64(f.evictions) / float64(r.pods()) }

func (r *requests) share() float64 { return float64(r.refused) / float64(max(1, r.all)) }

// write writes the measurements, and which targets are met.
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
	row := []string{fmt.Sprintf("%d %s", i+1, f.way), seconds(f.took), ratio(f.took, r.floor.time)}
	for j := range r.figures[:len(r.figures)-1] {
		row = append(row, ratio(f.took, r.figures[j].took))
	}
	others := "-"
	if r.broken != nil {
		others = seconds(f.others)
	}
	row = append(row, others, strconv.Itoa(f.evictions), fmt.Sprintf("%.2f", r.perPod(f)), fmt.Sprintf("%.1f%%", 100*f.share()))
	for _, n := range []int{f.get, f.pods, f.list, f.watch, f.write, f.keeping} {
		row = append(row, strconv.Itoa(n))
	}
	return row
}

func (r *result) writeTargets(w io.Writer) error {
	fmt.Fprintln(w)
	var rows [][]string
	for _, t := range slices.Concat(r.targets, everywhere()) {
		value, known := t.value(r)
		rows = append(rows, verdict(t.what, t.most, value, known))
	}
	return report.WriteTable(w, report.Plain, targetHeader(), rows)
}

func targetHeader() []string { return []string{"TARGET", "AT-MOST", "MEASURED", "VERDICT"} }

// verdict returns a target's row. known is false if the value was not measured.
func verdict(what string, most, value float64, known bool) []string {
	verdict, measured := "unknown", "-"
	if known {
		measured, verdict = fmt.Sprintf("%.2f", value), "holds"
		if value > most {
			verdict = "missed"
		}
	}
	return []string{what, fmt.Sprintf("%.2f", most), measured, verdict}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", a.Seconds()/b.Seconds()) }
