package gke

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
)

func TestMaintenanceSaysWhenGKEUpgradesPoolByItself(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	on, off := true, false
	for name, c := range map[string]struct {
		cluster, pool string
		automatic     *bool
		next          string
		windows       []string
		exclusions    []string
	}{
		"nothing is told": {`{}`, `{}`, nil, "", nil, nil},
		"off":             {`{"maintenancePolicy":{}}`, `{"management":{}}`, &off, "", nil, nil},
		"a daily window": {
			`{"maintenancePolicy":{"window":{"dailyMaintenanceWindow":{"startTime":"03:00","duration":"PT4H0M0S"}}}}`,
			`{"management":{"autoUpgrade":true,"upgradeOptions":{"autoUpgradeStartTime":"2026-12-03T03:00:00Z"}}}`, &on, "2026-12-03T03:00:00Z",
			[]string{"daily from 03:00 UTC for 4h"},
			nil,
		},
		"a window by a rule": {
			`{"maintenancePolicy":{"window":{"recurringWindow":{"recurrence":"FREQ=WEEKLY;BYDAY=SA","window":{"startTime":"2026-01-03T22:30:00Z","endTime":"2026-01-04T04:00:00Z"}}}}}`,
			`{"management":{"autoUpgrade":true}}`, &on, "",
			[]string{"FREQ=WEEKLY;BYDAY=SA from 22:30 UTC for 5h30m"},
			nil,
		},
		"a window by a rule in the newer form": {
			`{"maintenancePolicy":{"window":{"recurringMaintenanceWindow":{"recurrence":"FREQ=DAILY","windowDuration":"14400s","windowStartTime":{"hours":2}}}}}`,
			`{}`, nil, "",
			[]string{"FREQ=DAILY from 02:00 UTC for 4h"},
			nil,
		},
		"exclusions, one of which is over": {
			`{"maintenancePolicy":{"window":{"maintenanceExclusions":{
				"freeze":{"startTime":"2026-12-20T00:00:00Z","endTime":"2027-01-02T00:00:00Z"},
				"minor":{"startTime":"2026-11-01T00:00:00Z","maintenanceExclusionOptions":{"scope":"NO_MINOR_OR_NODE_UPGRADES","endTimeBehavior":"UNTIL_END_OF_SUPPORT"}},
				"new":{"maintenanceExclusionOptions":{"scope":"NO_PATCHES"}},
				"past":{"startTime":"2026-10-01T00:00:00Z","endTime":"2026-10-02T00:00:00Z"}}}}}`,
			`{"maintenancePolicy":{"exclusionUntilEndOfSupport":{"enabled":true,"startTime":"2026-11-30T00:00:00Z","endTime":"2027-10-01T00:00:00Z"}}}`, nil, "", nil,
			[]string{
				"no upgrades of this pool from 2026-11-30T00:00:00Z until the end of support at 2027-10-01T00:00:00Z",
				"no upgrades from 2026-12-20T00:00:00Z to 2027-01-02T00:00:00Z (freeze)",
				"no upgrades of nodes and no minor upgrades from 2026-11-01T00:00:00Z until the end of support (minor)",
				"NO_PATCHES (new)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var cluster container.Cluster
			var pool container.NodePool
			if err := json.Unmarshal([]byte(c.cluster), &cluster); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.pool), &pool); err != nil {
				t.Fatal(err)
			}
			got := describeMaintenance(&cluster, &pool, now)
			next := ""
			if !got.Next.IsZero() {
				next = got.Next.UTC().Format(time.RFC3339)
			}
			if (got.Automatic == nil) != (c.automatic == nil) || got.Automatic != nil && *got.Automatic != *c.automatic || next != c.next {
				t.Errorf("automatic %v, next %q, want %v and %q", got.Automatic, next, c.automatic, c.next)
			}
			if !slices.Equal(got.Windows, c.windows) || !slices.Equal(got.Exclusions, c.exclusions) {
				t.Errorf("windows %q, exclusions %q, want %q and %q", got.Windows, got.Exclusions, c.windows, c.exclusions)
			}
		})
	}
}
