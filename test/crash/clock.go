package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane/programs"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// clockShift is how far clocks are set forward or back: sixty times the duration of a lease.
const clockShift = time.Hour

// settableSource is a file that is added to the standard library's package time, so that its wall clock can be set.
//
//go:embed testdata/settable.go
var settableSource []byte

const (
	// readsRuntimeClock is the code with which time.Now reads the clocks. readsSettableClock replaces it, so that the clock can be
	// set.
	readsRuntimeClock  = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	readsSettableClock = "\nfunc Now() Time {\n\tsec, nsec, mono := setNow()\n"
)

// withSettableClock returns the source of Go's time.go, changed so that time.Now calls setNow of settable.go. It returns an error if
// the source does not contain readsRuntimeClock exactly once.
func withSettableClock(source string) (string, error) {
	if n := strings.Count(source, readsRuntimeClock); n != 1 {
		return "", fmt.Errorf("time.go of %s reads the clocks %d times with %q, not once: update test/crash/clock.go", runtime.Version(), n, readsRuntimeClock)
	}
	return strings.Replace(source, readsRuntimeClock, readsSettableClock, 1), nil
}

// buildSettable builds the command in a folder of the repository, with a clock that can be set. It uses an overlay of the standard
// library. The command's source and the machine's clock do not change.
func buildSettable(ctx context.Context, command, path string) error {
	scratch, err := os.MkdirTemp("", "nodeupgrade-clock-")
	if err != nil {
		return fmt.Errorf("making a folder for the overlay: %w", err)
	}
	defer os.RemoveAll(scratch)
	overlay, err := writeOverlay(ctx, scratch)
	if err != nil {
		return err
	}
	build, err := goCommand(ctx, "build", "-overlay", overlay, "-ldflags", "-s -w", "-o", path, command)
	if err != nil {
		return err
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s with a clock that can be set: %w: %q", command, err, out)
	}
	return nil
}

// goCommand returns a go command that runs at the top of the repository, and so uses the Go version of the module.
func goCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	root, err := programs.Root(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	return cmd, nil
}

// writeOverlay writes the changed package time and a build overlay for it into the folder. It returns the overlay's path.
func writeOverlay(ctx context.Context, folder string) (string, error) {
	env, err := goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return "", err
	}
	root, err := env.Output()
	if err != nil {
		return "", fmt.Errorf("asking for GOROOT: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return "", fmt.Errorf("reading the standard library: %w", err)
	}
	changed, err := withSettableClock(string(source))
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for name, text := range map[string][]byte{"time.go": []byte(changed), "settable.go": settableSource} {
		copied := filepath.Join(folder, name)
		replaced[filepath.Join(library, name)] = copied
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return "", fmt.Errorf("writing the overlay: %w", err)
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// buildSettablePlugin builds the plugin with a clock that can be set, next to the fixture's own plugin.
func buildSettablePlugin(ctx context.Context, s *fixture.Fixture) error {
	return buildSettable(ctx, "./cmd/kubectl-nodeupgrade", filepath.Join(settableDir(s), "kubectl-nodeupgrade"))
}

// settableDir returns the folder of the plugin with a clock that can be set.
func settableDir(s *fixture.Fixture) string { return filepath.Join(s.Dir, "settable") }

// wallClock is the path of the file that sets the wall clock of all commands that were started with its environment.
type wallClock string

// wallClock returns the wall clock of the case.
func (t *testCase) wallClock() wallClock { return wallClock(filepath.Join(t.Dir, t.group()+".clock")) }

// setForward sets the clock ahead of the right time, or back if by is negative. It takes effect at once, also for running and halted
// commands. It must also be called before a command starts, because the file must exist then.
func (w wallClock) setForward(by time.Duration) error {
	file, err := os.OpenFile(string(w), os.O_WRONLY|os.O_CREATE, 0o600) // never truncated: a command that maps the file would crash
	if err != nil {
		return fmt.Errorf("opening a clock: %w", err)
	}
	err = binary.Write(file, binary.NativeEndian, int64(by/time.Second))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("setting a clock: %w", err)
	}
	return nil
}

// env returns the environment that makes a command use this clock.
func (w wallClock) env() []string { return []string{"TEST_CLOCK_AHEAD=" + string(w)} }

// prepareClock sets the clock of the case, and returns the environment of a command that uses it.
func (t *testCase) prepareClock(by time.Duration) ([]string, error) {
	if err := t.wallClock().setForward(by); err != nil {
		return nil, err
	}
	path := []string{settableDir(t.Fixture), t.Dir, os.Getenv("PATH")}
	return append(t.wallClock().env(), "PATH="+strings.Join(path, string(os.PathListSeparator))), nil
}
