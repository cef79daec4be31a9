package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// LeaseDuration is how long a lease must be seen unchanged before it counts as expired; no
	// clocks are compared.
	LeaseDuration = 60 * time.Second
	// leaseRenew is how often it is renewed, leaseGiveUp how long renewal may fail before it is
	// only read, to see whose it is.
	leaseRenew  = 10 * time.Second
	leaseGiveUp = 45 * time.Second
)

// leaseTimes are these three.
type leaseTimes struct{ duration, renew, giveUp time.Duration }

// HeldError is a lease that another actor holds and renews.
type HeldError struct {
	Group, Holder string
	Since         time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s holds it since %s: see %s, or pass --takeover", e.Holder, e.Since.Format(time.RFC3339), nodegroup.Command("status", e.Group))
}

// Hold is the right to write for one group.
type Hold struct {
	lost    chan struct{}
	cancel  context.CancelFunc
	ended   chan struct{}
	renewed *renewalTracker
	times   leaseTimes
	// tookOver is true when the lease was another actor's who had not given it back.
	tookOver bool
	// waited is true when another actor was seen to hold the lease and to give it back.
	waited bool
	// previouslyHeld is when the holder before us was at work last, by the API server's clock; zero
	// when there was none.
	previouslyHeld time.Time
}

// Epoch is the number of the lease's holders so far, of which this is the last.
func (h *Hold) Epoch() int64 { return h.renewed.epoch.Load() }

// Overtook reports whether the lease was taken from a holder that had not given it back: it may
// still send something.
func (h *Hold) Overtook() bool { return h.tookOver }

// Waited reports whether another actor held the lease while this one asked for it: what was read
// before may have changed since.
func (h *Hold) Waited() bool { return h.tookOver || h.waited }

// LastHeld is when the holder before this one renewed the lease last or gave it back, by the API
// server's clock and to the second; zero when there was none.
func (h *Hold) LastHeld() time.Time { return h.previouslyHeld }

// Expires is until when no other actor can have taken the lease for want of a renewal. It goes by
// the clock that says so first: of a laptop that sleeps only the wall clock keeps running, and of a
// wall clock that is set back only the monotonic one.
func (h *Hold) Expires() time.Time {
	return clockSafeNow(*h.renewed.lastRenewal.Load(), time.Now()).Add(h.times.duration)
}

// clockSafeNow is now less what has passed since a time by the clock by which that is more.
func clockSafeNow(since, now time.Time) time.Time {
	return now.Add(-max(now.Sub(since), now.Round(0).Sub(since.Round(0))))
}

// Lost is closed when the lease is no longer ours.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Release gives the lease back, so that the next holder need not wait for it to expire.
func (h *Hold) Release() {
	h.cancel()
	<-h.ended
}

// Claim is who wants the right to write, and for what.
type Claim struct {
	Namespace, Group string
	// Identity names the holder to people.
	Identity string
	// Takeover takes the lease from a holder that renews it; Patient waits until such a holder
	// gives it back.
	Takeover, Patient bool
	// Waiting, if not nil, is told of a holder that is being watched for signs of life.
	Waiting func(holder string)
}

// AcquireLease takes a group's lease. A lease that another actor holds is watched: it is a
// HeldError as soon as it is renewed, and taken once it was unchanged for LeaseDuration. A lease
// that may not be written is an error at once.
func AcquireLease(ctx context.Context, client kubernetes.Interface, claim Claim) (*Hold, error) {
	return acquireWithTimes(ctx, client, claim, leaseTimes{duration: LeaseDuration, renew: leaseRenew, giveUp: leaseGiveUp})
}

