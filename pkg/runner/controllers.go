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
	// controllerPatience is how long a workload lacks pods before its controller is read: nearly all controllers
	// have created the next pod by then.
	controllerPatience = time.Second
	// controllerAge is how old the answer of a controller may be while its workload lacks pods.
	controllerAge = 5 * time.Second
	// controllersAtOnce is how many controllers are read at once.
	controllersAtOnce = 4
)

// ControllerReader reads the controllers of workloads; *cluster.ControllerReader implements it.
type ControllerReader interface {
	ReadController(ctx context.Context, workload drain.Workload) drain.Controller
}

// controllerReads are the questions about controllers.
type controllerReads struct {
	// since tells since when the controllers have been asked about that are asked about now.
	since    map[drain.Workload]time.Time
	known    map[drain.Workload]drain.Controller
	inFlight map[drain.Workload]bool
}

// dueAt is when the controller is to be read: soon after it was first asked about, and then when its answer is too old.
func (c *controllerReads) dueAt(w drain.Workload) time.Time {
	if read, known := c.known[w]; known {
		return read.Read.Add(controllerAge)
	}
	return c.since[w].Add(controllerPatience)
}

// nextTime is when a controller is to be read, no later than the time. local converts times of the
// reads to those of latest.
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

// forgetOthers forgets those controllers that the step does not ask about: their workloads may be scaled meanwhile.
func (c *controllerReads) forgetOthers(step *upgrade.Step) {
	maps.DeleteFunc(c.known, func(w drain.Workload, _ drain.Controller) bool { return !slices.Contains(step.Unscaled, w) })
	maps.DeleteFunc(c.since, func(w drain.Workload, _ time.Time) bool { return !slices.Contains(step.Unscaled, w) })
}

// readControllers reads those controllers that are due.
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
