package cluster

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// brief are short lease times for tests. The API counts the duration in whole seconds.
var brief = leaseTimes{duration: 2 * time.Second, renew: 250 * time.Millisecond, giveUp: 1500 * time.Millisecond}

func (s *space) claim(identity string) Claim {
	return Claim{Namespace: s.name, Group: testGroup, Identity: identity}
}

// hold acquires the lease and releases it at the end of the test.
func (s *space) hold(t *testing.T, client kubernetes.Interface, claim Claim) *Hold {
	t.Helper()
	hold, err := acquireWithTimes(t.Context(), client, claim, brief)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hold.Release)
	return hold
}

func (s *space) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := s.Client().CoordinationV1().Leases(s.name).Get(t.Context(), ObjectName(testGroup), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// wantLost checks that the Hold is lost within a time. If the time is zero, it checks that the Hold
// is not lost.
func wantLost(t *testing.T, hold *Hold, within time.Duration) {
	t.Helper()
	if within == 0 {
		select {
		case <-hold.Lost():
			t.Error("the lease is lost")
		default:
		}
		return
	}
	select {
	case <-hold.Lost():
	case <-time.After(within):
		t.Errorf("the lease is not lost after %s", within)
	}
}

func testLease(t *testing.T, s *space) {
	for _, identity := range []string{"ann", "bob"} {
		start := time.Now()
		hold, err := acquireWithTimes(t.Context(), s.client, s.claim(identity), brief)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took >= brief.duration {
			t.Errorf("%s waited %s for a lease that nobody held", identity, took)
		}
		lease := s.lease(t)
		if leaseHolder(lease) != identity || lease.Labels[LabelManagedBy] != FieldManager || *lease.Spec.LeaseDurationSeconds != 2 {
			t.Errorf("the lease is %q's, labels %v", leaseHolder(lease), lease.Labels)
		}
		renewed, expires := lease.Spec.RenewTime.Time, hold.Expires()
		if earliest, latest := start.Add(brief.duration), time.Now().Add(brief.duration); expires.Before(earliest) || expires.After(latest) {
			t.Errorf("the lease is ours until %s, want that between %s and %s", expires, earliest, latest)
		}
		s.eventually(t, "the lease to be renewed", func(context.Context) (bool, error) { return s.lease(t).Spec.RenewTime.After(renewed), nil })
		s.eventually(t, "the renewal to count", func(context.Context) (bool, error) {
			return hold.Expires().Sub(expires) > brief.renew/2, nil // a difference of some nanoseconds between two clocks is not a renewal
		})
		if err := hold.RenewalError(); err != nil {
			t.Errorf("the renewal error of a renewed lease: %v", err)
		}
		wantLost(t, hold, 0)
		hold.Release()
		if got := leaseHolder(s.lease(t)); got != "" {
			t.Errorf("after %s gave it back the lease is %q's", identity, got)
		}
		wantLost(t, hold, time.Second)
	}
}

func testLeaseHeld(t *testing.T, s *space) {
	s.hold(t, s.client, s.claim("ann"))
	var watched atomic.Pointer[string]
	second := s.claim("bob")
	second.Waiting = func(holder string) { watched.Store(&holder) }
	renewed := s.lease(t).Spec.RenewTime.Time
	_, err := acquireWithTimes(t.Context(), s.client, second, brief)
	var held *HeldError
	if !errors.As(err, &held) || held.Holder != "ann" || held.Group != testGroup || time.Since(held.Since) > waitLimit {
		t.Fatalf("got error %v, want one that names the holder", err)
	}
	if !s.lease(t).Spec.RenewTime.After(renewed) {
		t.Error("the holder did not renew its lease: nothing shows that it is alive")
	}
	if name := watched.Load(); name == nil || *name != "ann" {
		t.Error("nobody was told who is being watched")
	}
	if got := leaseHolder(s.lease(t)); got != "ann" {
		t.Errorf("the lease is %q's", got)
	}
}

// testLeaseWithTwoClaims makes two claims on a lease that has no holder yet.
func testLeaseWithTwoClaims(t *testing.T, s *space) {
	type answer struct {
		hold *Hold
		err  error
	}
	answers := make(chan answer, 2)
	for _, identity := range []string{"ann", "bob"} {
		go func() {
			hold, err := acquireWithTimes(t.Context(), s.client, s.claim(identity), brief)
			answers <- answer{hold, err}
		}()
	}
	won := 0
	for range 2 {
		a := <-answers
		var held *HeldError
		switch {
		case a.err == nil:
			won++
			t.Cleanup(a.hold.Release)
		case !errors.As(a.err, &held):
			t.Errorf("got error %v, want one that names the holder", a.err)
		}
	}
	if won != 1 {
		t.Errorf("%d claims won, want 1", won)
	}
}

// testLeaseLostAnswer loses the answer to the request that creates the lease.
func testLeaseLostAnswer(t *testing.T, s *space) {
	client, line := s.newBreakableClient(t)
	lost := false
	line.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodPost {
			return next.RoundTrip(r)
		}
		lost = true
		return loseAnswer(r, next)
	})
	s.hold(t, client, s.claim("ann"))
	if got := leaseHolder(s.lease(t)); got != "ann" || !lost {
		t.Errorf("the lease is %q's, and that an answer was lost is %t", got, lost)
	}
}

