package plugin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// blueUpgrade is a server with a running upgrade of group blue, which the test watches.
type blueUpgrade struct {
	t *testing.T
	*apiServer
	// events are the later versions of the record's ConfigMap.
	events chan corev1.ConfigMap
	// background, if not nil, answers requests for Deployments, which a forecast sends first.
	background func(http.ResponseWriter)

	mu     sync.Mutex // guards the fields below
	stored corev1.ConfigMap
	holder string
	out    bytes.Buffer
}

func newBlueUpgrade(t *testing.T) *blueUpgrade {
	s := &blueUpgrade{t: t, apiServer: twoGroups(), events: make(chan corev1.ConfigMap, 10)}
	s.refuse = s.answerInstead
	s.store(blueRecord())
	s.serve(t)
	return s
}

// blueRecord returns the record of an upgrade that drains a node.
func blueRecord() record.Record {
	rec := stoppedRecordOf("")
	rec.Version, rec.Total, rec.Replaced, rec.Begun = record.Version, 3, 0, 1
	rec.Nodes = map[string]record.NodeRecord{"b1": {UID: "b1", State: record.NodeDraining, Batch: 1, Began: time.Now(), Deadline: time.Now().Add(15 * time.Minute)}}
	rec.Request = record.Request{
		Group: "blue", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail,
		DrainTimeout: record.Duration{Duration: 15 * time.Minute}, BootTimeout: record.Duration{Duration: 20 * time.Minute},
		Current: map[string]string{"image": "v2"},
	}
	rec.Started, rec.PhaseBegan = time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)
	return rec
}

// leftBehindRecord returns the same record after the node was left behind.
func leftBehindRecord() record.Record {
	rec := blueRecord()
	node := rec.Nodes["b1"]
	node.State, node.Reason = record.NodeQuarantined, "PDB shop/web"
	rec.Nodes["b1"] = node
	return rec
}

// store stores the record and sends it to the watches.
func (s *blueUpgrade) store(record record.Record) {
	text, err := json.Marshal(record)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version, _ := strconv.Atoi(s.stored.ResourceVersion)
	s.stored = corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: cluster.ObjectName("blue"), Namespace: "kube-system", UID: "record", ResourceVersion: strconv.Itoa(version + 1),
			Labels: map[string]string{cluster.LabelManagedBy: cluster.FieldManager},
		},
		Data: map[string]string{"record": string(text), "group": "blue"},
	}
	if version > 0 {
		s.events <- s.stored
	}
}

// setHolder sets the holder of the lease.
func (s *blueUpgrade) setHolder(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder = holder
}

// answerInstead answers watches and requests for the upgrade's record and lease.
func (s *blueUpgrade) answerInstead(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "":
		http.Error(w, "a server of an older release", http.StatusBadRequest)
	case query.Get("watch") != "":
		s.watch(w, r)
	case strings.HasSuffix(r.URL.Path, "/deployments") && s.background != nil:
		s.background(w)
	case strings.Contains(r.URL.Path, "/leases/"):
		return s.answerLease(w)
	case strings.Contains(r.URL.Path, "/configmaps"):
		s.answerRecord(w, r)
	default:
		return false
	}
	return true
}

func (s *blueUpgrade) answerLease(w http.ResponseWriter) bool {
	s.mu.Lock()
	holder := s.holder
	s.mu.Unlock()
	if holder == "" {
		return false // no lease exists
	}
	answer(w, http.StatusOK, coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "blue", Namespace: "kube-system"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: time.Now()}},
	})
	return true
}

func (s *blueUpgrade) answerRecord(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	stored := s.stored
	s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/configmaps") {
		answer(w, http.StatusOK, corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, Items: []corev1.ConfigMap{stored}})
		return
	}
	answer(w, http.StatusOK, stored)
}

// watch sends new records until the watch ends.
func (s *blueUpgrade) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	events := s.events
	if !strings.Contains(r.URL.Path, "/configmaps") {
		events = nil
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case stored := <-events:
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": stored})
			_ = flush()
		}
	}
}

// Write stores the output of the command.
func (s *blueUpgrade) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(text)
}

// awaitOutput waits until the new output has all texts, and returns it.
func (s *blueUpgrade) awaitOutput(texts ...string) string {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		now := s.out.String()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(now, text) {
				missing = text
			}
		}
		if missing == "" {
			s.out.Reset()
		}
		s.mu.Unlock()
		switch {
		case missing == "":
			return now
		case time.Now().After(end):
			s.t.Fatalf("the output lacks %q:\n%s", missing, now)
		}
	}
}

// watchStatus runs status --watch and returns a channel for its exit code.
func (s *blueUpgrade) watchStatus(flags ...string) <-chan int {
	code := make(chan int, 1)
	go func() {
		code <- Run(s.t.Context(), append([]string{"status", "blue", "--current=image=v2", "-w"}, flags...), strings.NewReader(""), s, s)
	}()
	return code
}

