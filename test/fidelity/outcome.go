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
	// tolerance is the share of the measured time by which a predicted time may be off where nothing is left to chance.
	tolerance = 0.1
	// managedTolerance is the share of the middle of the range by which an upgrade that EKS carries out may be off: in which order it
	// takes nodes is left to chance.
	managedTolerance = 0.15
)

// outcome is a scenario as it was predicted and as it was.
type outcome struct {
	name string
	// random terminations are known by their limits alone.
	random bool
	// managed is an upgrade that EKS carries out.
	managed   bool
	predicted figures
	measured  figures
	span      simulate.Span
}

// figures are what is compared.
type figures struct {
	took      time.Duration
	evictions int
	// order are the nodes as they were started, those that were started together by name.
	order []string
	// result is how the upgrade ends.
	result record.Result
}

// started is one node's start, in time since any moment.
type started struct {
	node string
	at   time.Duration
}

// inOrder sorts nodes by their start. Those started within a moment of the first of them were started in one step, whose
// order says nothing: they go by name.
func inOrder(starts []started) []string {
	const moment = 200 * time.Millisecond
	slices.SortStableFunc(starts, func(a, b started) int { return int(a.at - b.at) })
	var order []string
	for len(starts) > 0 {
		n := slices.IndexFunc(starts, func(s started) bool { return s.at-starts[0].at > moment })
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

// faults lists what was predicted and is not so. The order of nodes is told and not judged: it may turn on milliseconds.
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

// managedFaults lists what is wrong with an upgrade that EKS carries out. How many pods it evicts turns on which nodes it takes
// back in the end.
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

// write writes the outcomes as a table.
func write(w io.Writer, outcomes []outcome) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
	var rows [][]string
	for i := range outcomes {
		o := &outcomes[i]
		order := "same"
		if !slices.Equal(o.predicted.order, o.measured.order) {
			order = "differs"
		}
		predicted, span, ratio := seconds(o.predicted.took), "-", fmt.Sprintf("%.2f", o.predicted.took.Seconds()/o.measured.took.Seconds())
		if o.span.Earliest != o.span.Latest { // no time in it is likelier than another
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
