package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRuntimeClockIsPatchedToBeSettable(t *testing.T) {
	cases := map[string]struct{ source, want, wantErr string }{
		"as it is":  {"package time\n" + readsRuntimeClock + "}\n", "package time\n" + readsSettableClock + "}\n", ""},
		"changed":   {"package time\n\nfunc Now() Time { return unix() }\n", "", "0 times"},
		"ambiguous": {readsRuntimeClock + readsRuntimeClock, "", "2 times"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := withSettableClock(c.source)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if (err != nil) != (c.wantErr != "") || (err != nil && !strings.Contains(err.Error(), c.wantErr)) {
				t.Errorf("got error %v, want one that contains %q", err, c.wantErr)
			}
		})
	}
}

// TestSettingTheClockChangesOnlyWallTime checks that setting the clock of a running command changes its wall clock, but not its
// monotonic clock.
func TestSettingTheClockChangesOnlyWallTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the standard library, which -short leaves out")
	}
	dir := t.TempDir()
	if err := buildSettable(t.Context(), "./test/crash/testdata/now", filepath.Join(dir, "now")); err != nil {
		t.Fatal(err)
	}
	w := wallClock(filepath.Join(dir, "clock"))
	if err := w.setForward(0); err != nil {
		t.Fatal(err)
	}
	ask := startNow(t, w, filepath.Join(dir, "now"))
	if wall, _ := ask(); time.Until(wall).Abs() > time.Minute {
		t.Errorf("before it is set, the clock shows %s", wall)
	}
	if err := w.setForward(clockShift); err != nil {
		t.Fatal(err)
	}
	wall, passed := ask()
	if got := time.Until(wall); (got - clockShift).Abs() > time.Minute {
		t.Errorf("the clock was set %s forward and is %s ahead", clockShift, got)
	}
	if passed > clockShift/2 {
		t.Errorf("%s passed on the monotonic clock, which must not be set forward", passed)
	}
}

// startNow starts the command with the clock. It returns a function that asks the command for the time, and for the time since its
// start.
func startNow(t *testing.T, w wallClock, path string) (ask func() (time.Time, time.Duration)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = w.env()
	questions, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context kills it
	lines := bufio.NewScanner(answers)
	return func() (time.Time, time.Duration) {
		t.Helper()
		if _, err := io.WriteString(questions, "\n"); err != nil {
			t.Fatal(err)
		}
		lines.Scan()
		var wall, passed int64
		if _, err := fmt.Sscan(lines.Text(), &wall, &passed); err != nil {
			t.Fatalf("reading %q: %v", lines.Text(), err)
		}
		return time.Unix(wall, 0), time.Duration(passed) * time.Second
	}
}
