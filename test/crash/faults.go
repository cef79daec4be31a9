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
	// refused is the exit code of a command that was refused and changed nothing.
	refused = 2
	// lostLease is the exit code of a command whose lease another process holds.
	lostLease = 5
)

// fault is what happens at a point of the upgrade.
type fault string

const (
	// kill kills the tool once the server has answered.
	kill fault = "kill"
	// lose closes the connection instead of passing on the answer.
	lose fault = "lose"
	// stop halts the tool once the server has answered. The same command takes the upgrade over when the lease has expired. The first
	// one continues when the second has ended.
	stop fault = "stop"
	// down makes the API server unreachable for a minute once it has answered.
	down fault = "down"
	// pair starts the same command twice at the same time. The point's number tells the pairs apart.
	pair fault = "pair"
	// clock is stop, with the halted tool's wall clock set forward before it continues.
	clock fault = "clock"
	// back is stop, with the halted tool's wall clock set back before it continues. By that clock the lease is valid for another hour.
	back fault = "back"
	// ahead starts the same command again, with its wall clock set forward, once the server has answered. The first command gets the
	// answer when the second has ended. If the write is one of the lease, the next write is taken instead.
	ahead fault = "ahead"
	// These are kill, followed by a command with the verb. If the verb is refused, the same upgrade command continues.
	pause    fault = "pause"
	rollback fault = "rollback"
	complete fault = "complete"
	abort    fault = "abort"
)

// outage is how long the API server is unreachable: as long as a lease lasts.
const outage = time.Minute

func faults() []fault {
	return []fault{kill, lose, stop, down, pair, clock, back, ahead, pause, rollback, complete, abort}
}

// kills reports whether the tool is killed.
func (f fault) kills() bool { return f == kill || f.verb() != "" }

// halts reports whether the tool is halted until another process has ended the upgrade.
func (f fault) halts() bool { return f == stop || f == clock || f == back }

// setsClock reports whether the clock of one of the commands is set forward or back.
func (f fault) setsClock() bool { return f == clock || f == back || f == ahead }

// upgrade carries the upgrade out to its end in spite of the fault. It returns the exit code of the command that ended the upgrade.
func (t *testCase) upgrade(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	switch t.point.fault {
	case pair:
		return t.both(ctx)
	case ahead:
		return t.joined(ctx)
	default:
		return t.interrupted(ctx)
	}
}

// interrupted starts the command and injects the fault. This command or the same one again carries the upgrade to its end.
func (t *testCase) interrupted(ctx context.Context) (int, error) {
	var process *fixture.Process
	started, halted, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	proxy, err := openProxy(ctx, t.Fixture, t.point, func() {
		<-started
		if t.point.fault.halts() {
			_ = process.Halt() // its later behaviour shows an error
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
	process = t.Start(ctx, io.Discard, &t.said, env, t.args()...)
	close(started)
	var code int
	go func() {
		defer close(ended)
		code, err = process.Wait()
	}()
	select {
	case <-halted:
		return t.takenOver(ctx, process, proxy, func() (int, error) { <-ended; return code, err })
	case <-ended:
	}
	t.writes = proxy.seen()
	if err != nil || !t.point.fault.kills() || len(t.writes) < t.point.n {
		return code, err
	}
	if code != killed {
		return 0, fmt.Errorf("the command ended with %d and was to be killed: %s", code, t.said.String())
	}
	if verb := t.point.fault.verb(); verb != "" {
		return t.askVerb(ctx, verb)
	}
	// Without --takeover the command would wait a minute for the lease of the killed one.
	return t.Start(ctx, io.Discard, &t.said, nil, t.args("--takeover")...).Wait()
}

// env returns the environment of the command that the fault is injected into.
func (t *testCase) env(proxy *proxy) ([]string, error) {
	env := proxy.env()
	if t.older != "" {
		env = append(env, "PATH="+t.older+string(os.PathListSeparator)+os.Getenv("PATH")) // kubectl itself is started by its path, and finds the plugin by PATH
	}
	if t.point.fault != clock && t.point.fault != back {
		return env, nil
	}
	onClock, err := t.onClock(0)
	return append(env, onClock...), err
}

// takenOver runs the same command to the end of the upgrade that the halted one began. The halted one then continues. It must notice
// that it has lost the upgrade before any of its writes has an effect: the cluster refuses writes that were already under way.
func (t *testCase) takenOver(ctx context.Context, halted *fixture.Process, proxy *proxy, wait func() (int, error)) (int, error) {
	var other strings.Builder
	code, err := t.Start(ctx, io.Discard, &other, nil, t.args()...).Wait()
	t.writes = proxy.seen()
	had := len(proxy.had())
	left, leftErr := t.lease(ctx)
	switch t.point.fault {
	case clock:
		leftErr = errors.Join(leftErr, t.wallClock().setForward(forward))
	case back:
		leftErr = errors.Join(leftErr, t.wallClock().setForward(-forward))
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
		t.strange = append(t.strange, "the command that was halted changed the lease later")
	}
	if late != lostLease {
		t.strange = append(t.strange, fmt.Sprintf("the command that was halted ended with %d: %s", late, fixture.LastError(t.said.String())))
	}
	for _, write := range proxy.had()[had:] {
		t.strange = append(t.strange, "the command that was halted wrote later: "+write)
	}
	t.said.WriteString(other.String())
	return code, nil
}

// joined starts the command a second time, with a clock that is ahead, while the first continues. The second must report that the
// first holds the lease or that nothing is left to do, and must change nothing. By its clock the lease expired long ago.
func (t *testCase) joined(ctx context.Context) (int, error) {
	onClock, err := t.onClock(forward)
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
	code, err := t.Start(ctx, io.Discard, &t.said, proxy.env(), t.args()...).Wait()
	t.writes = proxy.close()
	select {
	case second := <-ended:
		t.said.WriteString(other.String())
		refused := second.code == lostLease && strings.Contains(other.String(), "holds it since")
		if current := second.code == 0 && strings.Contains(out.String(), "nodes are current"); !refused && !current {
			said := fixture.LastError(other.String())
			t.strange = append(t.strange, fmt.Sprintf("the command whose clock is ahead ended with %d: %s", second.code, said))
		}
		for _, write := range quiet.seen() {
			t.strange = append(t.strange, "the command whose clock is ahead wrote: "+write)
		}
		return code, errors.Join(err, second.err)
	default: // only the return of the lease was left to write
		t.writes = t.writes[:min(len(t.writes), t.point.n-1)]
		return code, err
	}
}

// both starts the command twice: one of them must continue, and the other must report that the first holds the lease.
func (t *testCase) both(ctx context.Context) (int, error) {
	one := t.Start(ctx, io.Discard, &t.said, nil, t.args()...)
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
	t.said.WriteString(other.String())
	if slices.Sort(codes); codes[1] != lostLease || !strings.Contains(t.said.String(), "holds it since") {
		t.strange = append(t.strange, fmt.Sprintf("two commands at once end with %v", codes))
	}
	return codes[0], nil
}
