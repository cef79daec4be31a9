package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// recorder builds a Forecast from the steps of a run. What one step shows is assumed to hold until the next.
type recorder struct {
	forecast Forecast
	began    time.Time
	// last is the time of the last step, size the group's size then. before is the original size.
	last         time.Time
	size, before int
	// nodes are all nodes that were started. open are the started nodes that have not ended.
	nodes   map[string]*nodeRecord
	open    map[string]*nodeRecord
	waiting string
	ending  Ending
	// idle is how long the nodes that are not started have waited since the last start, by what they waited for.
	idle map[string]time.Duration
}

// nodeRecord is the data about one node that was started.
type nodeRecord struct {
	NodeForecast
	held map[string]time.Duration
	// waits is what its pods wait for now, "" for nothing. waited is what they last waited for.
	waits, waited string
}

func newRecorder(now time.Time, before, size int) *recorder {
	return &recorder{
		began: now, before: before, last: now, size: size,
		nodes: map[string]*nodeRecord{}, open: map[string]*nodeRecord{}, idle: map[string]time.Duration{},
	}
}

// recordStep must be called for each step before it is executed.
func (r *recorder) recordStep(w upgrade.World, step upgrade.Step) {
	r.forecast.Steps++
	r.addElapsedTime(w.Now)
	r.size = w.Group.Desired
	r.before = step.Record.Sizes.Desired
	r.forecast.Peak = max(r.forecast.Peak, r.size)
	r.recordStarts(w.Now, step.Record.Nodes)
	for name, n := range r.open {
		n.waits = ""
		if record, known := step.Record.Nodes[name]; n.recordNodeEnd(w.Now.Sub(r.began), record, known) {
			delete(r.open, name)
		}
	}
	for _, b := range step.Blocked {
		if n, ok := r.open[b.Node]; ok && n.waits == "" {
			n.waits = shortObstacleName(b)
			n.waited = n.waits
		}
	}
	r.waiting = describeStartDelay(step)
	r.recordFailure(&step.Record)
}

// recordFailure records why an upgrade fails when it begins to stop.
func (r *recorder) recordFailure(rec *record.Record) {
	if r.ending.Why != "" || rec.Stopping == "" {
		return
	}
	r.ending.Why = rec.Message
	if rec.Stopping != record.PodEvictionFailure {
		return
	}
	for name, n := range rec.Nodes {
		open := r.open[name]
		why, named := strings.CutPrefix(rec.Message, fmt.Sprintf("draining node %q: ", name))
		if open == nil || !named || n.State != record.NodeDraining {
			continue
		}
		open.Stuck, open.Blocker = why, open.blocker()
		r.ending.Node, r.ending.Blocker = name, open.Blocker
	}
}

// blocker returns what kept the node from being drained in time.
func (n *nodeRecord) blocker() string {
	return cmp.Or(n.waits, n.waited, "pods that do not end in time")
}

// recordEnding records how the upgrade ended.
func (r *recorder) recordEnding(result record.Result, notReached int) {
	r.ending.Result, r.ending.After, r.ending.NotReached = result, r.forecast.Duration.Latest, notReached
	if !r.ending.Fails() {
		r.ending.Why = ""
	}
	r.forecast.Fast, r.forecast.Slow = r.ending, r.ending
}

// addElapsedTime adds the time since the last step to the waits and the group size that this step showed.
func (r *recorder) addElapsedTime(now time.Time) {
	passed := now.Sub(r.last)
	r.last = now
	r.forecast.ExtraHours += float64(r.size-r.before) * passed.Hours()
	if passed == 0 {
		return
	}
	r.idle[r.waiting] += passed
	for _, n := range r.open {
		if n.waits != "" {
			n.held[n.waits] += passed
		}
	}
}

// recordGroupSize records a change of the group's size after the last step.
func (r *recorder) recordGroupSize(now time.Time, size int) {
	r.addElapsedTime(now)
	r.size = size
}

// recordStarts adds a record for each node that was started in this step, in order of batch and name.
func (r *recorder) recordStarts(now time.Time, nodes map[string]record.NodeRecord) {
	var fresh []string
	for name, n := range nodes {
		if r.nodes[name] == nil && n.Batch > 0 {
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return
	}
	slices.SortFunc(fresh, func(a, b string) int { return cmp.Or(cmp.Compare(nodes[a].Batch, nodes[b].Batch), cmp.Compare(a, b)) })
	for _, name := range fresh {
		n := &nodeRecord{NodeForecast: NodeForecast{Name: name, Batch: nodes[name].Batch, Start: newSpan(now.Sub(r.began))}, held: maps.Clone(r.idle)}
		r.nodes[name], r.open[name] = n, n
		r.forecast.Nodes = append(r.forecast.Nodes, NodeForecast{Name: name})
	}
	clear(r.idle)
}

// recordNodeEnd records the end of a started node, and reports whether the node has ended.
func (n *nodeRecord) recordNodeEnd(passed time.Duration, rec record.NodeRecord, known bool) (ended bool) {
	switch {
	case rec.State == record.NodeQuarantined:
		n.Stuck, n.Blocker = rec.Reason, n.blocker()
	case !known || rec.State == record.NodeDrained:
		n.End = newSpan(passed)
	default:
		return false
	}
	return true
}

// shortObstacleName returns a short name of what a pod waits for.
func shortObstacleName(b drain.Blocked) string {
	return cmp.Or(b.BudgetName(), "pod "+b.Pod.String())
}

// describeStartDelay returns what delays the start of the next node.
func describeStartDelay(step upgrade.Step) string {
	switch {
	case upgrade.WaitsFor(&step.Record) != "":
		return upgrade.WaitsFor(&step.Record)
	case step.Status.Waiting != "":
		cause, _, _ := strings.Cut(step.Status.Waiting, "; ") // the rest changes over time
		return cause
	default:
		return "earlier nodes"
	}
}

// finishForecast completes the forecast from the records.
func (r *recorder) finishForecast(now time.Time) {
	r.addElapsedTime(now)
	r.forecast.Duration = newSpan(now.Sub(r.began))
	for i := range r.forecast.Nodes {
		n := r.nodes[r.forecast.Nodes[i].Name]
		for _, reason := range slices.Sorted(maps.Keys(n.held)) {
			if n.held[reason] > n.Waits {
				n.WaitsFor, n.Waits = reason, n.held[reason]
			}
		}
		r.forecast.Nodes[i] = n.NodeForecast
	}
}
