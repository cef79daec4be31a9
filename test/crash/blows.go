package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// lostLease is the exit code of a command whose lease is somebody else's.
const lostLease = 5

// upgrade carries the upgrade out to its end, whatever happens on the way, and returns the exit code of the command that ended it.
func (t *trial) upgrade(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if t.point.blow == pair {
		return t.both(ctx)
	}
	var process *stage.Process
	started, struck, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	tap, err := openTap(ctx, t.Stage, t.point, func() {
		<-started
		if t.point.blow == stop {
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
	process = t.Start(ctx, io.Discard, &t.said, tap.env(), t.args()...)
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
	if err != nil || t.point.blow != kill || len(t.writes) < t.point.n {
		return code, err
	}
	if code != killed {
		return 0, fmt.Errorf("the command ended with %d and was to be killed: %s", code, t.said.String())
	}
	// The dead holder's lease would be watched for a minute otherwise.
	return t.Start(ctx, io.Discard, &t.said, nil, t.args("--takeover")...).Wait()
}

// takenOver has the same command end what the halted one began, which then goes on: it has to notice that the upgrade is not its
// own any more before it writes anything.
func (t *trial) takenOver(ctx context.Context, halted *stage.Process, tap *tap, wait func() (int, error)) (int, error) {
	var other strings.Builder
	code, err := t.Start(ctx, io.Discard, &other, nil, t.args()...).Wait()
	t.writes = tap.seen()
	_ = halted.Continue() // its exit code tells
	late, lateErr := wait()
	t.said.WriteString(other.String())
	if err != nil || lateErr != nil {
		return code, fmt.Errorf("waiting for both: %w, %w", err, lateErr)
	}
	if late != lostLease {
		t.strange = append(t.strange, fmt.Sprintf("the command that was halted ended with %d", late))
	}
	for _, write := range tap.seen()[len(t.writes):] {
		if !strings.Contains(write, "/leases/") { // which tells it whose the lease is
			t.strange = append(t.strange, "the command that was halted wrote later: "+write)
		}
	}
	return code, nil
}

// both starts the command twice: one of them has to go on, and the other to say that it does.
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
