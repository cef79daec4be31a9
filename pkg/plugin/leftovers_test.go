package plugin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

var noon = time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)

func TestUnfinishedRunWithoutHolderIsAbandoned(t *testing.T) {
	resume := "run kubectl nodeupgrade resume workers to continue, or kubectl nodeupgrade abort workers to undo it"
	seen := cluster.LeaseState{Holder: "ann@host/7", LastHeld: noon.Add(-time.Hour), Idle: time.Hour}
	cases := map[string]struct {
		record record.Record
		lease  cluster.LeaseState
		want   []report.Leftover
	}{
		"held":                   {stoppedRecord(""), cluster.LeaseState{Holder: "ann", LastHeld: noon.Add(-30 * time.Second), Idle: 30 * time.Second}, nil},
		"held by nobody":         {stoppedRecord(""), cluster.LeaseState{}, []report.Leftover{{What: "run r1 of group workers stopped unexpectedly", Remedy: resume}}},
		"not seen for long":      {stoppedRecord(""), seen, []report.Leftover{{What: "run r1 of group workers stopped unexpectedly (ann@host/7 was last seen at 2026-01-08T11:00:00Z)", Remedy: resume}}},
		"half-way back":          {stoppedRecord("", makeRollingBack), cluster.LeaseState{}, []report.Leftover{{What: "run r1 of group workers stopped unexpectedly", Remedy: "run kubectl nodeupgrade rollback workers to continue"}}},
		"half undone":            {stoppedRecord("", makeAborting), cluster.LeaseState{}, []report.Leftover{{What: "run r1 of group workers stopped unexpectedly", Remedy: "run kubectl nodeupgrade abort workers to continue"}}},
		"stopped as it should":   {stoppedRecord(record.Interrupted), cluster.LeaseState{}, nil},
		"done":                   {stoppedRecord(record.Succeeded), cluster.LeaseState{}, nil},
		"never begun":            {record.Record{}, cluster.LeaseState{}, nil},
		"done, the lease stayed": {stoppedRecord(record.Succeeded), seen, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			state := recordedState{record: c.record, lease: c.lease, abandoned: looksAbandoned(&c.record, c.lease)}
			if got := state.findAbandonedRun("workers"); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestCommandsFindFencedNodesThatBecameCurrent checks each command with a node that became current after the end of its
// upgrade.
func TestCommandsFindFencedNodesThatBecameCurrent(t *testing.T) {
	cases := map[string]struct {
		args, stdout, stderr string
		code                 int
	}{
		"status":        {"status green", "node g1 is current but still fenced by run r1, which has ended", "", exitDone},
		"plain dry run": {"green --current image=v2 --dry-run", "", "note: node group green: the fence would be removed from nodes that are current and still fenced: g1", exitDone},
		"abort dry run": {"abort green --dry-run", "would unfence node g1", "", exitDone},
		"abort without": {"abort blue --yes", "", "error: aborting the upgrade of group \"blue\": its upgrade is over (succeeded)\n", exitUsage},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			for i := range s.nodes {
				if s.nodes[i].Name == "g1" {
					if err := nodemark.SetFence(&s.nodes[i], "r1", nodegroup.FenceTaint("manual")); err != nil {
						t.Fatal(err)
					}
				}
			}
			for run, group := range map[string]string{"r1": "green", "r2": "blue"} {
				rec := stoppedRecordOf(record.Succeeded)
				rec.Run, rec.Phase, rec.Provider, rec.Request.Strategy = run, record.PhaseDone, "manual", record.Surge
				rec.Request.Current = map[string]string{"image": "v2"}
				s.storeRecord(t, group, rec)
			}
			s.serve(t)
			stdout, stderr, code := invoke(t, strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d\nstdout %q\nstderr %q", code, c.code, stdout, stderr)
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("sent %q", s.sentRequests())
			}
		})
	}
}
