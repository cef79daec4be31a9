package cluster

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseState is the holder of a lease and its age, as far as one read shows.
type LeaseState struct {
	// Name is the lease's name, which differs from the group's.
	Name string
	// Holder is the holder's name, "" for none.
	Holder string
	// LastHeld is when the lease was last renewed or released, zero for never. Idle is how long ago
	// that was when the lease was read.
	LastHeld time.Time
	Idle     time.Duration
}

// IsFree reports whether the lease has no holder, or has expired.
func (l LeaseState) IsFree() bool { return l.Holder == "" || l.Idle > LeaseDuration }

// FreeFor returns how long the lease has been free. It returns 0 if the lease is held.
func (l LeaseState) FreeFor() time.Duration {
	if !l.IsFree() {
		return 0
	}
	return l.Idle
}

// ReadLease reads the state of a group's lease.
func (c *Connection) ReadLease(ctx context.Context, namespace, group string) (LeaseState, error) {
	lease, err := c.Client.CoordinationV1().Leases(namespace).Get(ctx, ObjectName(group), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return LeaseState{}, nil
	case err != nil:
		return LeaseState{}, fmt.Errorf("reading the lease of group %q: %w", group, AddAccessRemedy(err))
	}
	return c.readLeaseState(lease), nil
}

// FindHeldLease returns a held lease of another group. If there is none, it returns a free lease.
func (c *Connection) FindHeldLease(ctx context.Context, namespace, group string) (LeaseState, error) {
	leases, err := c.Client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelManagedBy + "=" + FieldManager})
	if err != nil {
		return LeaseState{}, fmt.Errorf("listing the leases of upgrades: %w", AddAccessRemedy(err))
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

// IdleSince returns the time since held, by the API server's clock; 0 for the zero time.
func (c *Connection) IdleSince(held time.Time) time.Duration {
	if held.IsZero() {
		return 0
	}
	return max(0, c.Now().Sub(held))
}
