package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// leases answers requests for leases from a map by name. onWrite, unless nil, is called with each lease after it was
// written.
type leases struct {
	*apiServer
	// held is locked while a request is answered, but not while a watch waits.
	held    sync.Mutex
	byName  map[string]*coordinationv1.Lease
	onWrite func(*coordinationv1.Lease)
	// renewed is true if watches of blue's lease get a renewal.
	renewed bool
}

// withLeases adds a lease for each group to the server. The leases have expired: their holders last renewed them two minutes ago.
func (s *apiServer) withLeases(groups ...string) *leases {
	l := &leases{apiServer: s, byName: map[string]*coordinationv1.Lease{}}
	for _, group := range groups {
		l.add(group, time.Now().Add(-2*time.Minute))
	}
	s.refuse = l.answer
	return l
}

// add adds a lease that was last renewed at a time.
func (l *leases) add(group string, renewed time.Time) {
	holder, at := "ann@host/1", metav1.NewMicroTime(renewed)
	l.byName[cluster.ObjectName(group)] = &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: cluster.ObjectName(group), ResourceVersion: "1", Labels: map[string]string{cluster.LabelManagedBy: cluster.FieldManager}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &at, RenewTime: &at},
	}
}

// watch sends the renewed lease if renewed is true. Then it waits until the client closes the connection.
func (l *leases) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if l.renewed {
		l.held.Lock()
		event, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": l.byName[cluster.ObjectName("blue")]})
		l.held.Unlock()
		if err != nil {
			panic(err)
		}
		if _, err := w.Write(event); err != nil {
			return
		}
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func (l *leases) answer(w http.ResponseWriter, r *http.Request) bool {
	const all = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	if !strings.HasPrefix(r.URL.Path, all) {
		return false
	}
	if r.URL.Query().Get("watch") != "" {
		l.watch(w, r)
		return true
	}
	l.held.Lock()
	defer l.held.Unlock()
	name := strings.TrimPrefix(path.Base(r.URL.Path), "leases")
	switch known := l.byName[name]; {
	case r.Method == http.MethodGet && name == "":
		list := coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}}
		for _, lease := range l.byName {
			list.Items = append(list.Items, *lease)
		}
		answer(w, http.StatusOK, list)
	case r.Method == http.MethodGet && known != nil:
		answer(w, http.StatusOK, known)
	case r.Method == http.MethodGet:
		return false // no such lease exists
	default:
		lease := decoded[*coordinationv1.Lease](r)
		l.recordRequest(r.Method + " " + r.URL.Path)
		if r.URL.Query().Get("dryRun") == "" {
			lease.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
			l.byName[lease.Name] = lease
			if l.onWrite != nil {
				l.onWrite(lease)
			}
		}
		answer(w, http.StatusOK, lease)
	}
	return true
}

// decoded returns the object in a request, which clients encode as protobuf.
func decoded[T runtime.Object](r *http.Request) T {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		panic(err)
	}
	return object.(T)
}

// inDrain returns the record of an upgrade of group blue whose process is gone.
func inDrain(change ...func(*record.Record)) record.Record {
	r := stoppedRecordOf("")
	r.Provider, r.Started = "manual", time.Now().Add(-time.Hour)
	r.Request = record.Request{
		Group: "blue", Run: "r1", Strategy: record.Surge, Like: "eks", Current: map[string]string{"image": "v2"}, MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail,
		DrainTimeout: record.Duration{Duration: 15 * time.Minute}, BootTimeout: record.Duration{Duration: 20 * time.Minute},
	}
	r.Nodes = map[string]record.NodeRecord{"b1": {UID: "b1", State: record.NodeDraining, Batch: 1, Began: time.Now().Add(-10 * time.Minute), Deadline: time.Now().Add(5 * time.Minute)}}
	for _, f := range change {
		f(&r)
	}
	return r
}

