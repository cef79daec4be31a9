package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const (
	// exitRefused is the exit code of a command that was refused and changed nothing.
	exitRefused = 2
	// exitLostLease is the exit code of a command whose lease another process holds.
	exitLostLease = 5
)

// fault is what happens at a point of the upgrade.
type fault string

const (
	// killTool kills the tool after the server has answered.
	killTool fault = "kill"
	// loseAnswer closes the connection instead of passing on the answer.
	loseAnswer fault = "lose"
	// haltTool halts the tool after the server has answered. A second process of the same command takes the upgrade over after the lease
	// has expired. The first process continues after the second has ended.
	haltTool fault = "stop"
	// serverDown makes the API server unreachable for a minute after it has answered.
	serverDown fault = "down"
	// startedTwice starts the same command twice at the same time. The point's number distinguishes the pairs.
	startedTwice fault = "pair"
	// haltAndClockForward is haltTool, and also sets the halted tool's wall clock forward before the tool continues.
	haltAndClockForward fault = "clock"
	// haltAndClockBack is haltTool, and also sets the halted tool's wall clock back before the tool continues. By that clock the lease is
	// valid for another hour.
	haltAndClockBack fault = "back"
	// secondClockAhead starts a second process of the same command after the server has answered. Its wall clock is ahead. The first
	// process gets the answer after the second has exited. If the write is a write of the lease, the fault is injected at the next write.
	secondClockAhead fault = "ahead"
	// pause, rollback, complete and abort kill the tool, and then run a command with the verb. If that command is refused, the same
	// upgrade command continues.
	pause    fault = "pause"
	rollback fault = "rollback"
	complete fault = "complete"
	abort    fault = "abort"
)

// outage is how long the API server is unreachable. It equals the duration of a lease.
const outage = time.Minute

func faults() []fault {
	return []fault{killTool, loseAnswer, haltTool, serverDown, startedTwice, haltAndClockForward, haltAndClockBack, secondClockAhead, pause, rollback, complete, abort}
}

// killsCommand reports whether the tool is killed.
func (f fault) killsCommand() bool { return f == killTool || f.verbAfterFault() != "" }

// haltsCommand reports whether the tool is halted until another process has ended the upgrade.
func (f fault) haltsCommand() bool {
	return f == haltTool || f == haltAndClockForward || f == haltAndClockBack
}

// setsClock reports whether the clock of one of the commands is set forward or back.
func (f fault) setsClock() bool {
	return f == haltAndClockForward || f == haltAndClockBack || f == secondClockAhead
}

// runToEnd runs the upgrade with the fault until the upgrade has ended. It returns the exit code of the command that ended it.
func (t *testCase) runToEnd(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	switch t.point.fault {
	case startedTwice:
		return t.runTwoTogether(ctx)
	case secondClockAhead:
		return t.runSecondWithClockAhead(ctx)
	default:
		return t.runWithFault(ctx)
	}
}

// runWithFault starts the command and injects the fault. If the command does not end the upgrade, a second command does.
func (t *testCase) runWithFault(ctx context.Context) (int, error) {
	var process *fixture.Process
	started, halted, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	proxy, err := openProxy(ctx, t.Fixture, t.point, func() {
		<-started
		if t.point.fault.haltsCommand() {
			_ = process.Halt() // if this fails, the later checks fail
			close(halted)
			return
		}
		_ = process.Kill() // its exit code shows an error
		<-ended
	})
	if err != nil {
		return 0, err
	}
	defer proxy.close()
	env, err := t.env(proxy)
	if err != nil {
		return 0, err
	}
	process = t.Start(ctx, io.Discard, &t.stderr, env, t.args()...)
	close(started)
	var code int
	go func() {
		defer close(ended)
		code, err = process.Wait()
	}()
	select {
	case <-halted:
		return t.takeOverHaltedUpgrade(ctx, process, proxy, func() (int, error) { <-ended; return code, err })
	case <-ended:
	}
	t.writes = proxy.allWrites()
	if err != nil || !t.point.fault.killsCommand() || len(t.writes) < t.point.n {
		return code, err
	}
	if code != exitKilled {
		return 0, fmt.Errorf("the command ended with %d before it could be killed: %s", code, t.stderr.String())
	}
	if verb := t.point.fault.verbAfterFault(); verb != "" {
		return t.runVerb(ctx, verb)
	}
	// Without --takeover the command would wait a minute for the lease of the killed one.
	return t.Start(ctx, io.Discard, &t.stderr, nil, t.args("--takeover")...).Wait()
}

