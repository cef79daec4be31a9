package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// floor is the shortest possible time of any way to drain, and the formula for it.
type floor struct {
	formula string
	time    time.Duration
}

// drainFloor returns the floor for nodes whose replacements exist already. Each turn of the window takes as long as the slowest pod's
// end. Each budget lets so many pods go at a time, and the next ones go when those are ready elsewhere.
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

// cloudFloor returns the floor for nodes whose replacements must boot, while capacity never falls below the group's size. At any time,
// surge additional machines exist, each for a boot and a drain, and window nodes drain.
func cloudFloor(nodes, surge, window int, boot, drain time.Duration) floor {
	bySurge := time.Duration(ceil(nodes, surge)) * (boot + drain)
	byWindow := boot + time.Duration(ceil(nodes, window))*drain
	return floor{
		formula: fmt.Sprintf("max(⌈nodes ÷ surge⌉ × (boot + drain), boot + ⌈nodes ÷ window⌉ × drain) = max(%s, %s)", bySurge, byWindow),
		time:    max(bySurge, byWindow),
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }

// missing returns how many pods the workload's budget allows to be missing while all are healthy; 0 without a budget.
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

// scaled returns the number in text, which is like "2", or like "25%" of the whole. It rounds shares up, as the disruption controller
// does.
func scaled(text string, whole int) int {
	value := intstr.Parse(text)
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, whole, true)
	if err != nil {
		return 0
	}
	return n
}