// setSoaking changes the record to a blue-green upgrade that soaks.
func setSoaking(r *record.Record) {
	r.Version, r.Request.Strategy, r.Phase = 3, record.BlueGreen, record.PhaseSoak
	r.Request.BlueGreen = &record.BlueGreenRequest{Batch: 1}
	r.Soak.Until = time.Now().Add(time.Hour)
}

// S33, S35: TestVerbsWithoutConsentWriteNothing runs verbs without a terminal for their question. The upgrade's process
// is gone. Nothing may be written: a new holder in the lease would count the idle time against nodes in drain, and the
// next process would act on a stored request.
func TestVerbsWithoutConsentWriteNothing(t *testing.T) {
	cases := map[string]struct {
		record record.Record
		asked  record.Verb
	}{
		"resume blue":   {inDrain(), ""},
		"resume blue ":  {inDrain(), record.VerbPause},
		"complete blue": {inDrain(setSoaking), ""},
	}
	for args, c := range cases {
		t.Run(args, func(t *testing.T) {
			s := twoGroups()
			s.storeRecord(t, "blue", c.record)
			s.storeRequest(t, c.asked)
			s.withLeases("blue")
			s.serve(t)
			_, stderr, code := invoke(t, strings.Fields(args)...)
			if code != 2 || !strings.Contains(stderr, "a question needs a terminal") {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("requests were sent without consent: %q", s.sentRequests())
			}
		})
	}
}

// TestVerbsLeaveRequestToRunningProcess checks that a verb only stores its request if a process renews its lease. The
// lease must stay unchanged.
func TestVerbsLeaveRequestToRunningProcess(t *testing.T) {
	cases := map[string]struct {
		record record.Record
		says   string
		sends  int
	}{
		"resume blue":   {inDrain(), "is already running", 0},
		"complete blue": {inDrain(setSoaking), "the soak has ended", 1},
	}
	for args, c := range cases {
		t.Run(args, func(t *testing.T) {
			s := twoGroups()
			s.storeRecord(t, "blue", c.record)
			l := s.withLeases()
			l.add("blue", time.Now())
			l.renewed = true
			s.serve(t)
			stdout, stderr, code := invoke(t, strings.Fields(args)...)
			if code != 0 || !strings.Contains(stdout, c.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if len(s.sentRequests()) != c.sends || strings.Contains(strings.Join(s.sentRequests(), " "), "/leases") {
				t.Errorf("requests were sent: %q", s.sentRequests())
			}
		})
	}
}

// S34: TestParallelUpgradeIsFoundAfterWaitForLease begins an upgrade of another group while this one waits for its lease.
func TestParallelUpgradeIsFoundAfterWaitForLease(t *testing.T) {
	s := twoGroups()
	l := s.withLeases()
	l.onWrite = func(lease *coordinationv1.Lease) {
		if lease.Name == cluster.ObjectName("blue") && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
			l.add("green", time.Now())
		}
	}
	s.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // an upgrade that begins here would not end
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{"blue", "--current=image=v2", "--yes"}, strings.NewReader(""), &stdout, &stderr)
	if code != exitPaused || !strings.Contains(stderr.String(), "is upgrading another group") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
	for _, change := range s.sentRequests() {
		if !strings.Contains(change, "/leases") {
			t.Errorf("a request was sent: %s", change)
		}
	}
	l.held.Lock()
	defer l.held.Unlock()
	if lease := l.byName[cluster.ObjectName("blue")]; lease == nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is not released: %+v", lease)
	}
}

// TestPauseExtendsDrainDeadlineByIdleTime checks that the time without a process before a pause does not count for nodes in drain.
func TestPauseExtendsDrainDeadlineByIdleTime(t *testing.T) {
	rec := inDrain()
	paused := pausedAfter(t, rec, 3*time.Minute)
	before, after := rec.Nodes["b1"].Deadline, paused.Nodes["b1"].Deadline
	if moved := after.Sub(before).Round(time.Second); moved != 3*time.Minute || paused.Result != record.Paused {
		t.Errorf("result %q, and the deadline moved by %s, want 3m0s", paused.Result, moved)
	}
}

