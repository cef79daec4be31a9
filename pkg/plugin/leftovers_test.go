package plugin

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

var noon = time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)

func TestFindAbandoned(t *testing.T) {
	resume := "run kubectl nodeupgrade resume workers to continue, or kubectl nodeupgrade abort workers to undo it"
	seen := cluster.LeaseState{Holder: "ann@host/7", LastHeld: noon.Add(-time.Hour), Idle: time.Hour}
	cases := map[string]struct {
		record upgrade.Record
		lease  cluster.LeaseState
		want   []report.Leftover
	}{
		"held":                   {begun(""), cluster.LeaseState{Holder: "ann", LastHeld: noon.Add(-30 * time.Second), Idle: 30 * time.Second}, nil},
		"held by nobody":         {begun(""), cluster.LeaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: resume}}},
		"not seen for long":      {begun(""), seen, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest (ann@host/7 was last seen at 2026-01-08T11:00:00Z)", Remedy: resume}}},
		"half-way back":          {begun("", rolledBack), cluster.LeaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: "run kubectl nodeupgrade rollback workers to continue"}}},
		"half undone":            {begun("", undone), cluster.LeaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: "run kubectl nodeupgrade abort workers to continue"}}},
		"stopped as it should":   {begun(upgrade.Interrupted), cluster.LeaseState{}, nil},
		"done":                   {begun(upgrade.Succeeded), cluster.LeaseState{}, nil},
		"never begun":            {upgrade.Record{}, cluster.LeaseState{}, nil},
		"done, the lease stayed": {begun(upgrade.Succeeded), seen, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := findAbandoned("workers", &c.record, c.lease); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