// storeUnrenewedLease writes a lease whose holder does not renew it.
func (s *space) storeUnrenewedLease(t *testing.T) {
	t.Helper()
	identity, seconds, long := "dead", int32(brief.duration/time.Second), metav1.NewMicroTime(time.Now().Add(-time.Hour))
	_, err := s.Client().CoordinationV1().Leases(s.name).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: ObjectName(testGroup)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds, RenewTime: &long, AcquireTime: &long},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// testLeaseExpires checks that a dead holder is watched for the lease's whole duration, however old
// the renewal time in the lease is.
func testLeaseExpires(t *testing.T, s *space) {
	s.storeUnrenewedLease(t)
	start := time.Now()
	s.hold(t, s.client, s.claim("ann"))
	if took := time.Since(start); took < brief.duration {
		t.Errorf("taken after %s, want %s: no clocks are compared", took, brief.duration)
	}
	if lease := s.lease(t); leaseHolder(lease) != "ann" || *lease.Spec.LeaseTransitions < 1 {
		t.Errorf("the lease is %q's", leaseHolder(lease))
	}
}

func testLeaseTakeover(t *testing.T, s *space) {
	first := s.hold(t, s.client, s.claim("ann"))
	transitions := *s.lease(t).Spec.LeaseTransitions
	claim := s.claim("bob")
	claim.Takeover = true
	start := time.Now()
	second := s.hold(t, s.client, claim)
	if took := time.Since(start); took >= brief.duration {
		t.Errorf("the takeover took %s", took)
	}
	wantLost(t, first, brief.giveUp)
	first.Release()
	lease := s.lease(t)
	if leaseHolder(lease) != "bob" {
		t.Errorf("once the first gave up the lease is %q's", leaseHolder(lease))
	}
	if *lease.Spec.LeaseTransitions <= transitions {
		t.Errorf("the lease counts %d transitions, before the takeover %d", *lease.Spec.LeaseTransitions, transitions)
	}
	if first.TookOver() || !second.TookOver() || second.Epoch() <= first.Epoch() {
		t.Errorf("the first took it from somebody: %t, the second: %t; epochs %d and %d", first.TookOver(), second.TookOver(), first.Epoch(), second.Epoch())
	}
	wantLost(t, second, 0)
}

// testLeaseReleased waits for a lease that its holder releases. The next holder must know that it
// waited, and that the lease was held until the release and not only until the last renewal.
func testLeaseReleased(t *testing.T, s *space) {
	seldom := leaseTimes{duration: time.Minute, renew: 20 * time.Second, giveUp: 40 * time.Second}
	first, err := acquireWithTimes(t.Context(), s.client, s.claim("ann"), seldom)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.Release)
	renewed := lastHeld(s.lease(t))
	<-time.After(time.Until(renewed.Add(2 * time.Second))) // the server's times are whole seconds
	claim := s.claim("bob")
	claim.Patient, claim.Waiting = true, func(string) { go first.Release() }
	second := s.hold(t, s.client, claim)
	if second.TookOver() || !second.Waited() || first.Waited() {
		t.Errorf("the second overtook: %t, waited: %t; the first waited: %t", second.TookOver(), second.Waited(), first.Waited())
	}
	if !second.LastHeld().After(renewed) {
		t.Errorf("the lease was held last at %s, when it was renewed, and not at its release", second.LastHeld())
	}
}

