package plugin

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// stoppedRecord returns the record of an upgrade from workers:1 to workers:2 with the result.
func stoppedRecord(result record.Result, change ...func(*record.Record)) record.Record {
	r := endedAfter90s(result, "")
	r.Request = record.Request{Group: "workers", To: "2"}
	r.Previous, r.Target = nodegroup.Revision{ID: "1", Name: "workers:1"}, nodegroup.Revision{ID: "2", Name: "workers:2"}
	r.Ended = time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)
	for _, f := range change {
		f(&r)
	}
	return r
}

func byVerb(r *record.Record)          { r.PausedBy = "ann@host" }
func makeRollingBack(r *record.Record) { *r = upgrade.AsRollback(r, r.Previous, r.Ended) }
func makeAborting(r *record.Record)    { *r = r.AsAborting() }

// TestConflictingCommandsAreRejected combines each command with each state of a record. Only the verb that began a rollback
// or abort may continue it.
func TestConflictingCommandsAreRejected(t *testing.T) {
	paused := "group \"workers\" was paused by ann@host at 2026-01-08T12:00:00Z: run kubectl nodeupgrade resume workers to continue"
	back := "run r1 of group \"workers\" is being rolled back: run kubectl nodeupgrade rollback workers to continue"
	abort := "run r1 of group \"workers\" is being aborted: run kubectl nodeupgrade abort workers to continue"
	cases := map[string]struct {
		record record.Record
		barred map[mode]string
	}{
		"interrupted":        {stoppedRecord(record.Interrupted), nil},
		"under way":          {stoppedRecord(""), nil},
		"paused by somebody": {stoppedRecord(record.Paused, byVerb), map[mode]string{modeUpgrade: paused}},
		"paused by itself":   {stoppedRecord(record.Paused), nil},
		"being rolled back":  {stoppedRecord(record.Interrupted, makeRollingBack), map[mode]string{modeUpgrade: back}},
		"being aborted":      {stoppedRecord(record.Interrupted, makeAborting), map[mode]string{modeUpgrade: abort, modeResume: abort, modeRollback: abort}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, w := range []mode{modeUpgrade, modeStatus, modeResume, modeRollback, modeAbort} {
				err := rejectConflictingCommand(w, false, "workers", &c.record)
				if want := c.barred[w]; want != "" && (err == nil || err.Error() != want || exitCodeOf(err) != exitPaused) || want == "" && err != nil {
					t.Errorf("%q: got error %v with exit code %d, want %q", w, err, exitCodeOf(err), want)
				}
			}
		})
	}
	t.Run("a plan of a paused upgrade", func(t *testing.T) {
		record := stoppedRecord(record.Paused, byVerb)
		if err := rejectConflictingCommand(modeUpgrade, true, "workers", &record); err != nil {
			t.Errorf("got error %v", err)
		}
	})
}

func TestTargetIsTakenFromFlagOrRecord(t *testing.T) {
	cases := map[string]struct {
		mode     mode
		typed    string
		record   record.Record
		want     string
		wantCode int
	}{
		"none was begun":               {modeUpgrade, "", record.Record{}, "", 0},
		"none was begun, typed":        {modeUpgrade, "7", record.Record{}, "7", 0},
		"one that is over":             {modeUpgrade, "", stoppedRecord(record.Succeeded), "", 0},
		"one that goes on":             {modeUpgrade, "", stoppedRecord(record.Interrupted), "2", 0},
		"one that goes on, typed":      {modeUpgrade, "7", stoppedRecord(record.Interrupted), "7", 0},
		"one that is undone":           {modeAbort, "", stoppedRecord(record.Interrupted), "2", 0},
		"the way back":                 {modeRollback, "", stoppedRecord(record.Interrupted), "1", 0},
		"the way back, typed":          {modeRollback, "7", stoppedRecord(record.Interrupted), "7", 0},
		"the way back that goes on":    {modeRollback, "", stoppedRecord(record.Interrupted, makeRollingBack), "1", 0},
		"the way back, by resume":      {modeResume, "", stoppedRecord(record.Interrupted, makeRollingBack), "1", 0},
		"a way back that nobody knows": {modeRollback, "", stoppedRecord(record.Interrupted, func(r *record.Record) { r.Previous = r.Target }), "", exitUsage},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := chooseTarget(c.mode, c.typed, &c.record)
			if got != c.want || exitCodeOf(err) != c.wantCode {
				t.Errorf("got %q and error %v, want %q and exit code %d", got, err, c.want, c.wantCode)
			}
		})
	}
}

