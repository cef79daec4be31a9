package awscloud

import (
	"context"
	"errors"
	"math"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// Drainer fences and drains the Nodes of a node group during an update, as EKS does. Its methods may be called from several
// goroutines. A missing Node is no error.
type Drainer interface {
	// IsReady reports whether the Node is Ready and has the labels.
	IsReady(ctx context.Context, node string, labels map[string]string) (bool, error)
	// Fence keeps new pods off the Node, by a taint or by a cordon, and removes the Node from load balancers.
	Fence(ctx context.Context, node string, taint bool) error
	// Unfence removes the fence.
	Unfence(ctx context.Context, node string) error
	// Drain evicts the pods of the Node and respects their disruption budgets. It fails if pods are left after the limit.
	Drain(ctx context.Context, node string, limit time.Duration) error
	// DeletePods deletes the pods of the Node and ignores their disruption budgets.
	DeletePods(ctx context.Context, node string, limit time.Duration) error
}

// instanceDrainer is the Drainer for a stand-in without Nodes. A Node counts as Ready if its instance is in service, and it has
// the labels of its instance and no pods.
type instanceDrainer struct{ region *region }

func (d instanceDrainer) IsReady(_ context.Context, node string, labels map[string]string) (bool, error) {
	d.region.mu.Lock()
	defer d.region.mu.Unlock()
	for _, i := range d.region.instances {
		if i.node == node {
			return i.state == at.LifecycleStateInService && hasLabels(i.spec.labels, labels), nil
		}
	}
	return false, nil
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

func (instanceDrainer) Fence(context.Context, string, bool) error { return nil }

func (instanceDrainer) Unfence(context.Context, string) error { return nil }

func (instanceDrainer) Drain(context.Context, string, time.Duration) error { return nil }

func (instanceDrainer) DeletePods(context.Context, string, time.Duration) error { return nil }

var errBlocked = errors.New("the drain is blocked by BlockDrains")

// drainWhenAllowed waits until the node's drain is neither postponed nor blocked, and then drains the node. It fails if the
// drain is blocked until the limit.
func (r *region) drainWhenAllowed(ctx context.Context, d Drainer, node string, limit time.Duration) error {
	if _, err := r.waitUntil(ctx, math.MaxInt64, func() bool { return !r.postponedDrains[node] }); err != nil {
		return err
	}
	began := time.Now()
	free := func() bool { return !r.blockedDrains[node] && !r.blockedDrains[""] }
	if ok, err := r.waitUntil(ctx, limit, free); err != nil || !ok {
		return errors.Join(err, errBlocked)
	}
	return d.Drain(ctx, node, max(limit-time.Since(began), time.Second/2))
}

// waitUntil calls condition with the lock after every change, until condition returns true. reached is false if the limit ends
// first.
func (r *region) waitUntil(ctx context.Context, limit time.Duration, condition func() bool) (reached bool, err error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		r.mu.Lock()
		done, changed := condition(), r.changed
		r.mu.Unlock()
		if done {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-changed:
		}
	}
}
