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
}

// schedule binds the pod to the best node that takes it, or lets it wait.
func (c *Cluster) schedule(u *unit) {
	if m := c.pick(u.shape); m != nil {
		c.start(u, m)
		return
	}
	u.waits = c.now
	c.waiting[u.pod.UID] = u
	for _, l := range c.lines {
		if l.shape == u.shape {
			l.units = append(l.units, u)
			return
		}
	}
	c.lines = append(c.lines, &line{shape: u.shape, units: []*unit{u}})
}

// pick finds the node with the least allocated, and the first name among equals, of those that take the shape.
func (c *Cluster) pick(s *shape) *machine {
	c.parse(s)
	c.relate(s)
	skews := c.skews(s)
	takes := func(m *machine) bool { return c.fit(s, m, skews) == fits }
	best := first(c.open, takes)
	if !s.cordon {
		return best
	}
	other := first(c.cordoned, takes)
	if best == nil || (other != nil && other.rank.compare(best.rank) < 0) {
		return other
	}
	return best
}

func first(machines []*machine, takes func(*machine) bool) *machine {
	if i := slices.IndexFunc(machines, takes); i >= 0 {
		return machines[i]
	}
	return nil
}

// start binds the pod; it becomes ready in its time.
func (c *Cluster) start(u *unit, m *machine) {
	pod := *u.pod
	pod.Spec.NodeName = m.node.Name
	started := corev1.PodStatus{Phase: corev1.PodPending, StartTime: &pod.CreationTimestamp}
	pod.Status = started
	u.pod = &pod
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

// placeWaiting offers the pods that wait to the nodes that have room now. Pods of one shape are alike: when one finds no
// place, the others do not either. What pods that look at others may find changes with each one placed.
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
		if c.fit(s, m, nil) == fits && (best == nil || m.rank.compare(best.rank) < 0) {
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