func acquireWithTimes(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (*Hold, error) {
	waited := false
	for {
		hold, err := runElection(ctx, client, claim, times)
		if errors.Is(err, errGivenBack) {
			waited = true
			continue
		}
		if hold != nil {
			hold.waited = waited
		}
		return hold, err
	}
}

// signOfLife is how long a holder may be without a renewal until it is not taken for one at work: half
// a renewal more than it takes from one to the next.
const signOfLife = leaseRenew + leaseRenew/2

// IsHolderAtWork reports whether the group's lease has a holder that gives a sign of life, which is
// waited for up to signOfLife. It only looks: taking the lease would tell the next holder that
// somebody was at work until then. A holder without one may still be alive: only AcquireLease can
// tell. waiting is told of the holder that is watched.
func (c *Connection) IsHolderAtWork(ctx context.Context, namespace, group string, waiting func(holder string)) (bool, error) {
	leases := c.Client.CoordinationV1().Leases(namespace)
	first, err := leases.Get(ctx, ObjectName(group), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the lease of group %q: %w", group, AdviseDenied(err))
	}
	state := c.readLeaseState(first)
	if state.Holder == "" || state.Idle > signOfLife {
		return false, nil
	}
	waiting(state.Holder)
	ctx, cancel := context.WithTimeoutCause(ctx, signOfLife-state.Idle, errNoSign)
	defer cancel()
	select {
	case err = <-watchHolder(ctx, c.Client, Claim{Namespace: namespace, Group: group, Identity: "who only looks"}, first):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return true, nil
	case errors.Is(err, errGivenBack), errors.Is(context.Cause(ctx), errNoSign):
		return false, nil
	default:
		return false, err
	}
}

// errNoSign is a holder that did not renew its lease in time.
var errNoSign = errors.New("the lease was not renewed")

// errGivenBack is a lease that its holder has let go of: a new election takes it at once, where the
// one under way would notice with its next try.
var errGivenBack = errors.New("the lease was given back")

// runElection is one election.
func runElection(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (*Hold, error) {
	found, err := prepareLease(ctx, client, claim)
	if err != nil {
		return nil, err
	}
	hold, started, err := startElection(ctx, client, claim, times)
	if err != nil {
		return nil, err
	}
	hold.tookOver, hold.previouslyHeld = leaseHolder(found) != "", lastHeld(found)
	if hold.tookOver && !claim.Takeover && claim.Waiting != nil {
		claim.Waiting(leaseHolder(found))
	}
	failing, cancel := watchElection(hold, times)
	defer cancel()
	select {
	case <-started:
		return hold, nil
	case err = <-failing:
		err = fmt.Errorf("taking the lease of group %q: %w", claim.Group, err)
	case err = <-watchHolder(ctx, client, claim, found): // of a lease that was free too: another actor may be faster
	case <-hold.ended:
		err = fmt.Errorf("taking the lease of group %q: %w", claim.Group, context.Cause(ctx))
	}
	hold.Release()
	return nil, err
}

// electionTries is for how many tries in a row an election may fail to read or write the lease.
const electionTries = 3

// watchElection receives why the lease cannot be had, when the election has failed to read or to write
// it for so long: it would try without an end.
func watchElection(hold *Hold, times leaseTimes) (<-chan error, context.CancelFunc) {
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		var since time.Time
		wait.UntilWithContext(ctx, func(context.Context) {
			err := hold.RenewalError()
			switch {
			case err == nil:
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			case time.Since(since) >= electionTries*times.renew:
				failed <- err
				cancel()
			}
		}, times.renew/4)
	}()
	return failed, cancel
}

// prepareLease reads the lease, or creates one without a holder, and puts our name in it for a
// takeover. The election that follows would try for ever where it may not write, so that is asked
// here. It returns the lease as it was found.
func prepareLease(ctx context.Context, client kubernetes.Interface, claim Claim) (*coordinationv1.Lease, error) {
	var found *coordinationv1.Lease
	leases := client.CoordinationV1().Leases(claim.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if found, err = getOrCreateLease(ctx, leases, ObjectName(claim.Group)); err != nil {
			return err
		}
		next, options := found, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}}
		if claim.Takeover {
			next, options.DryRun = leaseWithHolder(found, claim.Identity), nil
		}
		_, err = leases.Update(ctx, next, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking the lease of group %q: %w", claim.Group, err)
	}
	return found, nil
}

// lastHeld is when a holder renewed the lease last or gave it back, by the API server's clock and
// to the second: what a holder writes into it is by a clock that may be wrong. It is zero for a
// lease that never had a holder.
func lastHeld(lease *coordinationv1.Lease) (last time.Time) {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	for i := range lease.ManagedFields {
		if at := lease.ManagedFields[i].Time; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if last.IsZero() {
		last = lease.Spec.RenewTime.Time
	}
	return last
}

func getOrCreateLease(ctx context.Context, leases coordinationclient.LeaseInterface, name string) (*coordinationv1.Lease, error) {
	current, err := leases.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return current, err
	}
	created, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelManagedBy: FieldManager}},
	}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil { // another actor was faster, or it was made and the answer was lost
		if current, again := leases.Get(ctx, name, metav1.GetOptions{}); again == nil {
			return current, nil
		}
	}
	return created, err
}

// leaseWithHolder is the lease with its new holder: in one step, since the old holder could renew
// one that is free.
func leaseWithHolder(lease *coordinationv1.Lease, identity string) *coordinationv1.Lease {
	taken := lease.DeepCopy()
	now := metav1.NowMicro()
	transitions := int32(1)
	if t := lease.Spec.LeaseTransitions; t != nil {
		transitions += *t
	}
	taken.Spec.HolderIdentity, taken.Spec.LeaseTransitions = &identity, &transitions
	taken.Spec.AcquireTime, taken.Spec.RenewTime = &now, &now
	return taken
}

