package cluster

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseState is who holds a lease, as far as one look can tell.
type LeaseState struct {
	// Name is the lease's, which is not the group's.
	Name string
	// Holder is "" for no one.
	Holder string
	// LastHeld is when it was renewed last or given back, zero for never, and Idle how long that
	// was ago when the lease was read.
	LastHeld time.Time
	Idle     time.Duration
}

// IsFree reports whether no one holds the lease any more.
func (l LeaseState) IsFree() bool { return l.Holder == "" || l.Idle > LeaseDuration }

// Unattended is for how long no one has been at work with a lease that is free.
func (l LeaseState) Unattended() time.Duration {
	if !l.IsFree() {
		return 0
	}
	return l.Idle
}

// ReadLease reads who holds the lease of a group.
func (c *Connection) ReadLease(ctx context.Context, namespace, group string) (LeaseState, error) {
	lease, err := c.Client.CoordinationV1().Leases(namespace).Get(ctx, ObjectName(group), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return LeaseState{}, nil
	case err != nil:
		return LeaseState{}, fmt.Errorf("reading the lease of group %q: %w", group, AdviseDenied(err))
	}
	return c.readLeaseState(lease), nil
}

// FindParallel is the lease of another group that is held; it is free when there is none.
func (c *Connection) FindParallel(ctx context.Context, namespace, group string) (LeaseState, error) {
	leases, err := c.Client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelManagedBy + "=" + FieldManager})
	if err != nil {
		return LeaseState{}, fmt.Errorf("listing the leases of upgrades: %w", AdviseDenied(err))
	}
	for i := range leases.Items {
		if l := c.readLeaseState(&leases.Items[i]); !l.IsFree() && l.Name != ObjectName(group) {
			return l, nil
		}
	}
	return LeaseState{}, nil
}

func (c *Connection) readLeaseState(lease *coordinationv1.Lease) LeaseState {
	held := lastHeld(lease)
	l := LeaseState{Name: lease.Name, LastHeld: held, Idle: c.IdleSince(held)}
	if lease.Spec.RenewTime != nil {
		l.Holder = leaseHolder(lease)
	}
	return l
}

// IdleSince is for how long no one has held a lease that was held until a time of the API server's;
// 0 for the zero time.
func (c *Connection) IdleSince(held time.Time) time.Duration {
	if held.IsZero() {
		return 0
	}
	return max(0, c.Now().Sub(held))
}
