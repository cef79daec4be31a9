package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// tolerance is the share of the measured time by which a prediction may be wrong, if nothing is random.
	tolerance = 0.1
	// managedTolerance is the tolerance for upgrades by EKS or GKE, which pick nodes at random. It is a share of the middle of the predicted
	// range.
	managedTolerance = 0.15
)

// outcome is a scenario's prediction and its measurement.
type outcome struct {
	name string
	// random is true if the plan does not know how long pods take to terminate.
	random bool
	// managed is true if EKS or GKE runs the upgrade.
	managed   bool
	predicted figures
	measured  figures
	span      simulate.Span
}

// figures are the values that are compared.
type figures struct {
	took      time.Duration
	evictions int
	// order lists the nodes in the order of their start. Nodes that were started together are ordered by name.
	order []string
	// result is the result of the upgrade.
	result record.Result
}

// nodeStart is the start of one node's drain. at is counted from the same moment for all nodes.
type nodeStart struct {
	node string
	at   time.Duration
}

// startOrder returns the nodes in the order of their start. Nodes that start within 200 ms were started in one step. Their order has
// no meaning, so they are sorted by name.
func startOrder(starts []nodeStart) []string {
	const moment = 200 * time.Millisecond
	slices.SortStableFunc(starts, func(a, b nodeStart) int { return int(a.at - b.at) })
	var order []string
	for len(starts) > 0 {
		n := slices.IndexFunc(starts, func(s nodeStart) bool { return s.at-starts[0].at > moment })
		if n < 0 {
			n = len(starts)
		}
		together := make([]string, 0, n)
		for _, s := range starts[:n] {
			together = append(together, s.node)
		}
		slices.Sort(together)
		order, starts = append(order, together...), starts[n:]
	}
	return order
}

// faults lists the wrong predictions. The order of nodes is printed but not checked, because it may depend on milliseconds.
func (o *outcome) faults() []string {
	var faults []string
	earliest, latest, took := o.span.Earliest.Duration, o.span.Latest.Duration, o.measured.took
	off := (took - o.predicted.took).Abs()
	switch {
	case o.random && (took < earliest || took > latest):
		faults = append(faults, "outside the range")
	case o.managed:
		faults = append(faults, o.managedFaults()...)
	case !o.random && earliest != latest:
		faults = append(faults, "a range where all delays are known")
	case !o.random && off.Seconds() > tolerance*took.Seconds():
		faults = append(faults, fmt.Sprintf("off by more than %.0f %%", 100*tolerance))
	}
	if o.predicted.result != o.measured.result {
		faults = append(faults, fmt.Sprintf("it ends as %q, and not as %q", o.measured.result, o.predicted.result))
	}
	if !o.managed && o.predicted.evictions != o.measured.evictions {
		faults = append(faults, "evictions differ")
	}
	return faults
}

// managedFaults lists the wrong predictions for an upgrade by EKS or GKE. The number of evictions depends on which nodes EKS removes at
// the end.
func (o *outcome) managedFaults() []string {
	var faults []string
	early, late, took := o.span.Earliest.Seconds(), o.span.Latest.Seconds(), o.measured.took.Seconds()
	if took < early || took > late {
		faults = append(faults, "outside the range")
	}
	if middle := (early + late) / 2; math.Abs(took-middle) > managedTolerance*middle {
		faults = append(faults, fmt.Sprintf("off by more than %.0f %% of the middle", 100*managedTolerance))
	}
	predicted, measured := float64(o.predicted.evictions), float64(o.measured.evictions)
	if math.Abs(measured-predicted) > managedTolerance*predicted {
		faults = append(faults, "evictions differ")
	}
	return faults
}

// writeTable writes the outcomes as a table.
func writeTable(w io.Writer, outcomes []outcome) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
	var rows [][]string
	for i := range outcomes {
		o := &outcomes[i]
		order := "same"
		if !slices.Equal(o.predicted.order, o.measured.order) {
			order = "differs"
		}
		predicted, span, ratio := seconds(o.predicted.took), "-", fmt.Sprintf("%.2f", o.predicted.took.Seconds()/o.measured.took.Seconds())
		if o.span.Earliest != o.span.Latest { // all times in the range are equally likely
			predicted, span, ratio = "-", seconds(o.span.Earliest.Duration)+"-"+seconds(o.span.Latest.Duration), "-"
		}
		verdict := "ok"
		if faults := o.faults(); len(faults) > 0 {
			verdict = strings.Join(faults, "; ")
		}
		rows = append(rows, []string{
			o.name, predicted, span, seconds(o.measured.took), ratio,
			strconv.Itoa(o.predicted.evictions) + "/" + strconv.Itoa(o.measured.evictions), order, verdict,
		})
	}
	header := []string{"SCENARIO", "PREDICTED", "RANGE", "MEASURED", "RATIO", "EVICTIONS", "ORDER", "VERDICT"}
	return report.WriteTable(w, report.Plain, header, rows)
}