// pausedAfter returns the record after a pause that comes some time after the last holder.
func pausedAfter(t *testing.T, rec record.Record, idle time.Duration) record.Record {
	t.Helper()
	s := twoGroups()
	s.storeRecord(t, "blue", rec)
	var saved record.Record
	s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/configmaps/") {
			return false
		}
		stored := decoded[*corev1.ConfigMap](r)
		stored.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
		if err := json.Unmarshal([]byte(stored.Data["record"]), &saved); err != nil {
			t.Error(err)
		}
		answer(w, http.StatusOK, stored)
		return true
	}
	s.serve(t)
	f := newFlags(genericiooptions.NewTestIOStreamsDiscard())
	conn, err := f.connectCluster(t.Context(), f.ErrOut)
	if err != nil {
		t.Fatal(err)
	}
	u := &recordedUpgrade{name: "blue", store: cluster.NewStore(conn.Client, "kube-system", "blue")}
	if _, err := u.markPaused(context.Background(), idle, time.Now()); err != nil {
		t.Fatal(err)
	}
	return saved
}

// markNode adds the marks of a run to a node of group blue.
func (s *apiServer) markNode(t *testing.T, name, run string, owner *nodemark.Owner) {
	t.Helper()
	for i := range s.nodes {
		if s.nodes[i].Name != name {
			continue
		}
		if err := nodemark.SetFence(&s.nodes[i], run, nodegroup.FenceTaint("manual")); err != nil {
			t.Fatal(err)
		}
		if owner != nil {
			nodemark.SetOwner(&s.nodes[i], *owner)
		}
	}
}

// TestRebuildNeedsConsent checks that an upgrade continues by the marks on nodes only if the user agrees. --yes is not
// enough.
func TestRebuildNeedsConsent(t *testing.T) {
	s := twoGroups()
	s.markNode(t, "b1", "r7", nil)
	s.withLeases()
	s.serve(t)
	_, stderr, code := invoke(t, "blue", "--current=image=v2", "--yes")
	if code != 2 || !strings.Contains(stderr, "the record of run r7 is gone") || !strings.Contains(stderr, "run kubectl nodeupgrade blue --current=image=v2 --yes --rebuild to continue that run") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if len(s.sentRequests()) > 0 {
		t.Errorf("requests were sent: %q", s.sentRequests())
	}
}

// S32: TestNodesOfUpgradeRecordedElsewhereAreRejected: the record has another group name, or is in another namespace.
func TestNodesOfUpgradeRecordedElsewhereAreRejected(t *testing.T) {
	elsewhere := &nodemark.Owner{Namespace: "ops", Group: "blue", Epoch: 1}
	cases := map[string]struct {
		change func(*testing.T, *apiServer)
		args   string
		says   string // "" if the upgrade may begin
	}{
		"a part of a group that is under way": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "image in (v1,v2)", inDrain())
			s.markNode(t, "b1", "r1", &nodemark.Owner{Namespace: "kube-system", Group: "image in (v1,v2)"})
		}, "blue", `node "b1" is part of run r1 of group "image in (v1,v2)" (namespace kube-system): run kubectl nodeupgrade resume -l 'image in (v1,v2)' --state-namespace=kube-system`},
		"a group that is under way by an older version": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "blue", inDrain())
			s.markNode(t, "b1", "r1", nil)
		}, "-l kops.k8s.io/instancegroup=blue", `is part of run r1 of group "blue" (namespace kube-system)`},
		"a part of a group that is paused, without marks": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "image in (v1,v2)", inDrain(func(r *record.Record) { r.Result, r.PausedBy, r.Nodes = record.Paused, "ann@host", nil }))
		}, "blue", `of group "image in (v1,v2)"`},
		"more than a group that is paused": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "blue", inDrain(func(r *record.Record) { r.Result, r.PausedBy, r.Nodes = record.Paused, "ann@host", nil }))
		}, "-l image", `of group "blue"`},
		"recorded in another namespace": {func(t *testing.T, s *apiServer) { s.markNode(t, "b1", "r9", elsewhere) }, "blue", `group "blue" (namespace ops), which is not recorded there`},
		"a part of a group whose upgrade is over": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "image in (v1,v2)", inDrain(func(r *record.Record) { r.Result = record.Succeeded }))
			s.markNode(t, "b1", "r1", &nodemark.Owner{Namespace: "kube-system", Group: "image in (v1,v2)"})
		}, "blue", `node "b1" stays fenced by run r1 of group "image in (v1,v2)" (namespace kube-system), which is over (succeeded): replace the node, or let pods onto it again with: kubectl `},
		"another group is paused": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "green", inDrain(func(r *record.Record) { r.Result, r.PausedBy, r.Nodes = record.Paused, "ann@host", nil }))
		}, "blue", ""},
		"the group that was paused is over": {func(t *testing.T, s *apiServer) {
			s.storeRecord(t, "image in (v1,v2)", inDrain(func(r *record.Record) { r.Result, r.Nodes = record.Succeeded, nil }))
		}, "blue", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			c.change(t, s)
			s.withLeases()
			s.serve(t)
			args := append(strings.SplitN(c.args, " ", 2), "--current=image=v2", "--dry-run")
			_, stderr, code := invoke(t, args...)
			switch {
			case c.says == "" && strings.Contains(stderr, "part of run"):
				t.Errorf("exit code %d, stderr %q", code, stderr)
			case c.says != "" && (code != exitPaused || !strings.Contains(stderr, c.says)):
				t.Errorf("exit code %d, stderr %q, want it to say %q", code, stderr, c.says)
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("requests were sent: %q", s.sentRequests())
			}
		})
	}
}

