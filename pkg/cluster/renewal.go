package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// RenewalError returns why the last try to renew the lease failed, nil if it succeeded.
func (h *Hold) RenewalError() error {
	if err := h.renewed.lastError.Load(); err != nil {
		return *err
	}
	return nil
}

// renewalTracker wraps the lease lock of the election and remembers the last renewal. It also prevents that the
// election takes the lease back after another process has taken it over and released it, because that process may have
// ended the upgrade.
type renewalTracker struct {
	resourcelock.Interface
	lastRenewal atomic.Pointer[time.Time]
	// lastError is the result of the last try, nil before the first.
	lastError atomic.Pointer[error]
	// epoch is the number of the lease's holders when this process took it, from 1 on. overtaken is
	// called when the number has changed.
	epoch     atomic.Int64
	overtaken func()
}

// errOvertaken is returned for the renewal of a lease that another process held in between.
var errOvertaken = errors.New("another process held the lease in the meantime")

// Get reads the lease. If that fails, the error counts as the reason why the lease was not renewed.
// If another process holds the lease, no renewal is tried, so there is no error.
func (r *renewalTracker) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := r.Interface.Get(ctx)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		r.lastError.Store(&err)
	case err == nil && record.HolderIdentity != "" && record.HolderIdentity != r.Identity():
		r.lastError.Store(new(error))
	}
	return record, raw, err
}

// Create creates the lease with this process as holder. The renewal counts from the moment before the
// request, because other processes see the lease only later.
func (r *renewalTracker) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return r.recordRenewal(r.Interface.Create(ctx, record), began, record)
}

// Update takes or renews the lease.
func (r *renewalTracker) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if epoch := r.epoch.Load(); epoch != 0 && epoch != holderEpoch(record) {
		r.overtaken()
		return errOvertaken
	}
	began := time.Now()
	return r.recordRenewal(r.Interface.Update(ctx, record), began, record)
}

func (r *renewalTracker) recordRenewal(err error, began time.Time, record resourcelock.LeaderElectionRecord) error {
	r.lastError.Store(&err)
	if err == nil {
		r.lastRenewal.Store(&began)
		r.epoch.Store(holderEpoch(record))
	}
	return err
}

func holderEpoch(record resourcelock.LeaderElectionRecord) int64 {
	return int64(record.LeaderTransitions) + 1
}
