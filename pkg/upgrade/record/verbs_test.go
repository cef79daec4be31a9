package record_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func TestPauseByRequestIsRecordedWithItsUser(t *testing.T) {
	stopped := record.Record{Run: "r1", Result: record.Paused, Message: "the group's max was lowered"}
	if got := record.PauseMessage(&stopped, "workers"); record.IsPausedByRequest(&stopped) || got != stopped.Message {
		t.Errorf("paused by itself: got %q", got)
	}
	paused := record.AsPaused(&stopped, "workers", "ann@host", time.Date(2026, 1, 8, 12, 0, 0, 7, time.UTC))
	const want = "paused by ann@host: run kubectl nodeupgrade resume workers to continue"
	if !record.IsPausedByRequest(&paused) || paused.Message != want || paused.Ended.Nanosecond() != 0 || stopped.PausedBy != "" {
		t.Errorf("got %+v", paused)
	}
}

func TestOnlyRunningUpgradesOrSingleRecordAreReported(t *testing.T) {
	running, done := record.Record{Run: "r1"}, record.Record{Run: "r2", Result: record.Succeeded}
	cases := map[string]struct {
		records map[string]record.Record
		want    []string
	}{
		"none":            {nil, nil},
		"the only one":    {map[string]record.Record{"a": done}, []string{"a"}},
		"those under way": {map[string]record.Record{"c": running, "b": done, "a": running}, []string{"a", "c"}},
		"none of them is": {map[string]record.Record{"b": done, "a": done}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := record.GroupsToReport(c.records); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUpgradeIsCompletingOnceCloudDeletesNodesAtUsersRequest(t *testing.T) {
	deleting := record.Record{Run: "r1", Phase: record.PhaseDeleteBlue, Delegation: &record.Delegation{ID: "op-2", Completing: "op-2"}}
	for name, c := range map[string]struct {
		change func(*record.Record)
		want   bool
	}{
		"it deletes them":            {func(*record.Record) {}, true},
		"it still soaks":             {func(r *record.Record) { r.Phase = record.PhaseSoak }, false},
		"the soak ended by itself":   {func(r *record.Record) { r.Delegation = &record.Delegation{ID: "op-2"} }, false},
		"another operation soaked":   {func(r *record.Record) { r.Delegation = &record.Delegation{ID: "op-2", Completing: "op-1"} }, false},
		"no operation has begun":     {func(r *record.Record) { r.Delegation = &record.Delegation{} }, false},
		"this tool deletes them":     {func(r *record.Record) { r.Delegation = nil }, false},
		"the upgrade has ended well": {func(r *record.Record) { r.Result = record.Succeeded }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := deleting
			c.change(&r)
			if got := r.IsCompleting(); got != c.want {
				t.Errorf("completing: %t, want %t", got, c.want)
			}
		})
	}
}
