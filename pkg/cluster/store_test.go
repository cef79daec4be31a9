package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const testGroup = "Workers/1"

// recordOf returns a record that can be identified by its number of replaced nodes.
func recordOf(replaced int) record.Record {
	return record.Record{
		Version: record.Version, Run: "r1", Started: epoch, Phase: record.PhaseUpgrade, Replaced: replaced,
		Request: record.Request{Group: testGroup, DrainTimeout: record.Duration{Duration: 15 * time.Minute}},
		Nodes:   map[string]record.NodeRecord{"a": {UID: "u", State: record.NodeDraining, Began: epoch}},
	}
}

func (s *space) save(t *testing.T, store *Store, replaced int) {
	t.Helper()
	if err := store.Save(t.Context(), recordOf(replaced)); err != nil {
		t.Fatal(err)
	}
}

// stored returns the number of replaced nodes in the stored record.
func (s *space) stored(t *testing.T) int {
	t.Helper()
	record, err := NewStore(s.client, s.name, testGroup).LoadRecord(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.Replaced
}

func (s *space) configMap(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	object, err := s.Client().CoreV1().ConfigMaps(s.name).Get(t.Context(), ObjectName(testGroup), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func testStore(t *testing.T, s *space) {
	store := NewStore(s.client, s.name, testGroup)
	if record, err := store.LoadRecord(t.Context()); err != nil || record.Run != "" {
		t.Fatalf("got run %q and error %v, want none", record.Run, err)
	}
	s.save(t, store, 1)
	object := s.configMap(t)
	if object.Labels[LabelManagedBy] != FieldManager || object.Data[keyGroup] != testGroup || store.Name() != s.name+"/"+object.Name {
		t.Errorf("stored as %s with labels %v for group %q", store.Name(), object.Labels, object.Data[keyGroup])
	}
	s.save(t, store, 2)
	if loaded, err := NewStore(s.client, s.name, testGroup).LoadRecord(t.Context()); err != nil || !reflect.DeepEqual(loaded, recordOf(2)) {
		t.Errorf("got %+v and error %v, want %+v", loaded, err, recordOf(2))
	}
	if sent, want := s.requests(t), []string{"create configmaps 201", "update configmaps 200"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

func testStoreOfManyGroups(t *testing.T, s *space) {
	s.save(t, NewStore(s.client, s.name, testGroup), 1)
	other := NewStore(s.client, s.name, "other")
	if err := other.Save(t.Context(), record.Record{Version: 1, Run: "r2"}); err != nil {
		t.Fatal(err)
	}
	records, _, err := LoadRecords(t.Context(), s.client, s.name)
	if groups := slices.Sorted(maps.Keys(records)); err != nil || !slices.Equal(groups, []string{testGroup, "other"}) || records["other"].Run != "r2" {
		t.Errorf("got records of %q and error %v", groups, err)
	}
}

// testStoreWithConcurrentWriters checks that another process's record is distinguished from changes beside the
// record.
func testStoreWithConcurrentWriters(t *testing.T, s *space) {
	ours, theirs := NewStore(s.client, s.name, testGroup), NewStore(s.client, s.name, testGroup)
	s.save(t, ours, 1)
	if err := theirs.Save(t.Context(), recordOf(7)); !errors.Is(err, record.ErrChanged) {
		t.Errorf("one that nobody read: got error %v, want %v", err, record.ErrChanged)
	}
	if _, err := theirs.LoadRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	beside := []byte(`{"metadata":{"labels":{"team":"shop"}},"data":{"request":"pause"}}`)
	if _, err := s.Client().CoreV1().ConfigMaps(s.name).Patch(t.Context(), ObjectName(testGroup), types.MergePatchType, beside, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.save(t, ours, 2)
	if object := s.configMap(t); object.Labels["team"] != "shop" || object.Data["request"] != "pause" {
		t.Errorf("what is beside the record was lost: %v %v", object.Labels, object.Data)
	}
	s.save(t, ours, 3)
	if err := theirs.Save(t.Context(), recordOf(8)); !errors.Is(err, record.ErrChanged) {
		t.Errorf("one that was written since: got error %v, want %v", err, record.ErrChanged)
	}
	if got := s.stored(t); got != 3 {
		t.Errorf("the record is number %d, want 3", got)
	}
	if err := s.Client().CoreV1().ConfigMaps(s.name).Delete(t.Context(), ObjectName(testGroup), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ours.Save(t.Context(), recordOf(4)); !errors.Is(err, record.ErrChanged) {
		t.Errorf("one that was deleted: got error %v, want %v", err, record.ErrChanged)
	}
	nowhere := NewStore(s.client, s.name+"-none", testGroup).Save(t.Context(), recordOf(1))
	if !apierrors.IsNotFound(nowhere) || errors.Is(nowhere, record.ErrChanged) {
		t.Errorf("in no namespace: got error %v", nowhere)
	}
}

// testStoreLostAnswer loses the answer to a successful write, when the object is created and when
// it is changed.
func testStoreLostAnswer(t *testing.T, s *space) {
	client, line := s.newBreakableClient(t)
	store := NewStore(client, s.name, testGroup)
	for replaced := range 2 {
		line.set(loseAnswer)
		if err := store.Save(t.Context(), recordOf(replaced)); err == nil || errors.Is(err, record.ErrChanged) {
			t.Fatalf("an answer that was lost: got error %v", err)
		}
		line.set(nil)
		s.save(t, store, replaced) // the runner retries, too
		if got := s.stored(t); got != replaced {
			t.Errorf("the record is number %d, want %d", got, replaced)
		}
	}
	s.save(t, store, 2)
	line.set(loseAnswer)
	if err := store.Save(t.Context(), recordOf(3)); err == nil {
		t.Fatal("an answer that was lost is no error")
	}
	line.set(nil)
	second := NewStore(s.client, s.name, testGroup)
	if _, err := second.LoadRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.save(t, second, 9)
	if err := store.Save(t.Context(), recordOf(3)); !errors.Is(err, record.ErrChanged) {
		t.Errorf("written by somebody else meanwhile: got error %v, want %v", err, record.ErrChanged)
	}
}

// testStoreRepeatsUnansweredWrites loses the answer to one write of a command that has no loop.
func testStoreRepeatsUnansweredWrites(t *testing.T, s *space) {
	client, line := s.newBreakableClient(t)
	store := NewStore(client, s.name, testGroup)
	loseOne := func() {
		line.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return next.RoundTrip(r)
			}
			line.set(nil)
			return loseAnswer(r, next)
		})
	}
	loseOne()
	if err := store.SaveRepeatedly(t.Context(), recordOf(1)); err != nil || s.stored(t) != 1 {
		t.Errorf("saving: %v, the record is number %d", err, s.stored(t))
	}
	asked := record.Asked{Verb: record.VerbPause, Run: recordOf(1).Run, By: "ann@host"}
	loseOne()
	if err := store.StoreRequest(t.Context(), asked); err != nil {
		t.Errorf("requesting: %v", err)
	}
	if _, err := store.LoadRecord(t.Context()); err != nil || store.CurrentRequest() != asked {
		t.Errorf("the request is %+v (%v)", store.CurrentRequest(), err)
	}
	loseOne()
	if err := store.WithdrawRequest(t.Context(), asked); err != nil {
		t.Errorf("withdrawing: %v", err)
	}
	if _, err := store.LoadRecord(t.Context()); err != nil || store.CurrentRequest() != (record.Asked{}) {
		t.Errorf("the request is %+v (%v)", store.CurrentRequest(), err)
	}
	line.set(loseAnswer)
	if err := store.StoreRequest(t.Context(), asked); err == nil {
		t.Error("a request that is never answered is no error")
	}
}

func testStoreOfNewerProgram(t *testing.T, s *space) {
	_, err := s.Client().CoreV1().ConfigMaps(s.name).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ObjectName(testGroup), Labels: map[string]string{LabelManagedBy: FieldManager}},
		Data:       map[string]string{keyRecord: fmt.Sprintf(`{"version":%d,"run":"r9"}`, record.Version+1), keyGroup: testGroup},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if record, err := NewStore(s.client, s.name, testGroup).LoadRecord(t.Context()); err == nil || record.Run != "" {
		t.Errorf("got run %q and error %v, want a refusal", record.Run, err)
	}
	s.save(t, NewStore(s.client, s.name, "other"), 1)
	records, unreadable, err := LoadRecords(t.Context(), s.client, s.name)
	if groups := slices.Sorted(maps.Keys(records)); err != nil || !slices.Equal(groups, []string{"other"}) {
		t.Errorf("got records of %q and error %v, want that of the other group", groups, err)
	}
	if why := unreadable[testGroup]; len(unreadable) != 1 || why == nil || !strings.Contains(why.Error(), ObjectName(testGroup)) {
		t.Errorf("unreadable are %v, want an error that names the object", unreadable)
	}
}

func TestUnreadableOrNewerRecordsAreRejected(t *testing.T) {
	const newer = record.Version + 1
	cases := map[string]struct {
		text, run, fault string
	}{
		"a record":                    {`{"version":1,"run":"r1"}`, "r1", ""},
		"an older one":                {`{"run":"r1"}`, "r1", ""},
		"one with fields of tomorrow": {`{"version":1,"run":"r1","new":true}`, "r1", ""},
		"none":                        {``, "", ""},
		"a newer one": {
			fmt.Sprintf(`{"version":%d,"run":"r1"}`, newer), "",
			fmt.Sprintf("reading ConfigMap ns/cm: its version %d is newer than %d: use the newer kubectl-nodeupgrade that wrote it", newer, record.Version),
		},
		"something else": {`pause`, "", "run kubectl delete configmap -n ns cm to forget that upgrade"},
		"half of it":     {`{"version":1,"run":`, "", "reading ConfigMap ns/cm: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			record, err := DecodeRecord(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"}, Data: map[string]string{keyRecord: c.text},
			})
			if record.Run != c.run {
				t.Errorf("got run %q, want %q", record.Run, c.run)
			}
			if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got error %v, want %q", err, c.fault)
			}
		})
	}
}
