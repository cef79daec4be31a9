package runner

import (
	"context"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// toCluster and toCloud are how many requests may be in flight at once. More would only wait for
// each other in the server.
const (
	toCluster = 24
	toCloud   = 8
)

// lane holds the actions that go to one server, in the order in which they were decided.
type lane struct {
	// room is how many may be in flight.
	room    int
	waiting []nodegroup.Action
	flying  int
}

func (l *lane) idle() bool { return len(l.waiting)+l.flying == 0 }

func (s *run) lane(action nodegroup.Action) *lane {
	if nodegroup.OfCloud(action) {
		return &s.cloud
	}
	return &s.cluster
}

// begin puts an action into its lane: from now on it is in flight for those who decide.
func (s *run) begin(action nodegroup.Action) {
	key := action.Key()
	before := s.open[key]
	s.open[key] = nodegroup.Attempt{Action: action, Begun: time.Now().Round(0), InFlight: true, Tries: before.Tries + 1}
	l := s.lane(action)
	l.waiting = append(l.waiting, action)
}

// send starts what waits, as far as there is room, each on its own goroutine; its end arrives as a
// result. One is running before the next is started, so that they go out in the order in which they
// were decided: of goroutines started together the last would run first.
func (s *run) send(work context.Context) {
	for _, l := range []*lane{&s.cluster, &s.cloud} {
		for ; len(l.waiting) > 0 && l.flying < l.room; l.waiting = l.waiting[1:] {
			l.flying++
			running := make(chan struct{})
			go func(action nodegroup.Action) {
				close(running)
				ctx, cancel := context.WithTimeout(work, s.limit())
				defer cancel()
				s.deliver(work, result{action: action, answer: Sort(s.do(ctx, action))})
			}(l.waiting[0])
			<-running
		}
	}
}

// deliver hands a result to the loop, if there still is one.
func (s *run) deliver(work context.Context, r result) {
	select {
	case s.results <- r:
	case <-work.Done():
	}
}

func (s *run) do(ctx context.Context, action nodegroup.Action) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	if nodegroup.OfCloud(action) {
		return s.Cloud.Do(ctx, s.Request.Group, action)
	}
	return s.Writer.Do(ctx, action)
}
