package plugin

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestInvalidVerbsAreRejected checks that a verb that is not allowed in the state of the record prints an
// error and writes nothing.
func TestInvalidVerbsAreRejected(t *testing.T) {
	cases := map[string]struct {
		args, stderr string
		code         int
	}{
		"without a group":         {"pause", "error: no group is named: kubectl nodeupgrade pause GROUP\n", 2},
		"of two groups":           {"pause blue green", "error: pause takes one group; got blue, green\n", 2},
		"a group nobody upgraded": {"abort red --yes", "error: aborting the upgrade of group \"red\": it has no recorded upgrade: run kubectl nodeupgrade red to start one, or kubectl nodeupgrade status red to list what an earlier upgrade left\n", 2},
		"by a node":               {"pause --node g1", "error: pausing the upgrade of group \"green\": its upgrade is over (succeeded)\n", 2},
		"by an unknown node":      {"pause --node n9", "error: finding the group of node \"n9\": no such node: check kubectl get nodes\n", 2},
		"by a selector":           {"pause -l pool=x", "error: pausing the upgrade of group \"pool=x\": it has no recorded upgrade", 2},
		"a soak that is not":      {"complete blue", "error: completing the upgrade of group \"blue\": its strategy is surge, which has no soak to end\n", 2},
		"without a cloud":         {"rollback blue --yes", "error: rolling back group \"blue\": without a cloud only you can add nodes of the older revision", 2},
		"a pause of EKS":          {"pause managed", "error: pausing the upgrade of group \"managed\": EKS cannot pause an update: it runs until it has finished", 2},
		"a way back of EKS":       {"rollback managed --yes", "error: rolling back group \"managed\": EKS cannot take a node group back to an older version: create a node group", 2},
		"going on by force":       {"blue --current image=v2 --yes", "error: group \"blue\" was paused by ann@host at 2026-01-08T12:00:00Z: run kubectl nodeupgrade resume blue to continue\n", 5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			s.storeRecord(t, "green", stoppedRecordOf(record.Succeeded))
			rec := stoppedRecord(record.Paused, byVerb)
			rec.Version, rec.Request.Strategy, rec.Request.Current = 1, record.Surge, map[string]string{"image": "v2"}
			s.storeRecord(t, "blue", rec)
			managed := stoppedRecord("")
			managed.Version, managed.Phase, managed.Provider, managed.Delegation = 2, record.PhaseFollow, "aws", &record.Delegation{Attempt: 1}
			managed.Request.Strategy = record.Delegated
			s.storeRecord(t, "managed", managed)
			s.serve(t)
			stdout, stderr, code := invoke(t, strings.Fields(c.args)...)
			if code != c.code || stdout != "" || !strings.HasPrefix(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d\nstdout %q\nstderr %q\nwant   %q", code, c.code, stdout, stderr, c.stderr)
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("sent %q", s.sentRequests())
			}
		})
	}
}

func TestVerbsOfferOnlyGroupsWithUnfinishedUpgrade(t *testing.T) {
	s := twoGroups()
	for name, result := range map[string]record.Result{"blue": record.Paused, "bluer": record.Succeeded, "green": ""} {
		record := stoppedRecord(result)
		record.Version = 1
		s.storeRecord(t, name, record)
	}
	s.serve(t)
	for typed, want := range map[string]string{"": "blue green", "b": "blue", "x": ""} {
		if got := strings.Join(completions(t, "resume", typed), " "); got != want {
			t.Errorf("%q: offered %q, want %q", typed, got, want)
		}
	}
	if got := completions(t, "resume", "blue", ""); len(got) > 0 {
		t.Errorf("offered %q beside a group", got)
	}
}

