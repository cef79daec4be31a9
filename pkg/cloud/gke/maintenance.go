package gke

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// describeMaintenance returns when GKE upgrades the pool by itself. Exclusions that ended before now are left out.
func describeMaintenance(cluster *container.Cluster, pool *container.NodePool, now time.Time) *nodegroup.Maintenance {
	found := &nodegroup.Maintenance{}
	if m := pool.Management; m != nil {
		found.Automatic = new(m.AutoUpgrade)
		if m.UpgradeOptions != nil {
			found.Next = m.UpgradeOptions.AutoUpgradeStartTime.Time
		}
	}
	if policy := pool.MaintenancePolicy; policy != nil && policy.ExclusionUntilEndOfSupport != nil {
		if e := policy.ExclusionUntilEndOfSupport; e.Enabled && !isBefore(e.EndTime, now) {
			found.Exclusions = append(found.Exclusions, "no upgrades of this pool"+describeTimes(e.StartTime, e.EndTime, true))
		}
	}
	if cluster.MaintenancePolicy == nil || cluster.MaintenancePolicy.Window == nil {
		return found
	}
	window := cluster.MaintenancePolicy.Window
	found.Windows = describeWindows(window)
	for _, name := range slices.Sorted(maps.Keys(window.MaintenanceExclusions)) {
		if e := window.MaintenanceExclusions[name]; !isBefore(e.EndTime, now) {
			found.Exclusions = append(found.Exclusions, describeExclusion(name, &e))
		}
	}
	return found
}

// isBefore reports whether the time is known and before the other one.
func isBefore(t container.Time, other time.Time) bool { return !t.IsZero() && t.Before(other) }

// describeWindows returns the times at which GKE may begin to upgrade a cluster by itself.
func describeWindows(window *container.MaintenanceWindow) []string {
	var all []string
	if daily := window.DailyMaintenanceWindow; daily != nil {
		all = append(all, fmt.Sprintf("daily from %s UTC for %s", daily.StartTime, parseISODuration(daily.Duration)))
	}
	if w := window.RecurringWindow; w != nil && w.Window != nil {
		first := w.Window.StartTime.UTC()
		all = append(all, fmt.Sprintf("%s from %s UTC for %s", w.Recurrence, first.Format("15:04"), trimZeros(w.Window.EndTime.Sub(first))))
	}
	if w := window.RecurringMaintenanceWindow; w != nil && w.WindowDuration != nil {
		at := cmp.Or(w.WindowStartTime, &container.TimeOfDay{})
		all = append(all, fmt.Sprintf("%s from %02d:%02d UTC for %s", w.Recurrence, at.Hours, at.Minutes, trimZeros(time.Duration(*w.WindowDuration))))
	}
	return all
}

// parseISODuration returns a duration such as PT4H0M0S as 4h. Other texts stay as they are.
func parseISODuration(text string) string {
	d, err := time.ParseDuration(strings.ToLower(strings.TrimPrefix(text, "PT")))
	if err != nil {
		return text
	}
	return trimZeros(d)
}

// trimZeros returns the duration without parts that are 0: 4h instead of 4h0m0s.
func trimZeros(d time.Duration) string {
	text := d.String()
	for _, part := range []string{"0s", "0m"} {
		if short := strings.TrimSuffix(text, part); short != "" && strings.ContainsAny(short[len(short)-1:], "hm") {
			text = short
		}
	}
	return text
}

// describeExclusion returns what an exclusion of the cluster prevents, and when.
func describeExclusion(name string, e *container.TimeWindow) string {
	options := cmp.Or(e.MaintenanceExclusionOptions, &container.MaintenanceExclusionOptions{})
	what := map[container.ExclusionScope]string{
		"": "no upgrades", container.ScopeNoUpgrades: "no upgrades", container.ScopeNoMinorUpgrades: "no minor upgrades",
		container.ScopeNoMinorOrNodeUpgrades: "no upgrades of nodes and no minor upgrades",
	}[options.Scope]
	what = cmp.Or(what, string(options.Scope)) // a scope that this version does not know
	return fmt.Sprintf("%s%s (%s)", what, describeTimes(e.StartTime, e.EndTime, options.EndTimeBehavior == container.EndUntilEndOfSupport), name)
}

// describeTimes returns the times of an exclusion that are known. endsWithSupport is true if it ends with the support of the version.
func describeTimes(start, end container.Time, endsWithSupport bool) string {
	text := ""
	if !start.IsZero() {
		text += " from " + start.UTC().Format(time.RFC3339)
	}
	switch {
	case endsWithSupport && end.IsZero():
		text += " until the end of support"
	case endsWithSupport:
		text += fmt.Sprintf(" until the end of support at %s", end.UTC().Format(time.RFC3339))
	case !end.IsZero():
		text += " to " + end.UTC().Format(time.RFC3339)
	}
	return text
}