// TestTargetNamedOnlyByRecordIsRejected checks that a target is not trusted if only the record names it.
func TestTargetNamedOnlyByRecordIsRejected(t *testing.T) {
	wanted, pointed := nodegroup.Revision{ID: "lt@ami-9", Name: "workers@ami-9"}, nodegroup.Revision{ID: "lt:2:ami-2", Name: "workers:2"}
	cases := map[string]struct {
		change func(*groupContext, *session)
		mode   mode
		says   string
	}{
		"of a plain command":     {func(*groupContext, *session) {}, modeUpgrade, "run kubectl nodeupgrade workers --to=ami-9"},
		"of a resume":            {func(*groupContext, *session) {}, modeResume, "run kubectl nodeupgrade workers --to=ami-9"},
		"of a way back":          {func(*groupContext, *session) {}, modeRollback, "run kubectl nodeupgrade rollback workers --to=ami-9"},
		"of one who looks":       {func(*groupContext, *session) {}, modeStatus, ""},
		"the user typed it":      {func(_ *groupContext, s *session) { s.line.settings.To = "ami-9" }, modeUpgrade, ""},
		"the group points at it": {func(g *groupContext, _ *session) { g.group.Pointed = wanted }, modeResume, ""},
		"a machine has it":       {func(g *groupContext, _ *session) { g.group.Instances = []nodegroup.Instance{{ID: "i-1"}} }, modeRollback, ""},
		"only outdated machines are": {func(g *groupContext, _ *session) {
			g.group.Instances = []nodegroup.Instance{{ID: "i-1", Outdated: true}}
		}, modeResume, "--to=ami-9"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := &groupContext{name: "workers", observation: observation{to: "ami-9", group: nodegroup.Group{Name: "workers", Provider: "aws", Wanted: wanted, Pointed: pointed}}}
			s := &session{command: &command{line: &commandLine{typed: noFlagTyped}}}
			c.change(g, s)
			err := s.rejectTargetOfRecordOnly(g, c.mode)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// TestAbsentTargetsAreUsageErrors checks that plans, checks and upgrades exit with code 2 if a typed target does not
// exist. A missing target in a record is reported like any other reason not to upgrade.
func TestAbsentTargetsAreUsageErrors(t *testing.T) {
	for name, c := range map[string]struct {
		typed, used string
		absent      bool
		mode        mode
		want        int
	}{
		"typed":         {"1.33.9-20270101", "1.33.9-20270101", true, modeUpgrade, exitUsage},
		"to go back":    {"1.33.9-20270101", "1.33.9-20270101", true, modeRollback, exitUsage},
		"it exists":     {"1.33.4-20261101", "1.33.4-20261101", false, modeUpgrade, exitDone},
		"of the record": {"", "1.33.9-20270101", true, modeUpgrade, exitDone},
		"for a status":  {"1.33.9-20270101", "1.33.9-20270101", true, modeStatus, exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{command: &command{line: &commandLine{typed: noFlagTyped}}}
			s.line.settings.To = c.typed
			g := &groupContext{observation: observation{to: c.used, group: nodegroup.Group{Name: "web", Refusal: "there is no release 1.33.9-20270101", AbsentTarget: c.absent}}}
			err := s.rejectAbsentTarget(g, c.mode)
			if exitCodeOf(err) != c.want || err != nil && !strings.Contains(err.Error(), "to 1.33.9-20270101: there is no release") {
				t.Errorf("got %v, want exit code %d", err, c.want)
			}
		})
	}
}

// TestNodeThatMayBelongToUnreadableRecordIsLeftAlone checks a node with marks of a run without a group name. While a record cannot be
// read, the node is neither upgraded nor listed as a leftover, because the marks may belong to that record.
func TestNodeThatMayBelongToUnreadableRecordIsLeftAlone(t *testing.T) {
	for rec, want := range map[string]struct {
		code   int
		listed bool
	}{"garbage": {exitError, false}, "": {exitDone, true}} {
		s := twoGroups()
		i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return n.Name == "b1" })
		if err := nodemark.SetFence(&s.nodes[i], "r9", nodegroup.FenceTaint("manual")); err != nil {
			t.Fatal(err)
		}
		delete(s.nodes[i].Annotations, nodemark.AnnotationOwner)
		if rec != "" {
			s.storeRecord(t, "green", record.Record{})
			s.maps[len(s.maps)-1].Data["record"] = rec
		}
		s.withLeases()
		s.serve(t)
		_, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run")
		if refused := strings.Contains(stderr, `node "b1" has marks that may belong to group "green"`); refused != !want.listed || (want.code != exitDone && code != want.code) {
			t.Errorf("record %q: exit code %d, stderr %q", rec, code, stderr)
		}
		stdout, stderr, _ := invoke(t, "status", "blue", "--current=image=v2")
		if strings.Contains(stdout+stderr, "r9") != want.listed {
			t.Errorf("record %q: status says %q, %q", rec, stdout, stderr)
		}
	}
}

