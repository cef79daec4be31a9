package runner

import (
	"context"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// maxClusterRequests and maxCloudRequests are how many requests may be in flight concurrently. More requests would
// only wait for each other in the server.
const (
	maxClusterRequests = 24
	maxCloudRequests   = 8
)

// requestQueue contains the actions for one server, in the order of the decisions.
type requestQueue struct {
	// limit is how many actions may be in flight.
	limit    int
	waiting  []nodegroup.Action
	inFlight int
}

func (l *requestQueue) isEmpty() bool { return len(l.waiting)+l.inFlight == 0 }

func (s *run) queueFor(action nodegroup.Action) *requestQueue {
	if nodegroup.IsCloudAction(action) {
		return &s.cloudQueue
	}
	return &s.clusterQueue
}

// enqueueAction adds an action to its queue. Decisions treat a queued action as in flight.
func (s *run) enqueueAction(action nodegroup.Action) {
	key := action.Key()
	before := s.attempts[key]
	s.attempts[key] = nodegroup.Attempt{Action: action, Begun: s.now(), InFlight: true, Tries: before.Tries + 1}
	l := s.queueFor(action)
	l.waiting = append(l.waiting, action)
}

// sendWaiting sends waiting actions up to the limit, each on its own goroutine. Their results
// arrive as answers. It waits until a goroutine runs before it starts the next, so that requests
// are sent in the order of the decisions. Of goroutines that are started together the last one
// would run first.
func (s *run) sendWaiting(work context.Context) {
	for _, l := range []*requestQueue{&s.clusterQueue, &s.cloudQueue} {
		for ; len(l.waiting) > 0 && l.inFlight < l.limit; l.waiting = l.waiting[1:] {
			l.inFlight++
			running := make(chan struct{})
			go func(action nodegroup.Action) {
				close(running)
				ctx, cancel := context.WithTimeout(work, s.timeoutOfNextRequest())
				defer cancel()
				answer := ClassifyAnswer(s.sendAction(ctx, action))
				s.answers <- func() { s.recordAnswer(action, answer) }
			}(l.waiting[0])
			<-running
		}
	}
}

func (s *run) sendAction(ctx context.Context, action nodegroup.Action) error {
	if err := s.checkLease(); err != nil {
		return err
	}
	if nodegroup.IsCloudAction(action) {
		return s.Cloud.Do(ctx, s.Request.Group, action)
	}
	return s.Writer.Do(ctx, action)
}