func TestVerbOnFinishedOrMissingUpgradeIsRejected(t *testing.T) {
	cases := map[string]struct {
		record record.Record
		want   string
	}{
		"nothing recorded": {record.Record{}, `pausing group "workers": it has no recorded upgrade: run kubectl nodeupgrade workers to start one, or kubectl nodeupgrade status workers to list what an earlier upgrade left`},
		"done":             {stoppedRecord(record.Succeeded), `pausing group "workers": its upgrade is over (succeeded)`},
		"done, with drained nodes": {
			stoppedRecord(record.Succeeded, func(r *record.Record) { r.Nodes = map[string]record.NodeRecord{"n1": {State: record.NodeDrained}} }),
			`pausing group "workers": its upgrade is over (succeeded), and drained nodes stay fenced until you replace them: to release a node, give it the labels of current nodes and run kubectl nodeupgrade abort workers`,
		},
		"aborted":     {stoppedRecord(record.Aborted), `pausing group "workers": its upgrade is over (aborted)`},
		"interrupted": {stoppedRecord(record.Interrupted), ""},
		"under way":   {stoppedRecord(""), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := rejectFinishedUpgrade("pausing", "workers", &c.record)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want || exitCodeOf(err) != exitUsage) {
				t.Errorf("got error %v with exit code %d, want %q", err, exitCodeOf(err), c.want)
			}
		})
	}
}

// TestVerbsBeginNoNewUpgrade ends the upgrade while the verb waits for its process.
func TestVerbsBeginNoNewUpgrade(t *testing.T) {
	for _, w := range []mode{modeResume, modeRollback, modeAbort} {
		o := &observation{stored: stoppedRecord(record.Succeeded), group: nodegroup.Group{Name: "workers"}}
		if _, err := o.adoptRecord(&commandLine{typed: noFlagTyped}, w, record.Request{}); err == nil || !strings.Contains(err.Error(), "ended while this command waited") {
			t.Errorf("%s: got error %v", w, err)
		}
	}
}

// TestVerbsKeepRecordedSettings checks that a verb uses the record's settings and not the default values of flags.
func TestVerbsKeepRecordedSettings(t *testing.T) {
	cases := map[mode]struct {
		wanted   string
		target   string
		to       string
		stopping record.Result
	}{
		modeResume:   {"2", "2", "2", ""},
		modeRollback: {"1", "1", "1", ""},
		modeAbort:    {"2", "2", "2", record.Aborted},
	}
	for w, c := range cases {
		t.Run(string(w), func(t *testing.T) {
			rec := stoppedRecord(record.Paused, byVerb, func(r *record.Record) { r.Request.MaxUnavailable = 7 })
			o := &observation{stored: rec, to: c.to, group: nodegroup.Group{Name: "workers", Wanted: nodegroup.Revision{ID: c.wanted}}}
			got, err := o.adoptRecord(&commandLine{typed: noFlagTyped}, w, record.Request{})
			if err != nil {
				t.Fatal(err)
			}
			r := got.record
			if r.Target.ID != c.target || r.Request.To != c.to || r.Stopping != c.stopping || r.Result != "" || r.PausedBy != "" {
				t.Errorf("goes to %s (--to=%s), stopping %q, ended %q, paused by %q", r.Target.ID, r.Request.To, r.Stopping, r.Result, r.PausedBy)
			}
			if got.request.MaxUnavailable != 7 || got.request.Run != "r1" {
				t.Errorf("the request is %+v", got.request)
			}
		})
	}
}
