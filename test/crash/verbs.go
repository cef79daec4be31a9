package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// verbAfterFault returns the verb of the command that runs after the fault; "" for none.
func (f fault) verbAfterFault() record.Verb {
	switch verb := record.Verb(f); verb {
	case record.VerbPause, record.VerbRollback, record.VerbComplete, record.VerbAbort:
		return verb
	default:
		return ""
	}
}

// runVerb runs the command with the verb, from a home directory that has no data about the upgrade. If the verb is refused, and after
// a pause, another command continues the upgrade. runVerb returns the exit code of the command that ended the upgrade.
func (t *testCase) runVerb(ctx context.Context, verb record.Verb) (int, error) {
	rec, err := t.record(ctx)
	if err != nil {
		return 0, err
	}
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(home)
	args := []string{"nodeupgrade", string(verb), t.group()}
	if verb != record.VerbPause {
		args = append(args, "--yes", "--parallel-groups")
	}
	code, err := t.Start(ctx, io.Discard, &t.stderr, []string{"HOME=" + home}, args...).Wait()
	if err != nil || (code != 0 && code != exitRefused) {
		return code, err
	}
	if allowed := rec.Run != "" && upgrade.Allows(&rec, verb) == nil; allowed != (code == 0) {
		t.misbehaviour = append(t.misbehaviour, fmt.Sprintf("%s ended with %d in the phase %q", verb, code, rec.Phase))
	}
	switch {
	case code == exitRefused:
		return t.Start(ctx, io.Discard, &t.stderr, nil, t.args("--takeover")...).Wait()
	case verb == record.VerbPause:
		t.carriedOut = verb
		return t.Start(ctx, io.Discard, &t.stderr, nil, "nodeupgrade", "resume", t.group(), "--yes", "--parallel-groups").Wait()
	default:
		t.carriedOut = verb
		return code, nil
	}
}

// expectedAfterRollback returns the expected state of a group after a rollback: the state before the upgrade, with all nodes of the
// old revision.
func (t *testCase) expectedAfterRollback() state {
	expected := t.before.expectedState()
	expected["nodes"] = fmt.Sprintf("0 current, %d outdated", len(t.before.instances))
	expected["record"] = describeRecord(record.Record{
		Phase: record.PhaseDone, Result: record.Succeeded, Message: "rolled back to " + t.scaling + ":1",
		Total: t.finalRecord.Total, Replaced: t.finalRecord.Total, Suspended: t.finalRecord.Suspended,
	})
	return expected
}

// expectedAfterAbort returns the expected state of a group after an abort: no node is fenced, and no process is suspended. The nodes,
// the record, the sizes and the ready pods may vary.
func (t *testCase) expectedAfterAbort(found state) state {
	expected := t.before.expectedState()
	for _, free := range []string{"nodes", "record", "sizes", "ready pods"} {
		expected[free] = found[free]
	}
	return expected
}

// removedInstances returns the instances that the group had before the upgrade and that no longer exist. now contains its current
// instances.
func (t *testCase) removedInstances(now map[string]bool) map[string]bool {
	gone := maps.Clone(t.before.instances)
	maps.DeleteFunc(gone, func(id string, _ bool) bool { return now[id] })
	return gone
}
