package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// floor is the shortest possible time of a drain, and the formula for it.
type floor struct {
	formula string
	time    time.Duration
}

// floorOfDrain returns the floor for nodes whose replacements already exist. Each window of nodes takes at least as long as the slowest
// pod's termination. A budget allows only some of its pods to move at a time. The next pods can move when these are ready again.
func floorOfDrain(nodes, window int, workloads []fixture.Workload) floor {
	var gone, budgets time.Duration
	for i := range workloads {
		w := &workloads[i]
		gone = max(gone, w.Gone)
		if n := allowedMissing(w); n > 0 {
			budgets = max(budgets, time.Duration(ceilDiv(int(w.Replicas), n))*w.Ready)
		}
	}
	turns := time.Duration(ceilDiv(nodes, window)) * gone
	return floor{
		formula: fmt.Sprintf("max(nodes ÷ window × longest termination, pods of a budget ÷ budget × time to ready) = max(%s, %s)", turns, budgets),
		time:    max(turns, budgets),
	}
}

// cloudFloor returns the floor for nodes whose replacements must boot, if the capacity never falls below the group's size. At any time
// at most surge additional machines exist, each for a boot and a drain, and at most window nodes drain.
func cloudFloor(nodes, surge, window int, boot, drain time.Duration) floor {
	bySurge := time.Duration(ceilDiv(nodes, surge)) * (boot + drain)
	byWindow := boot + time.Duration(ceilDiv(nodes, window))*drain
	return floor{
		formula: fmt.Sprintf("max(⌈nodes ÷ surge⌉ × (boot + drain), boot + ⌈nodes ÷ window⌉ × drain) = max(%s, %s)", bySurge, byWindow),
		time:    max(bySurge, byWindow),
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// allowedMissing returns how many pods of a healthy workload its budget allows to be missing; 0 without a budget.
func allowedMissing(w *fixture.Workload) int {
	replicas := int(w.Replicas)
	switch {
	case w.MaxUnavailable != "":
		return scaledValue(w.MaxUnavailable, replicas)
	case w.MinAvailable != "":
		return replicas - scaledValue(w.MinAvailable, replicas)
	default:
		return 0
	}
}

// scaledValue returns the value of a text such as "2" or "25%", which is a share of whole. It rounds up, as the disruption controller
// does.
func scaledValue(text string, whole int) int {
	value := intstr.Parse(text)
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, whole, true)
	if err != nil {
		return 0
	}
	return n
}
