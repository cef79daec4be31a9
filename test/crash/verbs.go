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

// verb returns the verb that is requested after the fault; "" for none.
func (f fault) verb() record.Verb {
	switch verb := record.Verb(f); verb {
	case record.VerbPause, record.VerbRollback, record.VerbComplete, record.VerbAbort:
		return verb
	default:
		return ""
	}
}

// askVerb runs the command with the verb from a home directory that has no data about the upgrade. It returns the exit code of the
// command that ended the upgrade. The upgrade continues if its phase refuses the verb, and after a pause.
func (t *testCase) askVerb(ctx context.Context, verb record.Verb) (int, error) {
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
	code, err := t.Start(ctx, io.Discard, &t.said, []string{"HOME=" + home}, args...).Wait()
	if err != nil || (code != 0 && code != refused) {
		return code, err
	}
	if allowed := rec.Run != "" && upgrade.Allows(&rec, verb) == nil; allowed != (code == 0) {
		t.strange = append(t.strange, fmt.Sprintf("%s ended with %d in the phase %q", verb, code, rec.Phase))
	}
	switch {
	case code == refused:
		return t.Start(ctx, io.Discard, &t.said, nil, t.args("--takeover")...).Wait()
	case verb == record.VerbPause:
		t.obeyed = verb
		return t.Start(ctx, io.Discard, &t.said, nil, "nodeupgrade", "resume", t.group(), "--yes", "--parallel-groups").Wait()
	default:
		t.obeyed = verb
		return code, nil
	}
}

// expectedBack returns the expected state of a group after a rollback. It is as before, with new nodes of the old revision in place of
// the nodes that had been replaced. Their number depends on the point.
func (t *testCase) expectedBack() state {
	expected := t.before.expected()
	expected["nodes"] = fmt.Sprintf("0 current, %d outdated", len(t.before.instances))
	expected["record"] = describe(record.Record{
		Phase: record.PhaseDone, Result: record.Succeeded, Message: "rolled back to " + t.scaling + ":1",
		Total: t.left.Total, Replaced: t.left.Total, Suspended: t.left.Suspended,
	})
	return expected
}

// expectedAborted returns the expected state of a group after an abort: nothing is fenced or suspended. Any nodes are allowed.
func (t *testCase) expectedAborted(found state) state {
	expected := t.before.expected()
	for _, free := range []string{"nodes", "record", "sizes", "ready pods"} {
		expected[free] = found[free]
	}
	return expected
}

// gone returns the group's earlier instances that it no longer has.
func (t *testCase) gone(now map[string]bool) map[string]bool {
	gone := maps.Clone(t.before.instances)
	maps.DeleteFunc(gone, func(id string, _ bool) bool { return now[id] })
	return gone
}
