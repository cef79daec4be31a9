package plugin

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

var noon = time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)

func TestFindAbandoned(t *testing.T) {
	resume := "run kubectl nodeupgrade resume workers to continue, or kubectl nodeupgrade abort workers to undo it"
	seen := leaseState{holder: "ann@host/7", renewed: noon.Add(-time.Hour), idle: time.Hour}
	cases := map[string]struct {
		record upgrade.Record
		lease  leaseState
		want   []report.Leftover
	}{
		"held":                   {begun(""), leaseState{holder: "ann", renewed: noon.Add(-30 * time.Second), idle: 30 * time.Second}, nil},
		"held by nobody":         {begun(""), leaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: resume}}},
		"not seen for long":      {begun(""), seen, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest (ann@host/7 was last seen at 2026-01-08T11:00:00Z)", Remedy: resume}}},
		"half-way back":          {begun("", rolledBack), leaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: "run kubectl nodeupgrade rollback workers to continue"}}},
		"half undone":            {begun("", undone), leaseState{}, []report.Leftover{{What: "run r1 of group workers stopped without coming to rest", Remedy: "run kubectl nodeupgrade abort workers to continue"}}},
		"stopped as it should":   {begun(upgrade.Interrupted), leaseState{}, nil},
		"done":                   {begun(upgrade.Succeeded), leaseState{}, nil},
		"never begun":            {upgrade.Record{}, leaseState{}, nil},
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
