package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// rival is how people drain nodes without the tool: all are cordoned first, so that no pod moves twice.
type rival struct {
	way string
	// each is the shell's line that drains the nodes which it reads; DRAIN is a kubectl drain without the node.
	each  string
	heavy bool
	// self is the tool itself.
	self bool
}

// The rivals.
var (
	loop      = rival{way: "kubectl drain, one by one", each: "xargs -n 1 DRAIN"}
	four      = rival{way: "xargs -P 4 kubectl drain", each: "xargs -n 1 -P 4 DRAIN"}
	heavyLoop = rival{way: loop.way, each: loop.each, heavy: true}
)

// ours is the tool's name in the table.
const ours = "kubectl nodeupgrade"

// line is the rival's command.
func (r rival) line(sc *scenario) string {
	if r.self {
		return sc.line()
	}
	drain := "kubectl drain --ignore-daemonsets --delete-emptydir-data"
	if sc.limit > 0 {
		drain += " --timeout=" + sc.limit.String()
	}
	const old = "pool=bench,image=old"
	return fmt.Sprintf("kubectl cordon -l %s && kubectl get nodes -l %s -o name | cut -d / -f 2 | %s", old, old, strings.ReplaceAll(r.each, "DRAIN", drain))
}

// line is the tool's command.
func (sc *scenario) line() string {
	line := "kubectl nodeupgrade bench"
	if len(sc.zones) == 0 {
		line = fmt.Sprintf("kubectl nodeupgrade -l pool=bench --current image=new --wait-replacement=false --max-unavailable=%d", sc.window)
	}
	if sc.limit > 0 {
		line += " --on-timeout=skip --drain-timeout=" + sc.limit.String()
	}
	return line + " --settle=0s --yes --progress=json"
}

// ended is how a command ended.
type ended struct {
	took, cpu time.Duration
	// mib is the largest resident size of any of its processes.
	mib    int
	code   int
	stderr string
}

// measure runs the shell's line with the stage's tools. CPU is that of all processes which the shell waited for.
func measure(ctx context.Context, s *stage.Stage, line string) (ended, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env, cmd.Stderr = s.Env(), &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ended{}, fmt.Errorf("running %q: %w", line, err)
	}
	state := cmd.ProcessState
	e := ended{took: took, cpu: state.UserTime() + state.SystemTime(), code: state.ExitCode(), stderr: stderr.String()}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.mib = int(usage.Maxrss >> 10)
	}
	return e, nil
}
