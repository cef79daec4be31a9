package plugin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// endedAfter90s returns a record that ended after 90 seconds.
func endedAfter90s(result record.Result, message string, with ...func(*record.Record)) record.Record {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := record.Record{
		Run: "r1", Phase: record.PhaseUpgrade, Total: 4, Replaced: 2, Result: result, Message: message, Started: start, Ended: start.Add(90 * time.Second),
	}
	for _, change := range with {
		change(&r)
	}
	return r
}

// TestOnlySuccessIsReportedOnStdout: any other result is an error.
func TestOnlySuccessIsReportedOnStdout(t *testing.T) {
	left := func(r *record.Record) {
		r.Nodes = map[string]record.NodeRecord{
			"n3": {State: record.NodeQuarantined, Reason: "pod shop/b"}, "n1": {State: record.NodeQuarantined, Reason: "pod shop/a"}, "n2": {State: record.NodeDrained},
		}
	}
	none := func(r *record.Record) { r.Total, r.Replaced = 0, 0 }
	cases := map[string]struct {
		record      record.Record
		stdout, err string
		code        int
	}{
		"succeeded":               {endedAfter90s(record.Succeeded, ""), "nodegroup/blue upgraded: 2 of 4 nodes replaced in 1m30s\n", "", 0},
		"succeeded, with a note":  {endedAfter90s(record.Succeeded, "the group keeps 1"), "nodegroup/blue upgraded: 2 of 4 nodes replaced in 1m30s; the group keeps 1\n", "", 0},
		"nothing to do":           {endedAfter90s(record.Succeeded, "all 3 nodes are current", none), "nodegroup/blue is current: all 3 nodes are current\n", "", 0},
		"nothing to do or to say": {endedAfter90s(record.Succeeded, "", none), "nodegroup/blue is current\n", "", 0},
		"nodes left behind": {
			endedAfter90s(record.LeftBehind, "", left),
			"nodegroup/blue upgraded: 1 of 4 nodes replaced, 1 drained in 1m30s; drained nodes stay fenced until you replace them\nleft behind: node n1: pod shop/a\nleft behind: node n3: pod shop/b\n", "", 4,
		},
		"interrupted":              {endedAfter90s(record.Interrupted, ""), "", `upgrading group "blue": interrupted in phase "upgrade" with 2 of 4 nodes replaced: run kubectl nodeupgrade blue --yes to continue`, 130},
		"interrupted, with a note": {endedAfter90s(record.Interrupted, "node n1 stays fenced"), "", `upgrading group "blue": interrupted in phase "upgrade" with 2 of 4 nodes replaced (node n1 stays fenced): run kubectl nodeupgrade blue --yes to continue`, 130},
		"a node cannot be drained": {endedAfter90s(record.PodEvictionFailure, "draining node n1: x"), "", `upgrading group "blue": PodEvictionFailure: draining node n1: x; run kubectl nodeupgrade blue --yes to continue`, 1},
		"no nodes come up":         {endedAfter90s(record.NodeCreationFailure, "x"), "", `upgrading group "blue": NodeCreationFailure: x; run kubectl nodeupgrade blue --yes to continue`, 1},
		"refused for good":         {endedAfter90s(record.Failed, "x"), "", `upgrading group "blue": failed: x; run kubectl nodeupgrade blue --yes to continue`, 1},
		"somebody interfered":      {endedAfter90s(record.Paused, "run the command again to fence it again"), "", `upgrading group "blue": paused: run the command again to fence it again`, 5},
		"paused by somebody":       {endedAfter90s(record.Paused, "paused by ann: x", byVerb), "", `upgrading group "blue": paused by ann: x`, 5},
		"on the way back":          {endedAfter90s(record.Failed, "x", func(r *record.Record) { r.Rollback = true }), "", `rolling group "blue" back: failed: x; run kubectl nodeupgrade blue --yes to continue`, 1},
		"rolled back": {
			endedAfter90s(record.Succeeded, "", func(r *record.Record) { r.Rollback, r.Target.Name = true, "blue:1" }),
			"nodegroup/blue rolled back to blue:1: 2 of 4 nodes replaced in 1m30s\n", "", 0,
		},
		"the target moved": {endedAfter90s(record.TargetMoved, "pass --replan"), "", `upgrading group "blue": target-moved: pass --replan`, 5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			line := commandLine{console: console{IOStreams: streams}, retryCommand: "kubectl nodeupgrade blue --yes"}
			err := line.reportOutcome("blue", c.record)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if out.String() != c.stdout || text != c.err || exitCodeOf(err) != c.code {
				t.Errorf("stdout %q, error %q, exit code %d; want %q, %q, %d", out, text, exitCodeOf(err), c.stdout, c.err, c.code)
			}
		})
	}
}

