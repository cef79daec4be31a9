package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func askedBy(who, run string) record.Asked {
	return record.Asked{Verb: record.VerbPause, Run: run, By: who, At: epoch}
}

// awaitRequest waits for a request by the Follower's own signal.
func (f *Follower) awaitRequest(t *testing.T, want record.Asked) {
	t.Helper()
	limit := time.After(waitLimit)
	for f.CurrentRequest() != want {
		select {
		case <-f.RequestChanged():
		case <-limit:
			t.Fatalf("asked is %+v, want %+v", f.CurrentRequest(), want)
		}
	}
}

// testAsk sends and withdraws a request from another process while the holder writes its record.
func testAsk(t *testing.T, s *space) {
	holder, other := NewStore(s.client, s.name, testGroup), NewStore(s.Client(), s.name, testGroup)
	if err := other.StoreRequest(t.Context(), askedBy("bob", "r1")); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("of no upgrade: got error %v, want %v", err, ErrNotRecorded)
	}
	s.save(t, holder, 1)
	follower, err := holder.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	follower.awaitRequest(t, record.Asked{})
	if err := other.StoreRequest(t.Context(), askedBy("bob", "r0")); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("of another run: got error %v, want %v", err, ErrNotRecorded)
	}
	if err := other.StoreRequest(t.Context(), askedBy("bob", "r1")); err != nil {
		t.Fatal(err)
	}
	follower.awaitRequest(t, askedBy("bob", "r1"))
	before := len(s.requests(t))
	s.save(t, holder, 2)
	if sent, want := s.requests(t)[before:], []string{"update configmaps 200"}; !slices.Equal(sent, want) {
		t.Errorf("the holder, who had seen the request, sent %q, want %q", sent, want)
	}
	if loaded, err := other.LoadRecord(t.Context()); err != nil || loaded.Replaced != 2 || other.CurrentRequest() != askedBy("bob", "r1") {
		t.Errorf("got record %d, asked %+v, error %v", loaded.Replaced, other.CurrentRequest(), err)
	}
	if err := other.WithdrawRequest(t.Context(), askedBy("ann", "r1")); err != nil {
		t.Fatal(err)
	}
	if err := other.WithdrawRequest(t.Context(), askedBy("bob", "r1")); err != nil {
		t.Fatal(err)
	}
	follower.awaitRequest(t, record.Asked{})
	if _, left := s.configMap(t).Data[keyRequest]; left {
		t.Error("the request is still there")
	}
	s.save(t, other, 3)
	if got := s.stored(t); got != 3 {
		t.Errorf("after a request of its own the store wrote record %d, want 3", got)
	}
	if err := holder.Save(t.Context(), recordOf(4)); !errors.Is(err, record.ErrChanged) {
		t.Errorf("a record that somebody else has written: got error %v, want %v", err, record.ErrChanged)
	}
}

// testFollowRecord checks that written records are seen, and that the Follower shows no state older
// than the store's last read.
func testFollowRecord(t *testing.T, s *space) {
	store := NewStore(s.client, s.name, testGroup)
	follower, err := store.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rec, _, err := follower.Record(); err != nil || rec.Run != "" || follower.CurrentRequest() != (record.Asked{}) {
		t.Fatalf("got run %q and error %v, want none", rec.Run, err)
	}
	s.save(t, store, 1)
	limit := time.After(waitLimit)
	for seen := -1; seen != 1; {
		select {
		case <-follower.Changed():
			record, _, err := follower.Record()
			if err != nil {
				t.Fatal(err)
			}
			seen = record.Replaced
		case <-limit:
			t.Fatal("the record is not seen")
		}
	}
}

// TestFollowerKeepsLatestRecord delivers older states late.
func TestFollowerKeepsLatestRecord(t *testing.T) {
	state := func(version, request string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Data: map[string]string{keyRequest: request}}
	}
	pause, abort := `{"verb":"pause","run":"r1"}`, `{"verb":"abort","run":"r1"}`
	cases := map[string]struct {
		states []*corev1.ConfigMap
		want   record.Verb
	}{
		"nothing":                 {nil, ""},
		"one after the other":     {[]*corev1.ConfigMap{state("9", pause), state("10", abort)}, record.VerbAbort},
		"the older one late":      {[]*corev1.ConfigMap{state("10", abort), state("9", pause)}, record.VerbAbort},
		"withdrawn":               {[]*corev1.ConfigMap{state("9", pause), state("10", "")}, ""},
		"one that cannot be read": {[]*corev1.ConfigMap{state("9", pause), state("10", "pause")}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := &Follower{changed: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
			for _, s := range c.states {
				f.storeLatest(s)
			}
			if got := f.CurrentRequest().Verb; got != c.want {
				t.Errorf("asked is %q, want %q", got, c.want)
			}
		})
	}
}

// testLeasePatient waits for an active holder, and takes the lease as soon as the holder releases
// it.
func testLeasePatient(t *testing.T, s *space) {
	first := s.hold(t, s.client, s.claim("ann"))
	second := s.claim("bob")
	second.Patient = true
	times := leaseTimes{duration: LeaseDuration, renew: leaseRenew, giveUp: leaseGiveUp} // its own next try is far away
	type answer struct {
		hold *Hold
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		hold, err := acquireWithTimes(t.Context(), s.client, second, times)
		answers <- answer{hold, err}
	}()
	select {
	case a := <-answers:
		t.Fatalf("got the lease, or error %v, while it was held", a.err)
	case <-time.After(2 * brief.duration): // the holder renews the lease in this time
	}
	first.Release()
	select {
	case a := <-answers:
		if a.err != nil {
			t.Fatal(a.err)
		}
		a.hold.Release()
	case <-time.After(leaseRenew / 2):
		t.Fatal("the lease that was given back was not taken at once")
	}
}

// testLeasePatientStopped ends the wait with the context.
func testLeasePatientStopped(t *testing.T, s *space) {
	s.hold(t, s.client, s.claim("ann"))
	second := s.claim("bob")
	ctx, cancel := context.WithCancel(t.Context())
	second.Patient, second.Waiting = true, func(string) { cancel() }
	if _, err := acquireWithTimes(ctx, s.client, second, brief); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}