// awaitExpired waits until the Hold has expired or, if want is false, is valid again.
func awaitExpired(t *testing.T, hold *Hold, want bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, waitLimit, true, func(context.Context) (bool, error) {
		return time.Now().After(hold.Expires()) == want, nil
	})
	if err != nil {
		t.Fatalf("expired %t: %v", want, err)
	}
}

// testLeaseUnreachable makes the API server unreachable for longer than the lease lasts. Nothing
// may be written in that time. When the server answers again, the lease is renewed, or lost if
// another process has taken it.
func testLeaseUnreachable(t *testing.T, s *space) {
	client, line := s.newBreakableClient(t)
	hold := s.hold(t, client, s.claim("ann"))
	silence := func() (end func()) {
		mended := make(chan struct{})
		line.set(silentUntil(mended))
		awaitExpired(t, hold, true) // the renewals have stopped by then
		if hold.RenewalError() == nil {
			t.Error("it is not known why the lease was not renewed")
		}
		wantLost(t, hold, 0)
		return func() {
			line.set(nil)
			close(mended)
		}
	}
	silence()()
	awaitExpired(t, hold, false)
	wantLost(t, hold, 0)
	if got := leaseHolder(s.lease(t)); got != "ann" {
		t.Errorf("the lease is %q's", got)
	}
	end := silence()
	bob := s.hold(t, s.client, s.claim("bob"))
	end()
	wantLost(t, hold, waitLimit)
	wantLost(t, bob, 0)
}

// testLeaseOvertaken takes the lease for another process and releases it while the first holder
// cannot reach the server. The first holder must lose the lease, although it is free.
func testLeaseOvertaken(t *testing.T, s *space) {
	client, line := s.newBreakableClient(t)
	hold := s.hold(t, client, s.claim("ann"))
	mended := make(chan struct{})
	line.set(silentUntil(mended))
	line.cutWatches() // a watch would report it immediately; now only the renewal can
	taking := s.claim("bob")
	taking.Takeover = true
	s.hold(t, s.client, taking).Release()
	renewed := hold.renewed.lastRenewal.Load() // Expires also changes by the difference between two clocks
	line.set(nil)
	close(mended)
	wantLost(t, hold, waitLimit)
	if hold.renewed.lastRenewal.Load() != renewed || leaseHolder(s.lease(t)) != "" {
		t.Errorf("it was renewed; the lease is %q's", leaseHolder(s.lease(t)))
	}
}

func testLeaseRefused(t *testing.T, s *space) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	nobody := s.clientOf(t, s.name+"-nobody")
	if _, err := acquireWithTimes(ctx, nobody, s.claim("ann"), brief); !apierrors.IsForbidden(err) {
		t.Errorf("without rights: got error %v, want 403", err)
	}
	elsewhere := s.claim("ann")
	elsewhere.Namespace = s.name + "-none"
	if _, err := acquireWithTimes(ctx, s.client, elsewhere, brief); !apierrors.IsNotFound(err) {
		t.Errorf("in no namespace: got error %v, want 404", err)
	}
}

// testWaitForLeaseIsInterrupted stops the process while it watches a holder.
func testWaitForLeaseIsInterrupted(t *testing.T, s *space) {
	s.storeUnrenewedLease(t)
	ctx, cancel := context.WithCancel(t.Context())
	claim := s.claim("ann")
	claim.Waiting = func(string) { cancel() }
	if _, err := acquireWithTimes(ctx, s.client, claim, brief); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	if got := leaseHolder(s.lease(t)); got != "dead" {
		t.Errorf("the lease is %q's", got)
	}
}
