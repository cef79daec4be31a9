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
	// LeaseDuration is how long a lease must stay unchanged before another process may take it.
	// Each process measures this by its own clock, so clocks are not compared.
	LeaseDuration = 60 * time.Second
	// leaseRenew is how often the lease is renewed. leaseGiveUp is how long renewals may fail.
	// After that the lease is only read, to see whether another process has taken it.
	leaseRenew  = 10 * time.Second
	leaseGiveUp = 45 * time.Second
)

// leaseTimes are the three durations above.
type leaseTimes struct{ duration, renew, giveUp time.Duration }

// HeldError means that another process holds the lease and renews it.
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
	// tookOver is true if the lease had another holder that had not released it.
	tookOver bool
	// waited is true if another process held the lease when this one asked for it, and then
	// released it.
	waited bool
	// previouslyHeld is when the previous holder last renewed or released the lease, by the API
	// server's clock. It is zero if there was none.
	previouslyHeld time.Time
}

// Epoch returns the number of holders that the lease has had, including this one.
func (h *Hold) Epoch() int64 { return h.renewed.epoch.Load() }

// TookOver reports whether the lease was taken from a holder that had not released it. That holder
// may still send requests.
func (h *Hold) TookOver() bool { return h.tookOver }

// Waited reports whether another process held the lease when this one asked for it. If so, earlier readings of the
// cluster may be outdated.
func (h *Hold) Waited() bool { return h.tookOver || h.waited }

// LastHeld returns when the previous holder last renewed or released the lease, by the API server's
// clock and to the second. It is zero if there was none.
func (h *Hold) LastHeld() time.Time { return h.previouslyHeld }

// Expires returns the time until which no other process can have taken the lease. It uses the clock
// that expires first. While a laptop sleeps, only the wall clock runs. If the wall clock is set
// back, only the monotonic clock is right.
func (h *Hold) Expires() time.Time {
	return clockSafeNow(*h.renewed.lastRenewal.Load(), time.Now()).Add(h.times.duration)
}

// clockSafeNow returns now minus the time that has passed since an earlier moment, by the monotonic
// or the wall clock, whichever shows more.
func clockSafeNow(since, now time.Time) time.Time {
	return now.Add(-max(now.Sub(since), now.Round(0).Sub(since.Round(0))))
}

// Lost is closed when this process no longer holds the lease.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Release releases the lease, so that the next holder need not wait until it expires.
func (h *Hold) Release() {
	h.cancel()
	<-h.ended
}

// Claim names the process that wants the right to write, and the group.
type Claim struct {
	Namespace, Group string
	// Identity is the holder's name for people.
	Identity string
	// Takeover takes the lease even from a holder that renews it. Patient waits until such a holder
	// releases it.
	Takeover, Patient bool
	// Waiting, if not nil, is called with the name of a holder whose lease is being watched for
	// renewals.
	Waiting func(holder string)
}

// AcquireLease takes a group's lease. If another process holds it, AcquireLease watches it. If the
// holder renews it, AcquireLease returns a HeldError. If it stays unchanged for LeaseDuration,
// AcquireLease takes it. It returns an error immediately if the lease may not be written.
func AcquireLease(ctx context.Context, client kubernetes.Interface, claim Claim) (*Hold, error) {
	return acquireWithTimes(ctx, client, claim, leaseTimes{duration: LeaseDuration, renew: leaseRenew, giveUp: leaseGiveUp})
}

func acquireWithTimes(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (*Hold, error) {
	waited := false
	for {
		hold, err := runElection(ctx, client, claim, times)
		if errors.Is(err, errReleased) {
			waited = true
			continue
		}
		if hold != nil {
			hold.waited = waited
		}
		return hold, err
	}
}

// renewalPatience is how long after its last renewal a holder still counts as active: one and a half
// renewal periods.
const renewalPatience = leaseRenew + leaseRenew/2

// AwaitRenewal waits until the holder of the group's lease renews it, at most renewalPatience after the last renewal.
// It returns false if there is no renewal in that time. It does not take the lease, because the next holder would then
// believe that a process was active until now. A holder that does not renew in time may still be alive; only
// AcquireLease can find out. waiting is called with the holder's name before the wait.
func (c *Connection) AwaitRenewal(ctx context.Context, namespace, group string, waiting func(holder string)) (bool, error) {
	leases := c.Client.CoordinationV1().Leases(namespace)
	first, err := leases.Get(ctx, ObjectName(group), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the lease of group %q: %w", group, AddAccessRemedy(err))
	}
	state := c.readLeaseState(first)
	if state.Holder == "" || state.Idle > renewalPatience {
		return false, nil
	}
	waiting(state.Holder)
	ctx, cancel := context.WithTimeoutCause(ctx, renewalPatience-state.Idle, errNotRenewed)
	defer cancel()
	select {
	case err = <-awaitHolder(ctx, c.Client, Claim{Namespace: namespace, Group: group, Identity: "who only looks"}, first):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return true, nil
	case errors.Is(err, errReleased), errors.Is(context.Cause(ctx), errNotRenewed):
		return false, nil
	default:
		return false, err
	}
}

// errNotRenewed means that the holder did not renew its lease in time.
var errNotRenewed = errors.New("the lease was not renewed")

// errReleased means that the holder has released the lease. A new election takes it immediately,
// while the running one would notice only at its next try.
var errReleased = errors.New("the lease was released")

// runElection runs one election.
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
	failing, cancel := awaitElectionFailure(hold, times)
	defer cancel()
	select {
	case <-started:
		return hold, nil
	case err = <-failing:
		err = fmt.Errorf("taking the lease of group %q: %w", claim.Group, err)
	case err = <-awaitHolder(ctx, client, claim, found): // also if the lease was free: another process may take it first
	case <-hold.ended:
		err = fmt.Errorf("taking the lease of group %q: %w", claim.Group, context.Cause(ctx))
	}
	hold.Release()
	return nil, err
}

