package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// evictionRecorder records the pods in the order in which it is asked to evict them.
type evictionRecorder struct {
	sync.Mutex
	pods []string
}

func (l *evictionRecorder) Do(_ context.Context, action nodegroup.Action) error {
	l.Lock()
	defer l.Unlock()
	l.pods = append(l.pods, action.(schedule.Eviction).Pod)
	return nil
}

// TestRequestsAreSentInDecidedOrder checks that the API server gets the most urgent eviction first, in the
// order of the decisions. A goroutine that is preempted while it sends may be overtaken, so only
// one of several bursts must be in order.
func TestRequestsAreSentInDecidedOrder(t *testing.T) {
	var sent []string
	for range 20 {
		var decided []string
		log := &evictionRecorder{}
		s := &run{
			Runner: &Runner{Writer: log, Expires: func() time.Time { return time.Now().Add(time.Hour) }}, attempts: map[string]nodegroup.Attempt{},
			answers: make(chan func(), maxClusterRequests), clusterQueue: requestQueue{limit: maxClusterRequests},
		}
		for i := range maxClusterRequests {
			pod := fmt.Sprint("pod-", i)
			decided = append(decided, pod)
			s.enqueueAction(schedule.Eviction{Namespace: "default", Pod: pod, UID: types.UID(pod)})
		}
		s.sendWaiting(t.Context())
		for range maxClusterRequests {
			<-s.answers
		}
		if sent = log.pods; slices.Equal(sent, decided) {
			return
		}
	}
	t.Errorf("evictions went out as %v, want them in the order of their numbers", sent)
}
