package awscloud

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// hostAttempts is the maximum number of attempts for a NodeHost call. After the last attempt the error is reported.
const hostAttempts = 5

// nodeEffect is a kind of NodeHost call.
type nodeEffect int

const (
	bootNode nodeEffect = iota
	stopKubelet
	deleteNode
)

func (e nodeEffect) apply(ctx context.Context, h NodeHost, m Machine) error {
	switch e {
	case bootNode:
		return h.Boot(ctx, m)
	case stopKubelet:
		return h.StopKubelet(ctx, m.Name)
	default:
		return h.DeleteNode(ctx, m.Name)
	}
}

// hostQueue makes the calls of the NodeHost one after another, in order and without the region's lock.
type hostQueue struct {
	host  NodeHost
	retry time.Duration // between two attempts
	wake  chan struct{}

	mu    sync.Mutex // guards the fields below
	queue []nodeCall
	errs  []error
}

type nodeCall struct {
	effect  nodeEffect
	machine Machine
}

func newHostQueue(host NodeHost, retry time.Duration) *hostQueue {
	return &hostQueue{host: host, retry: retry, wake: make(chan struct{}, 1)}
}

// enqueue adds calls for a machine to the queue. Without a host it does nothing.
func (q *hostQueue) enqueue(m Machine, effects ...nodeEffect) {
	if q.host == nil || len(effects) == 0 {
		return
	}
	q.mu.Lock()
	for _, e := range effects {
		q.queue = append(q.queue, nodeCall{e, m})
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run makes the queued calls until ctx ends.
func (q *hostQueue) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for call, ok := q.next(); ok; call, ok = q.next() {
			if err := q.callWithRetries(ctx, call); err != nil && ctx.Err() == nil {
				q.mu.Lock()
				q.errs = append(q.errs, fmt.Errorf("instance %s: %w", call.machine.InstanceID, err))
				q.mu.Unlock()
			}
		}
	}
}

func (q *hostQueue) next() (call nodeCall, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nodeCall{}, false
	}
	call = q.queue[0]
	q.queue = q.queue[1:]
	return call, true
}

func (q *hostQueue) callWithRetries(ctx context.Context, call nodeCall) (err error) {
	for range hostAttempts {
		if err = call.effect.apply(ctx, q.host, call.machine); err == nil {
			return nil
		}
		if sleep(ctx, q.retry) != nil {
			return err
		}
	}
	return err
}

func (q *hostQueue) errors() []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.errs)
}

// sleep waits for d. If ctx ends first, it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
