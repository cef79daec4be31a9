package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// floor is the time that no way to drain can be faster than, and how it is reckoned.
type floor struct {
	formula string
	time    time.Duration
}

// drainFloor is for nodes whose replacements are there: each turn of the window takes as long as the slowest pod's end,
// and each budget lets so many pods go at a time, of which the next go when those are ready elsewhere.
func drainFloor(nodes, window int, workloads []fixture.Workload) floor {
	var gone, budgets time.Duration
	for i := range workloads {
		w := &workloads[i]
		gone = max(gone, w.Gone)
		if n := missing(w); n > 0 {
			budgets = max(budgets, time.Duration(ceil(int(w.Replicas), n))*w.Ready)
		}
	}
	turns := time.Duration(ceil(nodes, window)) * gone
	return floor{
		formula: fmt.Sprintf("max(nodes ÷ window × longest termination, pods of a budget ÷ budget × time to ready) = max(%s, %s)", turns, budgets),
		time:    max(turns, budgets),
	}
}

// cloudFloor is for nodes whose replacements have to boot, when capacity never falls below the group's size: surge
// machines are up beside the group at a time, each for a boot and a drain, and window nodes drain at a time.
func cloudFloor(nodes, surge, window int, boot, drain time.Duration) floor {
	bySurge := time.Duration(ceil(nodes, surge)) * (boot + drain)
	byWindow := boot + time.Duration(ceil(nodes, window))*drain
	return floor{
		formula: fmt.Sprintf("max(⌈nodes ÷ surge⌉ × (boot + drain), boot + ⌈nodes ÷ window⌉ × drain) = max(%s, %s)", bySurge, byWindow),
		time:    max(bySurge, byWindow),
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }

// missing is how many pods the workload's budget lets be missing while all are well, 0 without a budget.
func missing(w *fixture.Workload) int {
	replicas := int(w.Replicas)
	switch {
	case w.MaxUnavailable != "":
		return scaled(w.MaxUnavailable, replicas)
	case w.MinAvailable != "":
		return replicas - scaled(w.MinAvailable, replicas)
	default:
		return 0
	}
}

// scaled reads "2" or "25%" of a whole, shares rounded up as the disruption controller does.
func scaled(text string, whole int) int {
	value := intstr.Parse(text)
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, whole, true)
	if err != nil {
		return 0
	}
	return n
}
