package plugin

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestFinalResultListsReleasedNodes ends the upgrade in another process while this one waits for the lease. This
// process then only unfences nodes, and must list them.
func TestFinalResultListsReleasedNodes(t *testing.T) {
	var out bytes.Buffer
	line := &commandLine{console: console{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}, progress: "quiet"}}
	g := &groupContext{name: "workers", resolution: resolution{nodesToUnfence: []string{"n1"}}}
	e := &execution{s: &session{command: &command{line: line}}, g: g, mode: modeUpgrade, display: line.openDisplay("workers", nil)}
	defer e.display.Close()
	e.handleStep(upgrade.Step{Actions: []nodegroup.Action{nodemark.Unfence{NodeVersion: nodemark.NodeVersion{Node: "n1"}}}})
	if err := e.printFinalResult(record.Record{Result: record.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "done: unfence node n1") {
		t.Errorf("it says %q", got)
	}
}

// TestGroupIsReadAgainAfterWaitForLease checks both cases after the wait for the lease. Either only the record is read again
// and the upgrade is resolved from it, or everything is read and nothing of the old group is kept.
func TestGroupIsReadAgainAfterWaitForLease(t *testing.T) {
	server := twoGroups()
	rec := stoppedRecordOf(record.Interrupted)
	rec.Request = record.Request{Group: "blue", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Current: map[string]string{"image": "v2"}}
	server.storeRecord(t, "blue", rec)
	server.serve(t)
	s := openBlue(t.Context(), t, io.Discard, "--current=image=v2", "--yes")
	before, err := s.loadGroup(t.Context(), "blue", modeResume)
	if err != nil {
		t.Fatal(err)
	}
	e := &execution{s: s, g: before, mode: modeResume}
	rec.Replaced, rec.Request.MaxUnavailable, server.maps = 1, 3, nil
	server.storeRecord(t, "blue", rec)
	for i := range server.nodes {
		server.nodes[i].Labels["image"] = "v2"
	}
	for _, all := range []bool{false, true} {
		if err := e.readGroupAgain(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		outdated := 1
		if all {
			outdated = 0
		}
		if e.g.record.Replaced != 1 || e.g.request.MaxUnavailable != 3 || countOutdated(e.g.members) != outdated || (e.g == before) == all {
			t.Errorf("all read again %t: %d replaced, request %+v, %d outdated, want %d; the same group %t",
				all, e.g.record.Replaced, e.g.request, countOutdated(e.g.members), outdated, e.g == before)
		}
	}
	if countOutdated(before.members) != 1 {
		t.Errorf("the old group has changed: %+v", before.members)
	}
}
