package upgrade_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

func TestMarkPaused(t *testing.T) {
	stopped := upgrade.Record{Run: "r1", Result: upgrade.Paused, Message: "the group's max was lowered"}
	if got := upgrade.PauseMessage(&stopped, "workers"); upgrade.PausedByRequest(&stopped) || got != stopped.Message {
		t.Errorf("paused by itself: got %q", got)
	}
	paused := upgrade.MarkPaused(&stopped, "workers", "ann@host", time.Date(2026, 1, 8, 12, 0, 0, 7, time.UTC))
	const want = "paused by ann@host: run kubectl nodeupgrade resume workers to continue"
	if !upgrade.PausedByRequest(&paused) || paused.Message != want || paused.Ended.Nanosecond() != 0 || stopped.PausedBy != "" {
		t.Errorf("got %+v", paused)
	}
}

func TestGroupsToReport(t *testing.T) {
	running, done := upgrade.Record{Run: "r1"}, upgrade.Record{Run: "r2", Result: upgrade.Succeeded}
	cases := map[string]struct {
		records map[string]upgrade.Record
		want    []string
	}{
		"none":            {nil, nil},
		"the only one":    {map[string]upgrade.Record{"a": done}, []string{"a"}},
		"those under way": {map[string]upgrade.Record{"c": running, "b": done, "a": running}, []string{"a", "c"}},
		"none of them is": {map[string]upgrade.Record{"b": done, "a": done}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := upgrade.GroupsToReport(c.records); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