// TestOutcomeIsOneDocumentForEachResult: each result prints one document, and the exit code fits the
// result.
func TestOutcomeIsOneDocumentForEachResult(t *testing.T) {
	for _, result := range []record.Result{
		record.Succeeded, record.LeftBehind, record.Interrupted, record.Waiting, record.Paused, record.TargetMoved, record.PodEvictionFailure, record.Failed,
	} {
		t.Run(string(result), func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			line := commandLine{console: console{IOStreams: streams, format: "json"}}
			err := line.reportOutcome("blue", endedAfter90s(result, "x"))
			var got report.UpgradeStatus
			decodeOneDocument(t, out.String(), &got)
			if string(got.Result) != report.KebabCase(string(result)) || got.Name != "blue" || got.Status.Replaced != 2 || got.Message != "x" || exitCodeOf(err) != exitCodeOfResult(result) {
				t.Errorf("error %v, document %+v", err, got)
			}
		})
	}
}

// TestRecordedUpgradeIsContinuedOrRefused combines commands with recorded upgrades.
func TestRecordedUpgradeIsContinuedOrRefused(t *testing.T) {
	request := func(change ...func(*record.Request)) record.Request {
		r := record.Request{Group: "blue", MaxUnavailable: 1, Surge: 2, OnTimeout: record.Fail}
		for _, f := range change {
			f(&r)
		}
		return r
	}
	two := func(r *record.Request) { r.MaxUnavailable, r.Surge = 2, 4 }
	open := func(r *record.Request) { r.OnTimeout, r.Settle.Duration, r.KeepMax = record.Force, time.Minute, true }
	green := func(r *record.Request) { r.Strategy = record.BlueGreen }
	begun := func(result record.Result) record.Record {
		r := endedAfter90s(result, "x")
		r.Target, r.Request = nodegroup.Revision{ID: "v2", Name: "v2"}, request()
		return r
	}
	cases := map[string]struct {
		record  record.Record
		request record.Request
		wanted  string
		replan  bool
		run     string
		err     string
		code    int
	}{
		"none was begun":                {record.Record{}, request(), "v2", false, "", "", 0},
		"one that reached its goal":     {begun(record.Succeeded), request(two), "v3", false, "", "", 0},
		"one that was interrupted":      {begun(record.Interrupted), request(), "v2", false, "r1", "", 0},
		"one whose process died":        {begun(""), request(), "v2", false, "r1", "", 0},
		"other settings":                {begun(record.Interrupted), request(two), "v2", false, "", "--max-unavailable 1, now 2", 2},
		"other settings, left open":     {begun(record.Interrupted), request(open), "v2", false, "r1", "", 0},
		"more of them, agreed to":       {begun(record.Interrupted), request(open), "v2", true, "r1", "", 0},
		"other settings, agreed to":     {begun(record.Interrupted), request(two), "v2", true, "r1", "", 0},
		"another strategy":              {begun(record.Interrupted), request(green), "v2", false, "", "--strategy=surge, which cannot change", 2},
		"another strategy, agreed to":   {begun(record.Interrupted), request(green), "v2", true, "", "--strategy=surge, which cannot change", 2},
		"another target":                {begun(record.Interrupted), request(), "v3", false, "", "pass --replan to continue to v3", 5},
		"another target, agreed to":     {begun(record.Interrupted), request(), "v3", true, "r1", "", 0},
		"a size that follows the group": {begun(record.Interrupted), request(func(r *record.Request) { r.Surge = 5 }), "v2", false, "r1", "", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			line := &commandLine{choices: choices{consent: consents{replan: c.replan}}, typed: func(flag string) bool {
				return slices.Contains([]string{"max-unavailable", "max-surge", "strategy"}, flag)
			}}
			o := &observation{stored: c.record, group: nodegroup.Group{Name: "blue", Wanted: nodegroup.Revision{ID: c.wanted, Name: c.wanted}}, cluster: &clusterReading{}}
			got, err := o.adoptRecord(line, modeUpgrade, c.request)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exitCodeOf(err) != c.code {
					t.Errorf("got error %v with exit code %d, want %q and %d", err, exitCodeOf(err), c.err, c.code)
				}
				return
			}
			if err != nil || got.record.Run != c.run || got.request.Run != c.run || got.record.Result != "" {
				t.Fatalf("got run %q, requested as %q, ended %q, error %v; want run %q under way", got.record.Run, got.request.Run, got.record.Result, err, c.run)
			}
			if c.run == "" {
				return
			}
			if warned := got.keptSurge != ""; warned != (c.request.Surge != 2) {
				t.Errorf("--max-surge=%d: it warns %q", c.request.Surge, got.keptSurge)
			}
			if got.request.Surge != 2 || got.record.Request.Surge != 2 {
				t.Errorf("the surge is %d, want the recorded surge of 2", got.request.Surge)
			}
			if got.record.Target.ID != c.wanted || got.request.MaxUnavailable != c.request.MaxUnavailable || got.request.OnTimeout != record.Fail || got.request.KeepMax {
				t.Errorf("goes on to %s with %+v", got.record.Target.ID, got.request)
			}
		})
	}
}

