package stage

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// ForTrials makes the stage that many short upgrades share: machines come and go within seconds.
func ForTrials(ctx context.Context, log io.Writer) (*Stage, error) {
	return New(ctx, Options{
		Log: log,
		Cloud: awscloud.Options{
			Boot: 2 * time.Second, NodeReady: 300 * time.Millisecond, Terminate: 500 * time.Millisecond, NodeGoneAfter: 200 * time.Millisecond,
			// For trials that are not about these. A drain may have to wait for longer than the two minutes for which the disruption
			// controller holds a pod to be disrupted that it has not seen go.
			EKS: awscloud.EKSOptions{NodeLimit: time.Minute, DrainLimit: 3 * time.Minute},
		},
		// A few upgrades at once keep two cores busy, and a late heartbeat must not make a node NotReady.
		Cluster: controlplane.Options{NodeMonitorGrace: time.Minute},
	})
}

// Furnish brings up a group, whose nodes' pool has its name, and what runs on it, and returns when all of it runs.
func (s *Stage) Furnish(ctx context.Context, g Group, workloads []Workload) error {
	if err := s.AddGroup(g); err != nil {
		return err
	}
	return s.populate(ctx, g.Name, g.Counts, workloads)
}

// populate brings up what runs on the nodes of a pool, once all of them take pods.
func (s *Stage) populate(ctx context.Context, pool string, counts []int, workloads []Workload) error {
	size := 0
	for _, n := range counts {
		size += n
	}
	if err := s.AwaitNodes(ctx, "pool="+pool, size); err != nil {
		return err
	}
	for _, w := range workloads {
		if err := s.Add(ctx, w); err != nil {
			return err
		}
	}
	return s.Settle(ctx)
}

// PlayAll plays n trials, so many at the same time, and returns their outcomes in order. Each is told as it ends, one at a time. The first
// error ends them all.
func PlayAll[T any](ctx context.Context, n, atOnce int, play func(context.Context, int) (T, error), tell func(*T)) ([]T, error) {
	outcomes := make([]T, n)
	var telling sync.Mutex
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i := range outcomes {
		work.Go(func() (err error) {
			if outcomes[i], err = play(ctx, i); err != nil {
				return err
			}
			telling.Lock()
			defer telling.Unlock()
			tell(&outcomes[i])
			return nil
		})
	}
	return outcomes, work.Wait()
}

// Complaint is the last error that a command wrote.
func Complaint(said string) string {
	last := ""
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(line, "error: "); ok {
			last = strings.TrimSpace(text)
		}
	}
	return last
}