// TestSettingsAreRestoredFromRecord checks that a verb uses the provider, the selector and the labels in
// the record.
func TestSettingsAreRestoredFromRecord(t *testing.T) {
	v2 := map[string]string{"image": "v2"}
	cases := map[string]struct {
		name               string
		recorded, typed    map[string]string
		provider, selector string
		current            string
	}{
		"of a cloud":             {"workers", nil, nil, "auto", "", ""},
		"of labelled nodes":      {"workers", v2, nil, "manual", "", "v2"},
		"by a selector":          {"pool=x", v2, nil, "manual", "pool=x", "v2"},
		"by a longer selector":   {"pool in (x,y)", v2, nil, "manual", "pool in (x,y)", "v2"},
		"other labels are typed": {"workers", v2, map[string]string{"image": "v3"}, "manual", "", "v3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			typed := commandLine{choices: choices{providerName: "auto"}, groups: groupSelection{names: []string{c.name}}, settings: upgrade.Settings{Current: c.typed}}
			got, err := restoreSettings(typed, modeUpgrade, c.name, &record.Record{Request: record.Request{Current: c.recorded}})
			if err != nil {
				t.Fatal(err)
			}
			if got.providerName != c.provider || got.groups.selector != c.selector || got.settings.Current["image"] != c.current || (got.groups.labels == nil) != (c.selector == "") {
				t.Errorf("got provider %q, groups by %+v, current %v", got.providerName, got.groups, got.settings.Current)
			}
		})
	}
}

// TestResultIsPrintedAsOneDocumentForPrograms checks that programs get one document, whatever people see.
func TestResultIsPrintedAsOneDocumentForPrograms(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	people, programs := console{IOStreams: streams}, console{IOStreams: streams, format: "json"}
	if err := people.printDone("workers", stoppedRecord(record.Paused), "nodegroup/workers paused by a\x1b[2J"); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "nodegroup/workers paused by a^[[2J\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	if err := programs.printDone("workers", stoppedRecord(record.Paused), "paused"); err != nil {
		t.Fatal(err)
	}
	var status report.UpgradeStatus
	decodeOneDocument(t, out.String(), &status)
	if status.Name != "workers" || status.Result != record.Paused {
		t.Errorf("got %+v", status)
	}
}

// TestActionLogListsEachActionOnce checks that each action is listed once, in order.
func TestActionLogListsEachActionOnce(t *testing.T) {
	var d actionLog
	unfence, resume := nodemark.Unfence{NodeVersion: nodemark.NodeVersion{Node: "n1", UID: "u1"}}, nodegroup.Resume{Processes: []string{"AZRebalance"}}
	d.addActions(upgrade.Step{Actions: []nodegroup.Action{unfence}})
	unfence.Version = "7" // a second try
	d.addActions(upgrade.Step{Actions: []nodegroup.Action{unfence, resume}})
	if got, want := strings.Join(d.formatLines("head", "- "), "\n"), "head\n- unfence node n1\n- resume AZRebalance"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestStatusScreenPrintsOnlyChangedStatus: a status that differs only in its times does not count as
// changed.
func TestStatusScreenPrintsOnlyChangedStatus(t *testing.T) {
	status := func(replaced int, result record.Result) *report.UpgradeStatus {
		record := stoppedRecord(result)
		record.Replaced = replaced
		return makeUpgradeStatus("workers", record)
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	screen := newStatusScreen(console{IOStreams: streams})
	waiting := status(1, "")
	waiting.Status.Waiting = "a node"
	for _, s := range []*report.UpgradeStatus{status(1, ""), status(1, ""), waiting, waiting, status(2, record.Succeeded)} {
		if err := screen.showChange(s, &record.Record{}); err != nil {
			t.Fatal(err)
		}
	}
	text := out.String()
	if strings.Count(text, "Phase       ") != 2 || strings.Count(text, "  waiting for a node\n") != 1 || !strings.Contains(text, "\n\nDone: ") || !strings.Contains(text, "Ended       succeeded\n") {
		t.Errorf("want the first and the last status, and one line between:\n%s", text)
	}
}
