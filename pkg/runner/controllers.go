package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

const (
	// controllerPatience is how long a workload must lack pods before its controller is read. Nearly all controllers have created
	// the next pod by then.
	controllerPatience = time.Second
	// controllerAge is the maximum age of a controller's answer while its workload lacks pods.
	controllerAge = 5 * time.Second
	// controllersAtOnce is how many controllers are read concurrently.
	controllersAtOnce = 4
)

// ControllerReader reads the controllers of workloads; *cluster.ControllerReader implements it.
type ControllerReader interface {
	ReadController(ctx context.Context, workload drain.Workload) drain.Controller
}

// controllerReads is the state of the reads of controllers.
type controllerReads struct {
	// since is when a step first requested each controller in the current step's Unscaled.
	since    map[drain.Workload]time.Time
	known    map[drain.Workload]drain.Controller
	inFlight map[drain.Workload]bool
}

// dueAt returns when to read the controller: soon after a step first requested it, and again when the answer is too old.
func (c *controllerReads) dueAt(w drain.Workload) time.Time {
	if read, known := c.known[w]; known {
		return read.Read.Add(controllerAge)
	}
	return c.since[w].Add(controllerPatience)
}

// nextTime returns when to read the next controller, at most latest. local converts the times of the reads to latest's clock.
func (c *controllerReads) nextTime(step *upgrade.Step, latest time.Time, local func(time.Time) time.Time) time.Time {
	if len(c.inFlight) >= controllersAtOnce {
		return latest
	}
	for _, w := range step.Unscaled {
		if at := local(c.dueAt(w)); !c.inFlight[w] && at.Before(latest) {
			latest = at
		}
	}
	return latest
}

// keepOnlyUnscaled drops the answers of controllers that are not in the step's Unscaled, because users may scale these
// workloads before the next reading.
func (c *controllerReads) keepOnlyUnscaled(step *upgrade.Step) {
	maps.DeleteFunc(c.known, func(w drain.Workload, _ drain.Controller) bool { return !slices.Contains(step.Unscaled, w) })
	maps.DeleteFunc(c.since, func(w drain.Workload, _ time.Time) bool { return !slices.Contains(step.Unscaled, w) })
}

// readControllers reads the controllers that are due.
func (s *run) readControllers(ctx context.Context, step *upgrade.Step) {
	c, now := &s.controllers, s.now()
	for _, w := range step.Unscaled {
		if _, asked := c.since[w]; !asked {
			c.since[w] = now
		}
	}
	for _, w := range step.Unscaled {
		if len(c.inFlight) >= controllersAtOnce || s.Controllers == nil {
			return
		}
		if c.inFlight[w] || now.Before(c.dueAt(w)) {
			continue
		}
		c.inFlight[w] = true
		go func() {
			ctx, cancel := context.WithTimeout(ctx, requestLimit)
			defer cancel()
			read := s.Controllers.ReadController(ctx, w)
			s.answers <- func() {
				read.Read = now
				delete(c.inFlight, w)
				c.known[w] = read
			}
		}()
	}
}
