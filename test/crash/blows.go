package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

const (
	// refused is the exit code of a command that may not do what it is asked, and touched nothing.
	refused = 2
	// lostLease is the exit code of a command whose lease is another actor's.
	lostLease = 5
)

// upgrade carries the upgrade out to its end, whatever happens on the way, and returns the exit code of the command that ended it.
func (t *trial) upgrade(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch t.point.blow {
	case pair:
		return t.both(ctx)
	case ahead:
		return t.joined(ctx)
	default:
		return t.interrupted(ctx)
	}
}

// interrupted starts the command, which the blow falls on, and has it or the same command come to the end.
func (t *trial) interrupted(ctx context.Context) (int, error) {
	var process *stage.Process
	started, struck, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	tap, err := openTap(ctx, t.Stage, t.point, func() {
		<-started
		if t.point.blow.halts() {
			_ = process.Halt() // what it does later tells
			close(struck)
			return
		}
		_ = process.Kill() // its exit code tells
		<-ended
	})
	if err != nil {
		return 0, err
	}
	defer tap.close()
	env, err := t.env(tap)
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
	case <-struck:
		return t.takenOver(ctx, process, tap, func() (int, error) { <-ended; return code, err })
	case <-ended:
	}
	t.writes = tap.seen()
	if err != nil || !t.point.blow.kills() || len(t.writes) < t.point.n {
		return code, err
	}
	if code != killed {
		return 0, fmt.Errorf("the command ended with %d and was to be killed: %s", code, t.said.String())
	}
	if verb := t.point.blow.verb(); verb != "" {
		return t.askVerb(ctx, verb)
	}
	// The dead holder's lease would be watched for a minute otherwise.
	return t.Start(ctx, io.Discard, &t.said, nil, t.args("--takeover")...).Wait()
}

// env is what the command that the blow falls on gets.
func (t *trial) env(tap *tap) ([]string, error) {
	if t.point.blow != clock && t.point.blow != back {
		return tap.env(), nil
	}
	onClock, err := t.onClock(0)
	return append(tap.env(), onClock...), err
}

// takenOver has the same command end what the halted one began, which then continues: it has to notice that the upgrade is not its
// own any more before anything that it writes has an effect: what was on its way to the cluster is refused there.
func (t *trial) takenOver(ctx context.Context, halted *stage.Process, tap *tap, wait func() (int, error)) (int, error) {
	var other strings.Builder
	code, err := t.Start(ctx, io.Discard, &other, nil, t.args()...).Wait()
	t.writes = tap.seen()
	had := len(tap.had())
	left, leftErr := t.lease(ctx)
	switch t.point.blow {
	case clock:
		leftErr = errors.Join(leftErr, t.wallClock().setForward(forward))
	case back:
		leftErr = errors.Join(leftErr, t.wallClock().setForward(-forward))
	}
	_ = halted.Continue() // its exit code tells
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
		t.strange = append(t.strange, fmt.Sprintf("the command that was halted ended with %d: %s", late, stage.Complaint(t.said.String())))
	}
	for _, write := range tap.had()[had:] {
		t.strange = append(t.strange, "the command that was halted wrote later: "+write)
	}
	t.said.WriteString(other.String())
	return code, nil
}

// joined starts the command a second time, with a clock that is ahead, while the first continues: the second has to say that it does, or
// that nothing is left to do, and to change nothing. By its clock the lease is long over.
func (t *trial) joined(ctx context.Context) (int, error) {
	onClock, err := t.onClock(forward)
	if err != nil {
		return 0, err
	}
	quiet, err := openTap(ctx, t.Stage, point{}, nil)
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
	tap, err := openTap(ctx, t.Stage, t.point, func() {
		code, err := t.Start(ctx, &out, &other, append(quiet.env(), onClock...), t.args()...).Wait()
		ended <- end{code, err}
	})
	if err != nil {
		return 0, err
	}
	code, err := t.Start(ctx, io.Discard, &t.said, tap.env(), t.args()...).Wait()
	t.writes = tap.close()
	select {
	case second := <-ended:
		t.said.WriteString(other.String())
		refused := second.code == lostLease && strings.Contains(other.String(), "holds it since")
		if current := second.code == 0 && strings.Contains(out.String(), "nodes are current"); !refused && !current {
			said := stage.Complaint(other.String())
			t.strange = append(t.strange, fmt.Sprintf("the command whose clock is ahead ended with %d: %s", second.code, said))
		}
		for _, write := range quiet.seen() {
			t.strange = append(t.strange, "the command whose clock is ahead wrote: "+write)
		}
		return code, errors.Join(err, second.err)
	default: // only the lease's return was left to write
		t.writes = t.writes[:min(len(t.writes), t.point.n-1)]
		return code, err
	}
}

// both starts the command twice: one of them has to continue, and the other to say that it does.
func (t *trial) both(ctx context.Context) (int, error) {
	one := t.Start(ctx, io.Discard, &t.said, nil, t.args()...)
	var other strings.Builder
	two := t.Start(ctx, io.Discard, &other, nil, t.args()...)
	var codes []int
	for _, process := range []*stage.Process{one, two} {
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
