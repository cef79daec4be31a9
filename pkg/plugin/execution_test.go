package plugin

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// TestEndListsWhatWasReleased: an upgrade that was ended by another process while this one waited for the lease only
// releases nodes. It lists them, although the group had outdated nodes when the user was asked.
func TestEndListsWhatWasReleased(t *testing.T) {
	var out bytes.Buffer
	line := &commandLine{console: console{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}, progress: "quiet"}}
	g := &groupContext{name: "workers", resolution: resolution{releases: []string{"n1"}}}
	e := &execution{s: &session{command: &command{line: line}}, g: g, mode: modeUpgrade, display: line.openDisplay("workers", nil)}
	defer e.display.Close()
	e.watchStep(upgrade.Step{Actions: []nodegroup.Action{upgrade.Unfence{NodeVersion: upgrade.NodeVersion{Node: "n1"}}}})
	if err := e.printEnd(upgrade.Record{Result: upgrade.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "done: unfence node n1") {
		t.Errorf("it says %q", got)
	}
}
