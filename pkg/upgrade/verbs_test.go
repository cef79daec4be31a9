package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// halfway returns the record of an upgrade from one revision to another that stopped with the result.
func halfway(result record.Result, from, to string) record.Record {
	return record.Record{
		Run: "r1", Request: record.Request{Run: "r1", Group: "workers", To: "latest"}, Phase: record.PhaseUpgrade, Result: result,
		Previous: nodegroup.Revision{ID: from, Name: from}, Target: nodegroup.Revision{ID: to, Name: to}, Total: 4, Replaced: 1, Begun: 2,
	}
}

// G28, G58: only an upgrade that stopped half-way can be rolled back, and only to a revision that --to can name.
func TestOnlyStoppedUpgradeHasRollbackTarget(t *testing.T) {
	const from, to = "workers:7", "workers:8"
	back := halfway(record.Interrupted, from, to)
	back = upgrade.AsRollback(&back, nodegroup.Revision{ID: from, Name: from}, start)
	aborting := halfway(record.Paused, from, to)
	aborting = aborting.AsAborting()
	cases := map[string]struct {
		record record.Record
		want   string
		err    string
	}{
		"nothing recorded":            {record.Record{}, "", "no upgrade is recorded"},
		"a dead holder":               {halfway("", from, to), "7", ""},
		"paused":                      {halfway(record.Paused, from, to), "7", ""},
		"to an image":                 {halfway(record.Failed, "workers@ami-0a", "workers@ami-0b"), "ami-0a", ""},
		"completed":                   {halfway(record.Succeeded, from, to), "", "rollback needs an upgrade that stopped half-way"},
		"completed, with nodes left":  {halfway(record.LeftBehind, from, to), "", "rollback needs an upgrade that stopped half-way"},
		"aborted":                     {halfway(record.Aborted, from, to), "", "rollback needs an upgrade that stopped half-way"},
		"being aborted":               {aborting, "", "run kubectl nodeupgrade abort workers to continue"},
		"from where it is to":         {halfway(record.Paused, to, to), "", "the earlier revision of the nodes of run r1 is unknown"},
		"from what --to cannot name":  {halfway(record.Paused, "launch-configuration", to), "", "the earlier revision of the nodes of run r1 is unknown"},
		"the way back itself goes on": {back, "7", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := upgrade.RollbackTarget(&c.record)
			if got != c.want || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %q, %v, want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestRecordTellsIfUndoIsRollbackOrAbort(t *testing.T) {
	paused := halfway(record.Paused, "workers:7", "workers:8")
	back, aborting := upgrade.AsRollback(&paused, paused.Previous, start), paused.AsAborting()
	with := func(record record.Record, result record.Result) record.Record {
		record.Result = result
		return record
	}
	cases := map[string]struct {
		record record.Record
		want   record.Verb
	}{
		"nothing recorded":          {record.Record{}, ""},
		"an upgrade":                {paused, ""},
		"a way back":                {back, record.VerbRollback},
		"a way back that stopped":   {with(back, record.Interrupted), record.VerbRollback},
		"a way back at its end":     {with(back, record.Succeeded), ""},
		"an abort":                  {aborting, record.VerbAbort},
		"an abort that was refused": {with(aborting, record.Failed), record.VerbAbort},
		"an abort at its end":       {with(aborting, record.Aborted), ""},
		"an abort of a way back":    {back.AsAborting(), record.VerbAbort},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.record.UndoVerb(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The record of a rollback or abort keeps, of the started nodes, only those that are being terminated.
func TestRecordOfUndoKeepsOnlyTerminatingNodes(t *testing.T) {
	rec := halfway(record.Interrupted, "workers:7", "workers:8")
	rec.PausedBy, rec.Message, rec.Ended = "alice", "m", start
	rec.Ledger = ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"a": {Surge: 1, Launched: 2, Shrunk: 1, Refusal: "no capacity", RetryAt: start}}})
	rec.Nodes = map[string]record.NodeRecord{
		"draining": {State: record.NodeDraining, Batch: 1}, "empty": {State: record.NodeEmpty, Batch: 1},
		"removing": {State: record.NodeRemoving, Batch: 1, Shrink: true}, "quarantined": {State: record.NodeQuarantined, Batch: 2},
	}
	back, aborting := upgrade.AsRollback(&rec, rec.Previous, start), rec.AsAborting()
	for name, got := range map[string]record.Record{"back": back, "aborting": aborting} {
		if len(got.Nodes) != 1 || got.Nodes["removing"].State != record.NodeRemoving {
			t.Errorf("%s: nodes %v, want the one that is being terminated", name, got.Nodes)
		}
		if got.Result != "" || got.PausedBy != "" || got.Message != "" || !got.Ended.IsZero() || got.Run != "r1" {
			t.Errorf("%s: it is not under way: %+v", name, got)
		}
		if z := got.Ledger.Books().Zones["a"]; z.Contribution() != 1 || z.Refusal != "" || !z.RetryAt.IsZero() {
			t.Errorf("%s: the books say %+v", name, z)
		}
	}
	if len(rec.Nodes) != 4 || rec.Ledger.LaunchRefusal() == "" {
		t.Error("the record itself was changed")
	}
}

// A rollback begins again, in the other direction. An abort keeps the upgrade's phase.
func TestRollbackBeginsAgainAndAbortDoesNot(t *testing.T) {
	rec := halfway(record.Interrupted, "workers:7", "workers:8")
	back, aborting := upgrade.AsRollback(&rec, rec.Previous, start), rec.AsAborting()
	if !back.Rollback || back.Phase != record.PhaseSetup || !back.PhaseBegan.IsZero() || back.Replaced+back.Total+back.Begun != 0 {
		t.Errorf("the rollback does not begin again: %+v", back)
	}
	if back.Target != rec.Previous || back.Previous != rec.Target || back.Request.To != "7" {
		t.Errorf("the rollback goes from %s to %s (--to=%s)", back.Previous.Name, back.Target.Name, back.Request.To)
	}
	if aborting.Stopping != record.Aborted || aborting.Target != rec.Target || aborting.Phase != rec.Phase {
		t.Errorf("aborting is %+v", aborting)
	}
}

// A rollback goes back to the revision that the group points at or, if the group has followed its template already, to
// the one that most nodes have.
func TestRecordStoresRevisionForRollback(t *testing.T) {
	at := func(name, revision string) nodegroup.Member {
		m := old(name)
		m.Instance.Revision = revisionOf(revision)
		return m
	}
	cases := map[string]struct {
		pointed        string
		members        []nodegroup.Member
		previous, then string
	}{
		"it points at the old one":       {"1", []nodegroup.Member{at("old-a-1", "0"), at("old-a-2", "0"), at("old-a-3", "1")}, "1", ""},
		"it points at the new one":       {"2", []nodegroup.Member{at("old-a-1", "0"), at("old-a-2", "1"), at("old-a-3", "1")}, "1", "2"},
		"as many of the one as the next": {"2", []nodegroup.Member{at("old-a-1", "1"), at("old-a-2", "0")}, "1", "2"},
		"nobody tells":                   {"2", []nodegroup.Member{old("old-a-1")}, "2", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, c.members...)
			s.Group.Pointed = revisionOf(c.pointed)
			record := s.next().Record
			if record.Previous.ID != c.previous || record.Pointed.ID != c.then {
				t.Errorf("previous %q, pointed %q, want %q and %q", record.Previous.ID, record.Pointed.ID, c.previous, c.then)
			}
		})
	}
}

func (s *scene) ask(verb record.Verb) {
	s.Asked = record.Asked{Verb: verb, Run: s.Record.Run, By: "alice@host", At: s.Now}
}

// G25: the started node finishes first, and the others take pods again.
func TestPauseFinishesStartedNodeAndUnfencesOthers(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.ask(record.VerbPause)
	step := s.next()
	if step.Finished || step.Record.Stopping != "" || step.Status.Waiting != "pausing: 1 node is finished first" {
		t.Fatalf("finished %t, stopping %q, waiting for %q", step.Finished, step.Record.Stopping, step.Status.Waiting)
	}
	s.remove("old-a-1")
	s.add(current("new-a-1"))
	s.pass(time.Minute)
	if step = s.next(); len(step.Record.Nodes) > 0 || len(actionsOf(step, "start")) > 0 {
		t.Fatalf("nodes %v, actions %v", step.Record.Nodes, step.Actions)
	}
	step = s.rest()
	want := "paused by alice@host: run kubectl nodeupgrade resume workers to continue"
	if !step.Finished || step.Record.Result != record.Paused || step.Record.PausedBy != "alice@host" || step.Record.Message != want {
		t.Errorf("result %q by %q: %q, want %q", step.Record.Result, step.Record.PausedBy, step.Record.Message, want)
	}
	if node := s.at("old-a-2").Node; node.Spec.Unschedulable || len(node.Annotations) > 0 {
		t.Error("the node not started is fenced still")
	}
	if again := step.Record.Reopened(); again.PausedBy != "" || !again.IsRunning() {
		t.Errorf("opened again it is %+v", again)
	}
}

func TestPauseForDifferentRunOrAfterLastNodeIsIgnored(t *testing.T) {
	cases := map[string]func(*scene){
		"for another run":                  func(s *scene) { s.Asked.Run = "r0" },
		"when nothing is left to be begun": func(s *scene) { s.remove("old-a-2") },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
			s.do(s.next().Actions...)
			s.ask(record.VerbPause)
			change(s)
			s.remove("old-a-1")
			s.add(current("new-a-1"))
			s.pass(time.Minute)
			if step := s.next(); step.Record.Stopping != "" {
				t.Errorf("stopping with %q: %s", step.Record.Stopping, step.Record.Message)
			}
		})
	}
}