// endUpgrade ends the upgrade and waits until the command ends.
func (s *blueUpgrade) endUpgrade(code <-chan int) {
	s.t.Helper()
	over := blueRecord()
	over.Result = record.Succeeded
	s.store(over)
	select {
	case got := <-code:
		if got != exitDone {
			s.t.Errorf("exit code %d:\n%s", got, s.out.String())
		}
	case <-time.After(20 * time.Second):
		s.t.Fatal("the watch does not end with the upgrade")
	}
}

// TestWatchUpdatesDuringForecast checks that the watch shows changes while the data of a forecast takes long to read.
func TestWatchUpdatesDuringForecast(t *testing.T) {
	s := newBlueUpgrade(t)
	s.setHolder("ann@laptop/1")
	read := make(chan struct{})
	s.background = func(w http.ResponseWriter) {
		select {
		case <-read:
		case <-t.Context().Done():
		}
		http.Error(w, "too late", http.StatusInsufficientStorage)
	}
	code := s.watchStatus()
	s.awaitOutput("Phase       upgrade", "Remaining   working it out")
	s.store(leftBehindRecord())
	s.awaitOutput("node b1 quarantined")
	s.endUpgrade(code)
	close(read)
}

func TestWatchPrintsDocuments(t *testing.T) {
	s := newBlueUpgrade(t)
	s.setHolder("ann@laptop/1")
	code := s.watchStatus("-o", "json")
	s.awaitOutput(`"state": "draining"`)
	s.store(leftBehindRecord())
	text := s.awaitOutput(`"state": "quarantined"`)
	documents := json.NewDecoder(strings.NewReader(text))
	var last report.UpgradeStatus
	for documents.More() {
		if err := documents.Decode(&last); err != nil || last.Kind != "UpgradeStatus" {
			t.Fatalf("error %v, kind %q in\n%s", err, last.Kind, text)
		}
	}
	s.endUpgrade(code)
}

// TestStatusShowsTimeLeft checks the time left, or the reason why it is not known.
func TestStatusShowsTimeLeft(t *testing.T) {
	deny := func(w http.ResponseWriter) {
		http.Error(w, "the server is out of memory", http.StatusInsufficientStorage)
	}
	cases := map[string]struct {
		background func(http.ResponseWriter)
		want       string
		remaining  bool
	}{
		"it is known":     {nil, ", if nothing else interferes", true},
		"it is not known": {deny, "Remaining   not known: reading the cluster: ", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newBlueUpgrade(t)
			s.background = c.background
			s.setHolder("ann@laptop/1")
			stdout, stderr, code := invoke(t, "status", "blue", "--current=image=v2")
			if code != exitDone || !strings.Contains(stdout, c.want) {
				t.Errorf("exit code %d, want %q in\n%s%s", code, c.want, stdout, stderr)
			}
			var document report.UpgradeStatus
			stdout, _, _ = invoke(t, "status", "blue", "--current=image=v2", "-o", "json")
			decodeOneDocument(t, stdout, &document)
			if known := document.Remaining.Latest.Duration > 0 && document.RemainingUnknown == ""; known != c.remaining {
				t.Errorf("for programs: known %t, want %t: %s", known, c.remaining, stdout)
			}
			code2 := s.watchStatus()
			s.awaitOutput(c.want)
			s.endUpgrade(code2)
		})
	}
}

// TestContinuedRunIsNotShownAsAbandoned continues an abandoned upgrade in another process. From then on, the watch must
// not advise to abort it, although the lease is read only from time to time.
func TestContinuedRunIsNotShownAsAbandoned(t *testing.T) {
	s := newBlueUpgrade(t)
	const abandoned = "stopped unexpectedly"
	code := s.watchStatus()
	s.awaitOutput("Phase       upgrade", abandoned)
	s.setHolder("ben@laptop/2")
	s.store(leftBehindRecord())
	shown := s.awaitOutput("node b1 quarantined")
	if strings.Contains(shown, abandoned) {
		t.Errorf("the continued upgrade is shown as abandoned:\n%s", shown)
	}
	s.endUpgrade(code)
}

// TestJustEndedUpgradeIsNotAbandoned ends an upgrade, whose lease is then free as well.
func TestJustEndedUpgradeIsNotAbandoned(t *testing.T) {
	s := newBlueUpgrade(t)
	c := s.connect(t)
	store := c.openStore("blue")
	record, err := store.LoadRecord(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	abandoned := func() bool {
		t.Helper()
		_, abandoned, err := c.readLease(t.Context(), store, "blue", &record)
		if err != nil {
			t.Fatal(err)
		}
		return abandoned
	}
	if !abandoned() {
		t.Error("nobody holds the lease and nobody changes the record: it is abandoned")
	}
	s.store(leftBehindRecord())
	if abandoned() {
		t.Error("the record has changed since it was read: it is not abandoned")
	}
}

// connect returns a command that is connected to the server.
func (s *blueUpgrade) connect(t *testing.T) *command {
	t.Helper()
	f := newFlags(genericiooptions.IOStreams{In: strings.NewReader(""), Out: s, ErrOut: s})
	conn, err := f.connectCluster(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return &command{&commandLine{choices: choices{stateNamespace: "kube-system"}}, conn}
}