// env returns the environment of the command into which the fault is injected.
func (t *testCase) env(proxy *proxy) ([]string, error) {
	env := proxy.env()
	if t.older != "" {
		env = append(env, "PATH="+t.older+string(os.PathListSeparator)+os.Getenv("PATH")) // kubectl itself is started by its path, and finds the plugin by PATH
	}
	if t.point.fault != haltAndClockForward && t.point.fault != haltAndClockBack {
		return env, nil
	}
	onClock, err := t.prepareClock(0)
	return append(env, onClock...), err
}

// takeOverHaltedUpgrade runs the same command until the upgrade has ended. After that, it lets the halted process continue. This process
// must notice that it has lost the lease, and none of its writes may have an effect.
func (t *testCase) takeOverHaltedUpgrade(ctx context.Context, halted *fixture.Process, proxy *proxy, wait func() (int, error)) (int, error) {
	var other strings.Builder
	code, err := t.Start(ctx, io.Discard, &other, nil, t.args()...).Wait()
	t.writes = proxy.allWrites()
	had := len(proxy.writesWithEffect())
	left, leftErr := t.lease(ctx)
	switch t.point.fault {
	case haltAndClockForward:
		leftErr = errors.Join(leftErr, t.wallClock().setForward(clockShift))
	case haltAndClockBack:
		leftErr = errors.Join(leftErr, t.wallClock().setForward(-clockShift))
	}
	_ = halted.Continue() // its exit code shows an error
	late, lateErr := wait()
	if err := errors.Join(err, leftErr, lateErr); err != nil {
		return code, fmt.Errorf("waiting for both: %w", err)
	}
	found, err := t.lease(ctx)
	if err != nil {
		return code, err
	}
	if found.ResourceVersion != left.ResourceVersion {
		t.misbehaviour = append(t.misbehaviour, "the command that was halted changed the lease later")
	}
	if late != exitLostLease {
		t.misbehaviour = append(t.misbehaviour, fmt.Sprintf("the command that was halted ended with %d: %s", late, fixture.LastError(t.stderr.String())))
	}
	for _, write := range proxy.writesWithEffect()[had:] {
		t.misbehaviour = append(t.misbehaviour, "the command that was halted wrote later: "+write)
	}
	t.stderr.WriteString(other.String())
	return code, nil
}

// runSecondWithClockAhead runs a second process with a clock that is ahead, while the first continues. By this clock the lease expired
// long ago. The second process must report that the first holds the lease, or that nothing is left to do. It must change nothing.
func (t *testCase) runSecondWithClockAhead(ctx context.Context) (int, error) {
	onClock, err := t.prepareClock(clockShift)
	if err != nil {
		return 0, err
	}
	quiet, err := openProxy(ctx, t.Fixture, point{}, nil)
	if err != nil {
		return 0, err
	}
	defer quiet.close()
	type end struct {
		code int
		err  error
	}
	var out, other strings.Builder
	ended := make(chan end, 1)
	proxy, err := openProxy(ctx, t.Fixture, t.point, func() {
		code, err := t.Start(ctx, &out, &other, append(quiet.env(), onClock...), t.args()...).Wait()
		ended <- end{code, err}
	})
	if err != nil {
		return 0, err
	}
	code, err := t.Start(ctx, io.Discard, &t.stderr, proxy.env(), t.args()...).Wait()
	t.writes = proxy.close()
	select {
	case second := <-ended:
		t.stderr.WriteString(other.String())
		refused := second.code == exitLostLease && strings.Contains(other.String(), "holds it since")
		if current := second.code == 0 && strings.Contains(out.String(), "nodes are current"); !refused && !current {
			said := fixture.LastError(other.String())
			t.misbehaviour = append(t.misbehaviour, fmt.Sprintf("the command whose clock is ahead ended with %d: %s", second.code, said))
		}
		for _, write := range quiet.allWrites() {
			t.misbehaviour = append(t.misbehaviour, "the command whose clock is ahead wrote: "+write)
		}
		return code, errors.Join(err, second.err)
	default: // the last write, the release of the lease, was not reached
		t.writes = t.writes[:min(len(t.writes), t.point.n-1)]
		return code, err
	}
}

// runTwoTogether starts two processes at the same time. One must run the upgrade. The other must report that the first holds the lease.
func (t *testCase) runTwoTogether(ctx context.Context) (int, error) {
	one := t.Start(ctx, io.Discard, &t.stderr, nil, t.args()...)
	var other strings.Builder
	two := t.Start(ctx, io.Discard, &other, nil, t.args()...)
	var codes []int
	for _, process := range []*fixture.Process{one, two} {
		code, err := process.Wait()
		if err != nil {
			return code, err
		}
		codes = append(codes, code)
	}
	t.stderr.WriteString(other.String())
	if slices.Sort(codes); codes[1] != exitLostLease || !strings.Contains(t.stderr.String(), "holds it since") {
		t.misbehaviour = append(t.misbehaviour, fmt.Sprintf("two commands that were started together end with %v", codes))
	}
	return codes[0], nil
}
