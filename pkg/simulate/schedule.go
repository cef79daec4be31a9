package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// line is the pods of one shape that no node takes, in the order they came.
type line struct {
	shape *shape
	units []*unit
	// refused is a line that all nodes were asked for: those of the Spec were refused by a
	// scheduler that knows more.
	refused bool
}

// schedule binds the pod to the best node that takes it, or lets it wait. Where pods like it wait
// already, only a node that has room since they were refused takes it.
func (c *Cluster) schedule(u *unit) {
	var l *line
	if i := slices.IndexFunc(c.lines, func(l *line) bool { return l.shape == u.shape }); i >= 0 {
		l = c.lines[i]
	}
	if m := c.offer(u.shape, l == nil || !l.refused || c.roomAnywhere, c.roomAt); m != nil {
		c.start(u, m)
		return
	}
	u.waits = c.now
	c.waiting[u.pod.UID] = u
	c.order(u)
	if l == nil {
		l = &line{shape: u.shape}
		c.lines = append(c.lines, l)
	}
	l.units, l.refused = append(l.units, u), true
}

// pick finds the node with the least allocated, and the first name among equals, of those that take
// the shape.
func (c *Cluster) pick(s *shape) *machine {
	c.parse(s)
	best := c.open.first(s)
	if !s.cordon {
		return best
	}
	other := c.cordoned.first(s)
	if best == nil || (other != nil && other.rank.compare(best.rank) < 0) {
		return other
	}
	return best
}

// start binds the pod; it becomes ready in its time.
func (c *Cluster) start(u *unit, m *machine) {
	if u.stranger {
		pod := *u.pod // it is the Spec's
		u.pod = &pod
	}
	u.pod.Spec.NodeName = m.node.Name
	u.pod.Status = corev1.PodStatus{Phase: corev1.PodPending, StartTime: &u.pod.CreationTimestamp}
	c.bind(u, m)
	if wait := c.startTime(u.pod); wait >= 0 && !u.broken {
		c.after(wait, func() { c.ready(u.pod.UID) })
	}
}

func (c *Cluster) startTime(pod *corev1.Pod) time.Duration {
	if c.times.ReadyOf != nil {
		return c.times.ReadyOf(pod)
	}
	return c.times.Ready
}

// roomOn notes that a node may take pods that it did not take before; nil for any node.
func (c *Cluster) roomOn(m *machine) {
	if len(c.lines) == 0 {
		return
	}
	if m == nil {
		c.roomAnywhere = true
	} else if !m.closed && !slices.Contains(c.roomAt, m) {
		c.roomAt = append(c.roomAt, m)
	}
}

// placeWaiting offers the pods that wait to the nodes that have room now. Pods of one shape are
// alike: when one finds no place, the others do not either. What pods that look at others may find
// changes with each one placed.
func (c *Cluster) placeWaiting() {
	for c.roomAnywhere || len(c.roomAt) > 0 {
		anywhere, at := c.roomAnywhere, c.roomAt
		c.roomAnywhere, c.roomAt = false, nil
		for _, l := range c.lines {
			c.serve(l, anywhere, at)
		}
		c.lines = slices.DeleteFunc(c.lines, func(l *line) bool { return len(l.units) == 0 })
	}
}

func (c *Cluster) serve(l *line, anywhere bool, at []*machine) {
	for len(l.units) > 0 {
		u := l.units[0]
		if _, still := c.waiting[u.pod.UID]; still {
			m := c.offer(l.shape, anywhere, at)
			if m == nil {
				return
			}
			delete(c.waiting, u.pod.UID)
			c.start(u, m)
		}
		l.units = l.units[1:]
	}
}

// offer is pick among the nodes that have changed, where nothing else can have made room.
func (c *Cluster) offer(s *shape, anywhere bool, at []*machine) *machine {
	if anywhere || s.relational() || len(s.guards) > 0 {
		return c.pick(s)
	}
	var best *machine
	for _, m := range at {
		if fit(s, m) == fits && (best == nil || m.rank.compare(best.rank) < 0) {
			best = m
		}
	}
	return best
}

// Unplaced is a pod that waits for a node.
type Unplaced struct {
	Pod types.NamespacedName
	// Owner is its controller, kind and name; empty without one.
	Owner string
	// Since is when it began to wait.
	Since time.Time
	// Reason is why no node takes it, in the scheduler's words.
	Reason string
}