func leaseHolder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// startElection runs the election in the background until the hold is released.
func startElection(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (*Hold, <-chan struct{}, error) {
	started, start := context.WithCancel(context.WithoutCancel(ctx)) // over when the lease is ours
	lock := &renewalTracker{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: claim.Namespace, Name: ObjectName(claim.Group)},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: claim.Identity},
		Labels:     map[string]string{LabelManagedBy: FieldManager},
	}}
	lock.lastRenewal.Store(&time.Time{}) // long ago
	hold := &Hold{lost: make(chan struct{}), ended: make(chan struct{}), renewed: lock, times: times}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: times.duration, RenewDeadline: times.giveUp, RetryPeriod: times.renew,
		Name: claim.Group,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				start()
				hold.watchTakeover(ctx, client, claim)
			},
			OnStoppedLeading: func() {}, // it may only be that no one answers
			OnNewLeader: func(identity string) {
				if identity != claim.Identity && started.Err() != nil {
					hold.cancel()
				}
			},
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("taking the lease of group %q: %w", claim.Group, err)
	}
	// The lease outlives the user's wish to stop: it is needed for the clean-up, and released after
	// it.
	electCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	hold.cancel, lock.overtaken = cancel, cancel
	stop := context.AfterFunc(ctx, func() {
		if started.Err() == nil {
			cancel() // not acquired yet: nothing to clean up
		}
	})
	go func() {
		defer close(hold.ended)
		defer stop()
		for elector.Run(electCtx); waitForOwnLease(electCtx, client, claim, times); elector.Run(electCtx) {
		}
		close(hold.lost)
		releaseLease(context.WithoutCancel(ctx), client, claim)
	}()
	return hold, started.Done(), nil
}

// waitForOwnLease waits, after the lease could not be renewed for too long, until the server
// answers again, and reports whether the lease has been no other actor's meanwhile: whoever took it
// would have left a name or none. Nothing is written in that time, see Expires.
func waitForOwnLease(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) bool {
	ours := false
	err := wait.PollUntilContextCancel(ctx, times.renew/4, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, times.renew)
		defer cancel()
		lease, err := client.CoordinationV1().Leases(claim.Namespace).Get(ctx, ObjectName(claim.Group), metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), nil
		}
		ours = leaseHolder(lease) == claim.Identity
		return true, nil
	})
	return err == nil && ours
}

// watchTakeover ends the hold as soon as another actor is seen to have taken the lease over, which
// renewing would notice only after leaseGiveUp.
func (h *Hold) watchTakeover(ctx context.Context, client kubernetes.Interface, claim Claim) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		watcher, err := client.CoordinationV1().Leases(claim.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ObjectName(claim.Group)).String(),
		})
		if err != nil {
			return // renewing notices too
		}
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && leaseHolder(lease) != claim.Identity {
				h.cancel()
				return
			}
		}
	}, leaseRenew)
}

// releaseLease gives the lease back if it is still ours; when that fails it expires. The elector's
// own release reads the lease again and then trusts what it saw before, so that it would free the
// lease of whoever took it over (client-go leaderelection.go, tryRelease).
func releaseLease(ctx context.Context, client kubernetes.Interface, claim Claim) {
	ctx, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	leases := client.CoordinationV1().Leases(claim.Namespace)
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := leases.Get(ctx, ObjectName(claim.Group), metav1.GetOptions{})
		if err != nil || leaseHolder(current) != claim.Identity {
			return err
		}
		now := metav1.NowMicro()
		current.Spec.HolderIdentity, current.Spec.RenewTime = nil, &now // a field that is only taken away leaves no time behind, see LastHeld
		_, err = leases.Update(ctx, current, metav1.UpdateOptions{FieldManager: FieldManager})
		return err
	})
}

// watchHolder receives a HeldError when the lease's holder gives a sign of life, unless the claim
// is patient, and errGivenBack when it lets go of the lease.
func watchHolder(ctx context.Context, client kubernetes.Interface, claim Claim, first *coordinationv1.Lease) <-chan error {
	renewed := make(chan error, 1)
	watcher, err := client.CoordinationV1().Leases(claim.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, first.Name).String(),
		ResourceVersion: first.ResourceVersion,
	})
	if err != nil {
		renewed <- fmt.Errorf("watching the lease of group %q: %w", claim.Group, err)
		return renewed
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() { // where it ends the election still continues
			lease, ok := event.Object.(*coordinationv1.Lease)
			switch {
			case !ok || leaseHolder(lease) == claim.Identity:
				return
			case leaseHolder(lease) == "":
				renewed <- errGivenBack
				return
			case !claim.Patient:
				renewed <- newHeldError(lease, claim.Group)
				return
			}
		}
	}()
	return renewed
}

func newHeldError(lease *coordinationv1.Lease, group string) *HeldError {
	held := &HeldError{Group: group, Holder: leaseHolder(lease)}
	if at := lease.Spec.AcquireTime; at != nil {
		held.Since = at.Time
	}
	return held
}
