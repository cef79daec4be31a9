package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// maxTimeRatio is the highest allowed ratio of the time of the first way to the time of the way of -against.
const maxTimeRatio = 1.05

func header() []string {
	return []string{"LAYOUT", "WAY", "TIME", "ALL-READY", "WITH-GAP-OF-MANY", "DEPLOYMENTS-OF-1", "STATEFULSETS-OF-1", "GAPS", "SUM", "LONGEST"}
}

func (p *outcome) row() []string {
	row := []string{strconv.FormatUint(p.layout.seed, 10), p.way.name, formatSeconds(p.took), formatSeconds(p.allReady)}
	for k := range kinds {
		row = append(row, fmt.Sprintf("%d/%d", p.countWithGap(k), p.layout.countKind(k)))
	}
	count, all, longest, workload := p.sumGaps()
	if count == 0 {
		return append(row, "0", "0.0s", "-")
	}
	return append(row, strconv.Itoa(count), formatSeconds(all), formatSeconds(longest)+" "+workload)
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// writeTable writes the measurements and the broken promises. It returns an error if a promise was broken.
func writeTable(w io.Writer, all []outcome, against *way) error {
	var rows [][]string
	for i := range all {
		rows = append(rows, all[i].row())
	}
	if err := report.WriteTable(w, report.Plain, header(), rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	broken := append(brokenPromises(all), findExcessTime(w, all, against)...)
	for _, what := range broken {
		fmt.Fprintln(w, what)
	}
	if len(broken) > 0 {
		return errors.New("a promise was not kept: see the last lines")
	}
	return nil
}

// brokenPromises lists the gaps of ways that must leave no gap.
func brokenPromises(all []outcome) []string {
	var broken []string
	for i := range all {
		p := &all[i]
		for j := range p.layout.workloads {
			w := &p.layout.workloads[j]
			k, gaps := kindOf(w), p.gaps[w.Name]
			if !p.way.promisesNoGap || len(gaps) == 0 || k == aloneFixed || k == aloneSurging && !p.way.promisesForSinglePods {
				continue
			}
			broken = append(broken, fmt.Sprintf("layout %d: %s: %s %s of %d without a ready endpoint for %s, %s",
				p.layout.seed, p.way.name, w.Kind, w.Name, w.Replicas, formatGaps(gaps), describeBudget(w.MaxUnavailable, w.MinAvailable)))
		}
	}
	return broken
}

func formatGaps(gaps []time.Duration) string {
	text := ""
	for i, gap := range gaps {
		if i > 0 {
			text += " and "
		}
		text += fmt.Sprintf("%.2fs", gap.Seconds())
	}
	return text
}

func describeBudget(maxUnavailable, minAvailable string) string {
	switch {
	case maxUnavailable != "":
		return "maxUnavailable " + maxUnavailable
	case minAvailable != "":
		return "minAvailable " + minAvailable
	default:
		return "no budget"
	}
}

// findExcessTime compares the tool's first way with the way of -against. It writes the ratio of their median times on each layout,
// and returns a line if the median ratio is too high. All times end when all pods are ready again: the upgrade waits for that, and
// kubectl drain does not.
func findExcessTime(w io.Writer, all []outcome, against *way) []string {
	if against == nil {
		return nil
	}
	i := slices.IndexFunc(all, func(p outcome) bool { return p.way.promisesNoGap })
	first := all[i].way
	var ratios []float64
	for _, seed := range seedsOf(all) {
		with, without := medianTime(all, seed, first), medianTime(all, seed, *against)
		ratios = append(ratios, with.Seconds()/without.Seconds())
		fmt.Fprintf(w, "layout %d: %s has all pods ready after %s, %s after %s: %.3f times as long\n", seed, first.name, formatSeconds(with), against.name, formatSeconds(without), ratios[len(ratios)-1])
	}
	slices.Sort(ratios)
	cost := ratios[len(ratios)/2]
	fmt.Fprintf(w, "in the middle %.3f times as long, at most %.2f\n", cost, maxTimeRatio)
	if cost > maxTimeRatio {
		return []string{fmt.Sprintf("%s takes %.3f times as long as %s", first.name, cost, against.name)}
	}
	return nil
}

// seedsOf returns the seeds of the layouts in their order.
func seedsOf(all []outcome) []uint64 {
	var seeds []uint64
	for i := range all {
		seeds = append(seeds, all[i].layout.seed)
	}
	return slices.Compact(seeds)
}
