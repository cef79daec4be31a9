package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// diary writes down what the steps of a run show. What one step shows holds until the next.
type diary struct {
	f      Forecast
	began  time.Time
	before int
	last   time.Time
	size   int
	// nodes are all that were started, open those of them that are not at their end.
	nodes   map[string]*page
	open    map[string]*page
	waiting string
	// idle is how long the nodes that are not started have waited since the last start, by what
	// for.
	idle map[string]time.Duration
}

// page is what is known of one node that was started.
type page struct {
	NodeForecast
	held  map[string]time.Duration
	waits string
}

func newDiary(c *Cluster) *diary {
	return &diary{began: c.now, before: c.record.Sizes.Desired, last: c.now, size: c.group.Desired, nodes: map[string]*page{}, open: map[string]*page{}, idle: map[string]time.Duration{}}
}

// write is called for each step before it is done.
func (d *diary) write(w upgrade.World, step upgrade.Step) {
	d.f.Steps++
	d.pass(w.Now)
	d.size = w.Group.Desired
	d.before = step.Record.Sizes.Desired
	d.f.Peak = max(d.f.Peak, d.size)
	d.starts(w.Now, step.Record.Nodes)
	for name, p := range d.open {
		n, known := step.Record.Nodes[name]
		p.waits = ""
		if p.ends(w.Now.Sub(d.began), n, known) {
			delete(d.open, name)
		}
	}
	for _, b := range step.Blocked {
		if p, ok := d.open[b.Node]; ok && p.waits == "" {
			p.waits = obstacle(b)
		}
	}
	d.waiting = waitsFor(step)
}

// pass adds the time since the last step to what held then.
func (d *diary) pass(now time.Time) {
	passed := now.Sub(d.last)
	d.last = now
	d.f.ExtraHours += float64(d.size-d.before) * passed.Hours()
	if passed == 0 {
		return
	}
	d.idle[d.waiting] += passed
	for _, p := range d.open {
		if p.waits != "" {
			p.held[p.waits] += passed
		}
	}
}

// starts opens a page for each node that was started in this step, in order of batch and name.
func (d *diary) starts(now time.Time, nodes map[string]upgrade.NodeRecord) {
	var fresh []string
	for name, n := range nodes {
		if d.nodes[name] == nil && n.Batch > 0 {
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return
	}
	slices.SortFunc(fresh, func(a, b string) int { return cmp.Or(cmp.Compare(nodes[a].Batch, nodes[b].Batch), cmp.Compare(a, b)) })
	for _, name := range fresh {
		p := &page{NodeForecast: NodeForecast{Name: name, Batch: nodes[name].Batch, Start: span(now.Sub(d.began))}, held: maps.Clone(d.idle)}
		d.nodes[name], d.open[name] = p, p
		d.f.Nodes = append(d.f.Nodes, NodeForecast{Name: name})
	}
	clear(d.idle)
}

// ends notes how a started node came to its end, and reports whether it has.
func (p *page) ends(passed time.Duration, n upgrade.NodeRecord, known bool) bool {
	switch {
	case n.State == upgrade.NodeForcing:
		p.Stuck = n.Reason
		return false
	case n.State == upgrade.NodeQuarantined:
		p.Stuck = n.Reason
	case !known || n.State == upgrade.NodeDrained:
		p.End = span(passed)
	default:
		return false
	}
	return true
}

// obstacle names what a pod waits for in the fewest words.
func obstacle(b upgrade.Blocked) string {
	if b.Budget.Name != "" {
		return "PDB " + b.Budget.String()
	}
	return "pod " + b.Pod.String()
}

// waitsFor is what keeps the next node from being started.
func waitsFor(step upgrade.Step) string {
	switch {
	case step.Record.WaitsFor() != "":
		return step.Record.WaitsFor()
	case step.Status.Waiting != "":
		return step.Status.Waiting
	default:
		return "the window"
	}
}

// close sums the pages up.
func (d *diary) close(c *Cluster) {
	d.pass(c.now)
	d.f.Duration = span(c.now.Sub(d.began))
	for i := range d.f.Nodes {
		p := d.nodes[d.f.Nodes[i].Name]
		for _, reason := range slices.Sorted(maps.Keys(p.held)) {
			if p.held[reason] > p.Waits {
				p.WaitsFor, p.Waits = reason, p.held[reason]
			}
		}
		d.f.Nodes[i] = p.NodeForecast
	}
}
