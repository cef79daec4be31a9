package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
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
)

const (
	// LeaseDuration is how long a lease must be seen unchanged before it counts as expired; no clocks are compared.
	LeaseDuration = 60 * time.Second
	// leaseRenew is how often it is renewed, leaseGiveUp how long renewal may fail before the holder stops by itself.
	leaseRenew  = 10 * time.Second
	leaseGiveUp = 45 * time.Second
)

// leaseTimes are these three.
type leaseTimes struct{ duration, renew, giveUp time.Duration }

// HeldError is a lease that somebody else holds and renews.
type HeldError struct {
	Group, Holder string
	Since         time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s holds it since %s: see kubectl nodeupgrade status %s, or pass --takeover", e.Holder, e.Since.Format(time.RFC3339), e.Group)
}

// Hold is the right to write for one group.
type Hold struct {
	lost    chan struct{}
	cancel  context.CancelFunc
	ended   chan struct{}
	renewed *renewals
	times   leaseTimes
}

// Expires is until when nobody else can have taken the lease for want of a renewal, by the wall clock: a laptop that
// sleeps, or a process that is stopped, finds it in the past when it wakes.
func (h *Hold) Expires() time.Time { return time.Unix(0, h.renewed.last.Load()).Add(h.times.duration) }

// renewals is the lease as the election writes it, and remembers when it last did.
type renewals struct {
	resourcelock.Interface
	last atomic.Int64
}

// Create makes the lease ours. The time counts from before the request: what others see is no earlier.
func (r *renewals) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return r.note(r.Interface.Create(ctx, record), began)
}

// Update takes or renews the lease.
func (r *renewals) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return r.note(r.Interface.Update(ctx, record), began)
}

func (r *renewals) note(err error, began time.Time) error {
	if err == nil {
		r.last.Store(began.UnixNano())
	}
	return err
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
	// Takeover takes the lease from a holder that renews it.
	Takeover bool
	// Waiting, if not nil, is told of a holder that is being watched for signs of life.
	Waiting func(holder string)
}

// Acquire takes a group's lease. A lease that somebody holds is watched: it is a HeldError as soon
// as it is renewed, and taken once it was unchanged for LeaseDuration. A lease that may not be written is
// an error at once.
func Acquire(ctx context.Context, client kubernetes.Interface, claim Claim) (*Hold, error) {
	return acquire(ctx, client, claim, leaseTimes{duration: LeaseDuration, renew: leaseRenew, giveUp: leaseGiveUp})
}

func acquire(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (*Hold, error) {
	current, err := prepare(ctx, client, claim)
	if err != nil {
		return nil, err
	}
	hold, started, err := elect(ctx, client, claim, times)
	if err != nil {
		return nil, err
	}
	if other := holder(current); other != "" && other != claim.Identity && claim.Waiting != nil {
		claim.Waiting(other)
	}
	select {
	case <-started:
		return hold, nil
	case err = <-watchRenewal(ctx, client, claim, current): // of a lease that was free too: somebody may be faster
	case <-hold.ended:
		err = fmt.Errorf("taking the lease of group %q: %w", claim.Group, context.Cause(ctx))
	}
	hold.Release()
	return nil, err
}

// prepare reads the lease, or makes one that nobody holds, and puts our name in it for a takeover. The election
// that follows would try for ever where it may not write, so that is asked here.
func prepare(ctx context.Context, client kubernetes.Interface, claim Claim) (*coordinationv1.Lease, error) {
	leases := client.CoordinationV1().Leases(claim.Namespace)
	var current *coordinationv1.Lease
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if current, err = getOrCreate(ctx, leases, ObjectName(claim.Group)); err != nil {
			return err
		}
		options := metav1.UpdateOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}}
		if claim.Takeover {
			current, options.DryRun = takenOver(current, claim.Identity), nil
		}
		_, err = leases.Update(ctx, current, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking the lease of group %q: %w", claim.Group, err)
	}
	return current, nil
}

func getOrCreate(ctx context.Context, leases coordinationclient.LeaseInterface, name string) (*coordinationv1.Lease, error) {
	current, err := leases.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return current, err
	}
	created, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelManagedBy: FieldManager}},
	}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil { // somebody was faster, or it was made and the answer was lost
		if current, again := leases.Get(ctx, name, metav1.GetOptions{}); again == nil {
			return current, nil
		}
	}
	return created, err
}

// takenOver is the lease with its new holder: in one step, since the old holder could renew one that is free.
func takenOver(lease *coordinationv1.Lease, identity string) *coordinationv1.Lease {
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

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// elect runs the election in the background until the hold is released.
func elect(ctx context.Context, client kubernetes.Interface, claim Claim, times leaseTimes) (*Hold, <-chan struct{}, error) {
	started := make(chan struct{})
	lock := &renewals{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: claim.Namespace, Name: ObjectName(claim.Group)},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: claim.Identity},
		Labels:     map[string]string{LabelManagedBy: FieldManager},
	}}
	hold := &Hold{lost: make(chan struct{}), ended: make(chan struct{}), renewed: lock, times: times}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: times.duration, RenewDeadline: times.giveUp, RetryPeriod: times.renew,
		Name: claim.Group,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(started)
				hold.guard(ctx, client, claim)
			},
			OnStoppedLeading: func() { close(hold.lost) },
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("taking the lease of group %q: %w", claim.Group, err)
	}
	// The lease outlives the user's wish to stop: it is needed for the clean-up, and released after it.
	electCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	hold.cancel = cancel
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-started:
		default:
			cancel() // not acquired yet: nothing to clean up
		}
	})
	go func() {
		defer close(hold.ended)
		defer stop()
		elector.Run(electCtx)
		release(context.WithoutCancel(ctx), client, claim)
	}()
	return hold, started, nil
}

// guard ends the hold as soon as somebody else is seen to have taken the lease over, which renewing would
// notice only after leaseGiveUp.
func (h *Hold) guard(ctx context.Context, client kubernetes.Interface, claim Claim) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		watcher, err := client.CoordinationV1().Leases(claim.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ObjectName(claim.Group)).String(),
		})
		if err != nil {
			return // renewing notices too
		}
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && holder(lease) != "" && holder(lease) != claim.Identity {
				h.cancel()
				return
			}
		}
	}, leaseRenew)
}

// release gives the lease back if it is still ours; when that fails it expires. The elector's own release reads
// the lease anew and then trusts what it saw before, so that it would free the lease of whoever took it over
// (client-go leaderelection.go, tryRelease).
func release(ctx context.Context, client kubernetes.Interface, claim Claim) {
	ctx, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	leases := client.CoordinationV1().Leases(claim.Namespace)
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := leases.Get(ctx, ObjectName(claim.Group), metav1.GetOptions{})
		if err != nil || holder(current) != claim.Identity {
			return err
		}
		current.Spec.HolderIdentity = nil
		_, err = leases.Update(ctx, current, metav1.UpdateOptions{FieldManager: FieldManager})
		return err
	})
}

// watchRenewal receives a HeldError when the lease's holder gives a sign of life.
func watchRenewal(ctx context.Context, client kubernetes.Interface, claim Claim, first *coordinationv1.Lease) <-chan error {
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
		lease, ok := (<-watcher.ResultChan()).Object.(*coordinationv1.Lease)
		if !ok || holder(lease) == "" || holder(lease) == claim.Identity {
			return // given back, ours by now, or no longer watched: the election goes on
		}
		held := &HeldError{Group: claim.Group, Holder: holder(lease)}
		if at := lease.Spec.AcquireTime; at != nil {
			held.Since = at.Time
		}
		renewed <- held
	}()
	return renewed
}