// electionTries is how many tries in a row an election may fail to read or write the lease.
const electionTries = 3

// awaitElectionFailure returns a channel that receives an error when the election has failed to read or write the lease
// electionTries times in a row. The election itself would try forever.
func awaitElectionFailure(hold *Hold, times leaseTimes) (<-chan error, context.CancelFunc) {
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

// prepareLease reads the lease, or creates one without a holder. For a takeover it writes our name
// into it. Otherwise it tests with a dry run whether the lease may be written, because the election
// would try forever without that right. It returns the lease as it was found.
func prepareLease(ctx context.Context, client kubernetes.Interface, claim Claim) (*coordinationv1.Lease, error) {
	var found *coordinationv1.Lease
	leases := client.CoordinationV1().Leases(claim.Namespace)
	again := func(err error) bool { // after a 401 client-go has newer credentials, if there are any
		return apierrors.IsConflict(err) || apierrors.IsUnauthorized(err)
	}
	err := retry.OnError(retry.DefaultRetry, again, func() (err error) {
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

// lastHeld returns when a holder last renewed or released the lease, by the API server's clock and
// to the second. The times that the holder writes into the lease use the holder's clock, which may
// be wrong. lastHeld returns zero if the lease never had a holder.
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
	if err != nil { // another process created it first, or it was created and the answer was lost
		if current, again := leases.Get(ctx, name, metav1.GetOptions{}); again == nil {
			return current, nil
		}
	}
	return created, err
}

// leaseWithHolder returns the lease with a new holder. It changes the holder in one step. If the lease were free for a
// moment, the old holder could renew it.
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
	started, start := context.WithCancel(context.WithoutCancel(ctx)) // canceled when this process holds the lease
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
			OnStoppedLeading: func() {}, // the server may only be unreachable
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
	// The lease must continue after the user asked to stop. The clean-up needs it, and releases it
	// at its end.
	electCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	hold.cancel, lock.overtaken = cancel, cancel
	stop := context.AfterFunc(ctx, func() {
		if started.Err() == nil {
			cancel() // the lease was not taken yet, so there is nothing to clean up
		}
	})
	go func() {
		defer close(hold.ended)
		defer stop()
		for elector.Run(electCtx); awaitOwnLease(electCtx, client, claim, times); elector.Run(electCtx) {
		}
		close(hold.lost)
		releaseLease(context.WithoutCancel(ctx), client, claim)
	}()
	return hold, started.Done(), nil
}

// awaitOwnLease waits until the server answers again, after the lease could not be renewed for too long. It reports
// whether this process is still the holder. If another process has taken the lease, its holder is another name or
// empty. This process writes nothing during the wait, see Expires.
func awaitOwnLease(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (stillOurs bool) {
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

// watchTakeover ends the hold as soon as another process takes the lease over. The renewals would
// notice that only after leaseGiveUp.
func (h *Hold) watchTakeover(ctx context.Context, client kubernetes.Interface, claim Claim) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		watcher, err := client.CoordinationV1().Leases(claim.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ObjectName(claim.Group)).String(),
		})
		if err != nil {
			return // the renewals notice a takeover too
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

// releaseLease releases the lease if this process still holds it. If that fails, the lease expires.
// The elector's own release is not used: it reads the lease again but trusts its older state, so it
// could release the lease of a process that took it over (client-go leaderelection.go, tryRelease).
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
		current.Spec.HolderIdentity, current.Spec.RenewTime = nil, &now // removing fields alone would leave no time behind, see LastHeld
		_, err = leases.Update(ctx, current, metav1.UpdateOptions{FieldManager: FieldManager})
		return err
	})
}

// awaitHolder watches the holder of the lease. The returned channel receives a HeldError when the holder renews the
// lease, unless the claim is patient. It receives errReleased when the holder releases the lease.
func awaitHolder(ctx context.Context, client kubernetes.Interface, claim Claim, first *coordinationv1.Lease) <-chan error {
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
		for event := range watcher.ResultChan() { // if the watch ends, the election still continues
			lease, ok := event.Object.(*coordinationv1.Lease)
			switch {
			case !ok || leaseHolder(lease) == claim.Identity:
				return
			case leaseHolder(lease) == "":
				renewed <- errReleased
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
