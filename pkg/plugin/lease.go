package plugin

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
)

// leaseState is who holds a lease, and since when it was not renewed.
type leaseState struct {
	holder  string
	renewed time.Time
	// idle is how long that was ago when the lease was read.
	idle time.Duration
	// left is for how long no one has been at work with a lease that is over.
	left time.Duration
}

// isFree reports whether no one holds the lease any more, as far as one look can tell.
func (l leaseState) isFree() bool { return l.holder == "" || l.idle > cluster.LeaseDuration }

// loadLease reads who holds the lease of a group.
func (c *command) loadLease(ctx context.Context, group string) (leaseState, error) {
	lease, err := c.client.CoordinationV1().Leases(c.stateNamespace).Get(ctx, cluster.ObjectName(group), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return leaseState{}, nil
	case err != nil:
		return leaseState{}, fmt.Errorf("reading the lease of group %q: %w", group, err)
	}
	return c.readLeaseState(lease), nil
}

func (c *connection) readLeaseState(lease *coordinationv1.Lease) leaseState {
	renewed := cluster.LastHeld(lease)
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return leaseState{left: c.idleSince(renewed)}
	}
	l := leaseState{holder: *lease.Spec.HolderIdentity, renewed: renewed, idle: c.clock.serverTime().Sub(renewed)}
	if l.isFree() {
		l.left = l.idle
	}
	return l
}

// idleSince is for how long no one has held a lease that was held until a time of the API server's;
// 0 for the zero time.
func (c *connection) idleSince(held time.Time) time.Duration {
	if held.IsZero() {
		return 0
	}
	return max(0, c.clock.serverTime().Sub(held))
}

// serverClock is the API server's, to the second, as its last answer told.
type serverClock struct{ ahead atomic.Int64 }

func (c *serverClock) serverTime() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// observeAnswers is a transport that hears what time it is from each answer.
func (c *serverClock) observeAnswers(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return response, err
		}
		if date, unread := http.ParseTime(response.Header.Get("Date")); unread == nil {
			c.ahead.Store(int64(time.Until(date)))
		}
		return response, nil
	})
}