func TestUnreadableRecordStopsOnlyCommandsForItsNodes(t *testing.T) {
	cases := map[string]struct {
		args, record, group, says string
		code                      int
	}{
		"a plan":              {"blue --dry-run", "garbage", "green", "warning: the upgrade of group green is not shown: reading ConfigMap kube-system/", exitDone},
		"a newer version":     {"blue --dry-run", `{"version":99,"run":"r9"}`, "green", "warning: the upgrade of group green is not shown: reading ConfigMap kube-system/", exitDone},
		"a status":            {"status blue", "garbage", "green", "warning: the upgrade of group green is not shown", exitDone},
		"the list":            {"-o name", "garbage", "green", "warning: the upgrade of group green is not shown", exitDone},
		"a group that shares": {"blue --dry-run", "garbage", "image in (v1,v2)", `also belongs to group "image in (v1,v2)", whose record cannot be read: reading ConfigMap`, exitError},
		"the group itself":    {"blue --dry-run", "garbage", "blue", "error: reading ConfigMap", exitError},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			s.storeRecord(t, c.group, record.Record{})
			s.maps[len(s.maps)-1].Data["record"] = c.record
			s.withLeases()
			s.serve(t)
			_, stderr, code := invoke(t, append(strings.Fields(c.args), "--current=image=v2")...)
			if code != c.code || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d, stderr %q, want %d and %q", code, stderr, c.code, c.says)
			}
		})
	}
}