// No node was started in scale up, so a pause has nothing to wait for, and the launched nodes are in the ledger.
func TestPauseDuringScaleUpStopsWithoutWaiting(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.ask(record.VerbPause)
	s.next()
	step := s.next()
	if !step.Finished || step.Record.Result != record.Paused || step.Record.Ledger.Contribution() != 2 {
		t.Errorf("finished %t with %q, contribution %d", step.Finished, step.Record.Result, step.Record.Ledger.Contribution())
	}
}

// A pause is withdrawn before the upgrade has come to rest. Nodes that were unfenced for it are fenced again.
func TestWithdrawnPauseFencesOutdatedNodesAgain(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.ask(record.VerbPause)
	s.remove("old-a-1")
	s.add(current("new-a-1"))
	s.pass(time.Minute)
	s.do(s.next().Actions...) // the replacement
	s.next()
	s.do(action[nodemark.Unfence](t, s.next()))
	s.Asked = record.Asked{}
	step := s.next()
	if step.Record.Stopping != "" || step.Record.PausedBy != "" || step.Record.Message != "" || len(actionsOf(step, "fence")) == 0 {
		t.Errorf("stopping %q by %q, %q, actions %v", step.Record.Stopping, step.Record.PausedBy, step.Record.Message, step.Actions)
	}
}

