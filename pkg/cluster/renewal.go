package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// RenewalError is why the lease was not renewed when that was tried last, nil when it was.
func (h *Hold) RenewalError() error {
	if err := h.renewed.lastError.Load(); err != nil {
		return *err
	}
	return nil
}

// renewalTracker is the lease as the election writes it, and remembers when it last did. The
// election would take a lease again that another actor took over meanwhile and gave back, and has
// to be kept from it: the upgrade may be over by now.
type renewalTracker struct {
	resourcelock.Interface
	lastRenewal atomic.Pointer[time.Time]
	// lastError is what came of the last try, nil before the first.
	lastError atomic.Pointer[error]
	// epoch is the number of the lease's transitions when it became ours, from 1 on; overtaken is
	// called when it is another.
	epoch     atomic.Int64
	overtaken func()
}

// errOvertaken is the answer to the renewal of a lease that was another actor's meanwhile.
var errOvertaken = errors.New("another holder had the lease meanwhile")

// Get reads the lease. Why that failed counts as why the lease was not renewed; of a lease that another
// actor holds no renewal is tried.
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

// Create makes the lease ours. The time counts from before the request: what others see is no
// earlier.
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