func TestWarningSaysThatMaxSurgeHasNoEffect(t *testing.T) {
	under := endedAfter90s(record.Interrupted, "x")
	under.Request.Surge = 2
	over := endedAfter90s(record.Succeeded, "x")
	if text := describeKeptSurge(&under, "max-surge", 5); !strings.Contains(text, "run r1 keeps the 2 added nodes") || !strings.Contains(text, "not 5") {
		t.Errorf("got %q", text)
	}
	if text := describeKeptSurge(&under, "max-surge", 2) + describeKeptSurge(&over, "max-surge", 5); text != "" {
		t.Errorf("got %q, want nothing", text)
	}
}

// TestExpiredRequestsAreNotSent checks a request whose deadline passes without a timer, as on a
// machine that sleeps.
func TestExpiredRequestsAreNotSent(t *testing.T) {
	s := &apiServer{}
	s.serve(t)
	conn, err := newFlags(genericiooptions.NewTestIOStreamsDiscard()).connectCluster(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(build.Unnoticed(t.Context(), time.Now()), http.MethodDelete, conn.Server+"/api/v1/namespaces/shop/pods/web-0", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := conn.Client.CoreV1().RESTClient().(*rest.RESTClient).Client.Do(r) // longer than the client's own timeout, which also checks the clock
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) || len(s.sentRequests()) > 0 {
		t.Errorf("sent %q, and the error was %v", s.sentRequests(), err)
	}
}

// TestUpgradeIsRejectedWhileOtherGroupIsUpgraded: another group is being upgraded if its lease has a holder and was renewed less than
// LeaseDuration ago, by the server's clock. With --parallel-groups the upgrade is not rejected.
func TestUpgradeIsRejectedWhileOtherGroupIsUpgraded(t *testing.T) {
	holder, nobody := "ann", ""
	lease := func(name string, holder *string, renewed time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Now().Add(-renewed))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: holder, RenewTime: &at}}
	}
	never := lease("never", &holder, 0)
	never.Spec.RenewTime = nil
	// written returns a lease that the server stored by its own clock, which differs from this machine's.
	written := func(renewed, taken, ahead time.Duration) coordinationv1.Lease {
		l := lease("other", &holder, renewed)
		at := metav1.NewTime(time.Now().Add(ahead - taken))
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "create"}, {Manager: "update", Time: &at}}
		return l
	}
	cases := map[string]struct {
		lease    coordinationv1.Lease
		parallel bool
		refused  bool
		ahead    time.Duration // how far the server's clock is ahead
	}{
		"of another group":                 {lease("other", &holder, time.Second), false, true, 0},
		"of another group, agreed to":      {lease("other", &holder, time.Second), true, false, 0},
		"of another group, long ago":       {lease("other", &holder, 2*cluster.LeaseDuration), false, false, 0},
		"of this group":                    {lease(cluster.ObjectName("blue"), &holder, time.Second), false, false, 0},
		"of another group, given back":     {lease("other", nil, time.Second), false, false, 0},
		"of another group, held by nobody": {lease("other", &nobody, time.Second), false, false, 0},
		"of another group, never renewed":  {never, false, false, 0},

		"the other's clock is behind":    {written(time.Hour, time.Second, 0), false, true, 0},
		"the other's clock is ahead":     {written(-time.Hour, 2*cluster.LeaseDuration, 0), false, false, 0},
		"this clock is ahead":            {written(0, time.Second, -time.Hour), false, true, -time.Hour},
		"this clock is behind":           {written(0, time.Second, time.Hour), false, true, time.Hour},
		"this clock is behind, long ago": {written(0, 2*cluster.LeaseDuration, time.Hour), false, false, time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &apiServer{refuse: func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/leases") {
					return false
				}
				if want := "app.kubernetes.io/managed-by=kubectl-nodeupgrade"; r.URL.Query().Get("labelSelector") != want {
					t.Errorf("asked for %q, want %q", r.URL.RawQuery, want)
				}
				w.Header().Set("Date", time.Now().Add(c.ahead).UTC().Format(http.TimeFormat))
				answer(w, http.StatusOK, coordinationv1.LeaseList{
					TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}, Items: []coordinationv1.Lease{c.lease},
				})
				return true
			}}
			s.serve(t)
			typed := &commandLine{choices: choices{consent: consents{parallelGroups: c.parallel}, stateNamespace: "kube-system"}}
			conn, err := newFlags(genericiooptions.NewTestIOStreamsDiscard()).connectCluster(t.Context(), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			err = (&command{typed, conn}).rejectParallelUpgrade(t.Context(), "blue", modeUpgrade)
			if (err != nil) != c.refused {
				t.Fatalf("got error %v", err)
			}
			if c.refused && (exitCodeOf(err) != exitPaused || !strings.Contains(err.Error(), "ann is upgrading another group") || !strings.Contains(err.Error(), "--parallel-groups")) {
				t.Errorf("got error %v with exit code %d", err, exitCodeOf(err))
			}
		})
	}
}

// TestHolderIdentitiesDiffer checks two processes of one user on one machine.
func TestHolderIdentitiesDiffer(t *testing.T) {
	one, other := makeHolderIdentity(), makeHolderIdentity()
	if one == other || !strings.Contains(one, "@") || !strings.Contains(one, "/") {
		t.Errorf("got %q and %q", one, other)
	}
}

// TestUpgradeSucceedsEvenIfOutcomeCannotBeWritten: if stdout fails, stderr has the outcome and the
// write error.
func TestUpgradeSucceedsEvenIfOutcomeCannotBeWritten(t *testing.T) {
	var errOut strings.Builder
	line := commandLine{console: console{IOStreams: genericiooptions.IOStreams{Out: brokenPipe{}, ErrOut: &errOut}}}
	if code := exitCodeOf(line.reportOutcome("workers", record.Record{Result: record.Succeeded, Total: 3, Replaced: 3})); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	if text := errOut.String(); !strings.Contains(text, `group "workers" was upgraded (succeeded)`) || !strings.Contains(text, "broken pipe") {
		t.Errorf("stderr %q", text)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }
