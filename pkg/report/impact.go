package report

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// mostImpacts is how many workloads are named to a person; programs get all.
const mostImpacts = 10

// ImpactLines say what the upgrade cost workloads: those that were without a ready pod by name, the
// others in one line. There are none where no pod was evicted.
func ImpactLines(all []upgrade.WorkloadImpact) []string {
	var lines []string
	out, evictions, count := 0, 0, formatCount(len(all), "workload")
	var below time.Duration
	for _, w := range all { // those without a ready pod come first
		if evictions += w.Evictions; w.Name == upgrade.OtherWorkloads {
			count = fmt.Sprintf("more than %d workloads", len(all)-1)
		}
		below = max(below, w.Below.Duration)
		if w.None.Duration <= 0 {
			continue
		}
		if out++; out <= mostImpacts {
			lines = append(lines, fmt.Sprintf("%s was without a ready pod for %s, and had fewer than before for %s", w.Name, formatSeconds(w.None.Duration), formatSeconds(w.Below.Duration)))
		}
	}
	switch {
	case evictions == 0:
		return nil
	case out == 0:
		return []string{fmt.Sprintf("no workload was without a ready pod: %s of %s, which had fewer than before for at most %s",
			formatCount(evictions, "eviction"), count, formatSeconds(below))}
	case out > mostImpacts:
		lines = append(lines, fmt.Sprintf("%d more workloads were without a ready pod for a while: see them with -o json", out-mostImpacts))
	}
	return append(lines, fmt.Sprintf("%s of %s, of which %d had a ready pod at all times", formatCount(evictions, "eviction"), count, len(all)-out))
}

// formatSeconds is a time to the tenth of a second.
func formatSeconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
