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

// tenure is who holds a lease, and since when it was not renewed.
type tenure struct {
	holder  string
	renewed time.Time
	// idle is how long that was ago when the lease was read.
	idle time.Duration
	// left is for how long nobody has been at work with a lease that is over.
	left time.Duration
}

// over reports whether nobody holds the lease any more, as far as one look can tell.
func (t tenure) over() bool { return t.holder == "" || t.idle > cluster.LeaseDuration }

func tenureOf(ctx context.Context, conn *connection, namespace, group string) (tenure, error) {
	lease, err := conn.client.CoordinationV1().Leases(namespace).Get(ctx, cluster.ObjectName(group), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return tenure{}, nil
	case err != nil:
		return tenure{}, fmt.Errorf("reading the lease of group %q: %w", group, err)
	}
	return conn.tenure(lease), nil
}

func (c *connection) tenure(lease *coordinationv1.Lease) tenure {
	renewed := cluster.LastHeld(lease)
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return tenure{left: c.idleSince(renewed)}
	}
	t := tenure{holder: *lease.Spec.HolderIdentity, renewed: renewed, idle: c.clock.now().Sub(renewed)}
	if t.over() {
		t.left = t.idle
	}
	return t
}

// idleSince is for how long nobody has held a lease that was held until a time of the API server's;
// 0 for the zero time.
func (c *connection) idleSince(held time.Time) time.Duration {
	if held.IsZero() {
		return 0
	}
	return max(0, c.clock.now().Sub(held))
}

// serverClock is the API server's, to the second, as its last answer told.
type serverClock struct{ ahead atomic.Int64 }

func (c *serverClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// follow is a transport that hears what time it is from each answer.
func (c *serverClock) follow(next http.RoundTripper) http.RoundTripper {
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