// Ctrl-C ends the upgrade without the waits of a pause.
func TestInterruptDoesNotWaitForPause(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.ask(record.VerbPause)
	s.next()
	s.Stop = true
	step := s.next()
	wantActions(t, step, "unfence node old-a-2")
	s.do(step.Actions...)
	interrupted(t, s.next())
}

// For a rollback or an abort, an upgrade only stops. A running rollback or abort does not stop for its own request.
func TestUpgradeStopsForRollbackAndAbort(t *testing.T) {
	cases := map[string]struct {
		verb record.Verb
		back bool
		want string
	}{
		"rollback":             {record.VerbRollback, false, "stopped for a rollback requested by alice@host"},
		"abort":                {record.VerbAbort, false, "stopped for an abort requested by alice@host"},
		"rollback of itself":   {record.VerbRollback, true, ""},
		"abort of a way back":  {record.VerbAbort, true, "stopped for an abort requested by alice@host"},
		"a word nobody knows":  {"tidy", false, ""},
		"complete: no soak is": {"complete", false, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
			s.do(s.next().Actions...)
			s.Record.Rollback = c.back
			s.ask(c.verb)
			step := s.next()
			if step.Record.Message != c.want || (step.Record.Stopping == record.Interrupted) != (c.want != "") {
				t.Fatalf("stopping %q: %q, want %q", step.Record.Stopping, step.Record.Message, c.want)
			}
			if c.want == "" {
				return
			}
			step = s.rest()
			if !step.Finished || step.Record.Result != record.Interrupted || step.Record.Message != c.want {
				t.Errorf("finished %t with %q: %q", step.Finished, step.Record.Result, step.Record.Message)
			}
			wantState(t, step, "old-a-1", record.NodeDraining)
		})
	}
}

// unmarked checks that a node has no marks of ours.
func unmarked(t *testing.T, node *corev1.Node) {
	t.Helper()
	if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 || len(node.Annotations) > 0 {
		t.Errorf("node %s keeps %+v %v", node.Name, node.Spec, node.Annotations)
	}
}
