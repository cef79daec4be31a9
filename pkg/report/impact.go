package report

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// maxNamedImpacts is how many workloads a text names. Documents contain all of them.
const maxNamedImpacts = 10

// ImpactLines returns a line for each workload that was without a ready pod, and a line about all others. It
// returns nil if no pod was evicted.
func ImpactLines(all []record.WorkloadImpact) []string {
	var lines []string
	out, evictions, still, count := 0, 0, 0, formatCount(len(all), "workload")
	var below time.Duration
	named := 0
	for _, w := range all { // sorted: workloads without a ready pod come first
		if evictions += w.Evictions; w.Name == record.OtherWorkloads {
			count = fmt.Sprintf("more than %d workloads", len(all)-1)
		}
		below = max(below, w.Below.Duration)
		if w.Lacks > 0 {
			still++
		}
		if w.None.Duration <= 0 && w.Lacks == 0 {
			continue
		}
		if w.None.Duration > 0 {
			out++
		}
		if named++; named <= maxNamedImpacts {
			lines = append(lines, describeImpact(w))
		}
	}
	switch {
	case evictions == 0 && still == 0:
		return nil
	case out == 0 && still == 0:
		return []string{fmt.Sprintf("no workload was without a ready pod: %s of %s; fewer pods than before were ready for at most %s",
			formatCount(evictions, "eviction"), count, formatSeconds(below))}
	case named > maxNamedImpacts:
		lines = append(lines, fmt.Sprintf("%d more workloads were without a ready pod for a while, or lack pods: see them with -o json", named-maxNamedImpacts))
	}
	return append(lines, fmt.Sprintf("%s of %s, of which %d had a ready pod at all times", formatCount(evictions, "eviction"), count, len(all)-out))
}

// describeImpact returns how long a workload was without a ready pod, and how many pods it still lacks.
func describeImpact(w record.WorkloadImpact) string {
	still := ""
	switch {
	case w.Out:
		still = "it has no ready pod now"
	case w.Lacks > 0:
		still = fmt.Sprintf("it has %s fewer now than before", formatCount(w.Lacks, "ready pod"))
	}
	if w.None.Duration <= 0 {
		return w.Name + ": " + still
	}
	text := fmt.Sprintf("%s: no ready pod for %s", w.Name, formatSeconds(w.None.Duration))
	if w.Below.Duration > w.None.Duration {
		text += ", fewer than before for " + formatSeconds(w.Below.Duration)
	}
	if still != "" {
		text += "; " + still
	}
	return text
}

// formatSeconds returns a duration rounded to a tenth of a second, or "less than 100ms".
func formatSeconds(d time.Duration) string {
	const least = 100 * time.Millisecond
	if 0 < d && d < least {
		return "less than " + least.String()
	}
	return d.Round(least).String()
}
