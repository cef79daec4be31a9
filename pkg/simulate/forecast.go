package simulate

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Forecast is the predicted course of an upgrade.
type Forecast struct {
	// Nodes are the outdated nodes in the order they would be started.
	Nodes []NodeForecast
	// Peak is the largest desired size of the group. SizeAfter is the size at the end if pods end as soon as
	// possible.
	Peak, SizeAfter int
	// Fast is how the upgrade ends if pods end as soon as possible and faulty pods recover. Slow is how it
	// ends if pods use their whole grace period and faulty pods stay faulty. If Draws is set, Slow is the
	// worst of the drawn node orders.
	Fast, Slow Ending
	// Duration is the time from now to the end; zero if Endless is set.
	Duration Span
	// Refilled is true if users are assumed to replace each drained node at once.
	Refilled bool
	// Endless is what the upgrade would wait for without an end, for example something that only a user does. It is
	// "" if the upgrade ends.
	Endless string
	// ExtraHours is how many more instance-hours are paid than with the original size. It is negative if the group is
	// smaller during the upgrade.
	ExtraHours float64
	// Evictions counts the pods that would be evicted. Steps counts the calls of upgrade.Next for the forecast.
	Evictions, Steps int
	// Forced counts the pods that would be deleted although their budgets do not allow it. Deletions lists the
	// workloads of all pods that would be deleted, in order of time. Outage is the total time during which workloads
	// that have a ready pod now would have none.
	Forced    int
	Deletions []Deletion
	Outage    time.Duration
	Room      Room
	// Unplaced are the pods that would have no node at the end, or when the upgrade would stop because of them. They
	// are sorted by name. Pods that are already pending are left out.
	Unplaced []Unplaced
	// Unrecovered are the workloads whose pods left nodes and that have fewer ready pods for good, although the upgrade
	// succeeds: it did not wait for them. They are sorted by name.
	Unrecovered []Unrecovered
}

// Ending is how an upgrade ends.
type Ending struct {
	// Result is "" if the result is not known.
	Result record.Result `json:"result,omitempty"`
	// After is the time from now to the end; zero if it is not known.
	After record.Duration `json:"after,omitzero"`
	// Why is why the upgrade fails; "" if it does not. If a drain timeout is the cause, Node is the node that was not
	// drained in time, and Blocker is what blocked its drain.
	Why     string `json:"why,omitempty"`
	Node    string `json:"node,omitempty"`
	Blocker string `json:"blocker,omitempty"`
	// NotReached counts the outdated nodes whose drain has not begun at the end.
	NotReached int `json:"notReached,omitempty"`
}

// Deletion counts the pods of a workload that are deleted instead of evicted.
type Deletion struct {
	// Workload is NAMESPACE/KIND/NAME. Without a controller, it names the pod.
	Workload string `json:"workload"`
	// Pods counts all deleted pods. PastBudget counts those whose budgets would not have allowed an eviction.
	Pods       int `json:"pods"`
	PastBudget int `json:"pastBudget,omitempty"`
	// After is the time from now to the first deletion.
	After record.Duration `json:"after"`
}

// Span is a time from now that depends on how long pods take to end.
type Span struct {
	// Earliest is the time if pods end as soon as they are signaled. Latest is the time if they use their whole grace
	// period.
	Earliest record.Duration `json:"earliest"`
	Latest   record.Duration `json:"latest"`
}

// NodeForecast is the forecast for one node.
type NodeForecast struct {
	Name  string
	Batch int
	// Start is when the drain begins. End is when the node is gone or, without a cloud, drained. End is zero for a
	// node that is quarantined.
	Start, End Span
	// WaitsFor is what delays the node longest: before its start, or through its pods after the start. It is empty if
	// nothing does. Waits is the length of that delay.
	WaitsFor string
	Waits    time.Duration
	// Stuck is what would keep the node from being drained in time; "" if nothing would. Such a node is quarantined,
	// or the upgrade fails. Blocker is a short name of the cause.
	Stuck, Blocker string
}

// Amount is an amount of resources that pods request or nodes have.
type Amount struct {
	// CPU is in cores and Memory in bytes, both as Kubernetes quantities. Pods counts pods.
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	Pods   int               `json:"pods"`
}

// Room compares the pods that must move with the nodes that may take them.
type Room struct {
	// Moves is what the pods that must leave the outdated nodes request.
	Moves Amount `json:"moves"`
	// Nodes is how many nodes take any of these pods once all outdated nodes are fenced. Free is what is free on
	// these nodes. Nodes that do not report their resources are left out.
	Nodes int    `json:"nodes"`
	Free  Amount `json:"free"`
	// Added is the capacity of the surge nodes.
	Added Amount `json:"added"`
}

// maxParallelRuns limits how many runs of a forecast are made at the same time, because each needs a copy of the cluster.
const maxParallelRuns = 4

// Predict runs the upgrade in a copy of the cluster in which pods end as soon as possible. If the Spec's Times have a
// GoneLatest, it also makes a run in which pods take that long and faults last. It repeats each run for every drawn
// order. If the upgrade would fail, the forecast ends there, and Nodes lacks the nodes that were not started. In a
// group without a cloud and without current nodes, each drained node is assumed to be replaced at once. Predict
// returns an error if the upgrade would act without an end, or when the context ends.
func Predict(ctx context.Context, spec Spec, req record.Request) (Forecast, error) {
	spec, req = AssumeReplacements(spec, req)
	runs := listRunsToPredict(spec)
	if spec.Times.GoneLatest != nil {
		spec.Times.Gone, spec.FaultsLast = spec.Times.GoneLatest, true
		runs = append(runs, listRunsToPredict(spec)...)
	}
	var work errgroup.Group
	work.SetLimit(min(maxParallelRuns, runtime.GOMAXPROCS(0)))
	for i := range runs {
		if i > 0 {
			runs[i].spec.Watch = nil
		}
		work.Go(func() error {
			runs[i].forecast, runs[i].err = predictOnce(ctx, runs[i].spec, req, runs[i].drawn)
			return runs[i].err
		})
	}
	if err := work.Wait(); err != nil {
		failed := slices.IndexFunc(runs, func(r predictedRun) bool { return r.err != nil })
		return runs[failed].forecast, runs[failed].err // the same error each time, whichever run failed first
	}
	f := runs[0].forecast
	for i := range runs[1:] {
		f.mergeRun(&runs[1+i].forecast)
	}
	return f, nil
}

// AssumeReplacements returns the spec and the request with a forecast's assumptions about groups whose nodes users
// replace. If the group has no current node yet, users replace each drained node at once. Otherwise, the upgrade
// waits for no replacement.
func AssumeReplacements(spec Spec, req record.Request) (Spec, record.Request) {
	spec.Refilled = req.WaitReplacement && len(req.Current) > 0 && spec.hasNoCurrentNodes()
	if spec.Record.Run != "" { // a running upgrade keeps its own settings
		spec.Record.Request = requestOfForecast(spec.Record.Request, spec.Refilled)
	}
	return spec, requestOfForecast(req, spec.Refilled)
}

// requestOfForecast returns the request for a forecast. If users add no nodes, the upgrade waits for no replacement.
func requestOfForecast(req record.Request, refilled bool) record.Request {
	req.WaitReplacement = req.WaitReplacement && refilled
	req.Run = cmp.Or(req.Run, "forecast") // a run gets its name when it begins
	return req
}

// hasNoCurrentNodes reports whether users must still add the first current node to the group. If some current nodes exist,
// users are assumed to have added all. If no labels identify current nodes, users cannot add any.
func (s *Spec) hasNoCurrentNodes() bool {
	return s.Record.Run == "" && s.Group.Can.Refill == nodegroup.RefillByUser && !slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return !s.Outdated(n) })
}

// predictedRun is one run of the upgrade in a copy of the cluster.
type predictedRun struct {
	spec Spec
	// drawn is the number of the drawn node order; 0 is the order that loses the least time.
	drawn    uint64
	forecast Forecast
	err      error
}

// listRunsToPredict returns the runs that predictOnce must simulate: one in the order that loses the least time, and one
// for each drawn order.
func listRunsToPredict(spec Spec) []predictedRun {
	runs := make([]predictedRun, spec.Draws+1)
	for i := range runs {
		runs[i] = predictedRun{spec: spec, drawn: uint64(i)}
	}
	return runs
}

func predictOnce(ctx context.Context, spec Spec, req record.Request, drawn uint64) (Forecast, error) {
	c := New(spec)
	c.drawn, c.brief = drawn, spec.Watch == nil
	r := newRecorder(c.clock.now, c.record.Sizes.Desired, c.group.Desired)
	r.forecast.Room = c.measureRoom(req)
	if spec.Rolling != nil {
		return c.predictRolling(ctx, spec.Rolling, req, r)
	}
	c.cloud.cloudSurge = c.countCloudSurge(req)
	size := cmp.Or(c.record.Sizes.Desired, c.group.Desired)
	var before []Unplaced // taken when the upgrade begins to stop, because the nodes that it then uncordons take some of the pods
	stopping := false
	rec, err := c.Run(ctx, req, func(w upgrade.World, step upgrade.Step) {
		r.recordStep(w, step)
		if spec.Watch != nil {
			spec.Watch(w, step)
		}
		if step.Record.Stopping != "" && !stopping {
			stopping, before = true, c.Unplaced()
		}
	})
	endless, isEndless := errors.AsType[*EndlessError](err)
	if isEndless {
		err = nil
	}
	for err == nil && rec.Result == record.Succeeded && c.removeSurplusNode(req, size) {
		r.recordGroupSize(c.clock.now, c.group.Desired)
	}
	r.finishForecast(c.clock.now)
	r.forecast.SizeAfter, r.forecast.Refilled = c.group.Desired, spec.Refilled
	r.forecast.Unplaced = mergeUnplaced(c.Unplaced(), before)
	c.finishCounts(r)
	r.recordEnding(rec.Result, c.countNotReached(r.nodes))
	if err == nil && !isEndless && !r.forecast.Fast.Fails() {
		r.forecast.Unrecovered = c.findUnrecovered()
	}
	if isEndless {
		r.markEndless(endless)
	}
	return r.forecast, err
}

// markEndless records that the upgrade waits without end.
func (r *recorder) markEndless(endless *EndlessError) {
	r.forecast.Endless = cmp.Or(endless.Waiting, "an event that never comes")
	r.forecast.Duration, r.forecast.ExtraHours = Span{}, 0
	r.forecast.Fast, r.forecast.Slow = Ending{}, Ending{}
}

// finishCounts adds to the forecast which pods were evicted and deleted, and for how long workloads had no ready pod.
func (c *Cluster) finishCounts(r *recorder) {
	r.forecast.Evictions, r.forecast.Deletions, r.forecast.Outage = c.evicted, c.listDeletions(), c.pods.outages.sum()
	for _, d := range r.forecast.Deletions {
		r.forecast.Forced += d.PastBudget
	}
}

// countNotReached counts the outdated nodes that were not started.
func (c *Cluster) countNotReached(started map[string]*nodeRecord) (n int) {
	for i := range c.group.roster {
		if m := &c.group.roster[i]; m.Outdated && started[m.Name()] == nil {
			n++
		}
	}
	return n
}

// mergeUnplaced adds the pods of the second list that are not in the first, by name.
func mergeUnplaced(all, more []Unplaced) []Unplaced {
	for _, u := range more {
		if !slices.ContainsFunc(all, func(known Unplaced) bool { return known.Pod == u.Pod }) {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Unplaced) int { return strings.Compare(a.Pod.String(), b.Pod.String()) })
	return all
}

// mergeRun merges another run into the forecast. Spans are widened to cover both, and most other values become
// the more pessimistic of the two.
func (f *Forecast) mergeRun(late *Forecast) {
	f.Duration, f.Endless = f.Duration.union(late.Duration), cmp.Or(f.Endless, late.Endless)
	if f.Endless != "" {
		f.Duration = Span{}
	}
	f.Steps += late.Steps
	if late.Forced > f.Forced || (late.Forced == f.Forced && len(late.Deletions) > len(f.Deletions)) {
		f.Forced, f.Deletions = late.Forced, late.Deletions
	}
	f.Outage, f.Peak, f.ExtraHours = max(f.Outage, late.Outage), max(f.Peak, late.Peak), max(f.ExtraHours, late.ExtraHours)
	if !late.Slow.endsBetterThan(&f.Slow) {
		f.Slow = late.Slow
	}
	if f.Endless != "" {
		f.Fast, f.Slow = Ending{}, Ending{}
	}
	if len(late.Unplaced) > len(f.Unplaced) {
		f.Unplaced = late.Unplaced
	}
	f.Unrecovered = mergeUnrecovered(f.Unrecovered, late.Unrecovered)
	byName := make(map[string]*NodeForecast, len(late.Nodes))
	for i := range late.Nodes {
		byName[late.Nodes[i].Name] = &late.Nodes[i]
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		other, ok := byName[n.Name]
		if !ok {
			continue
		}
		n.Start, n.End = n.Start.union(other.Start), n.End.unionIfBoth(other.End)
		n.WaitsFor, n.Waits = other.WaitsFor, other.Waits
		if n.Stuck == "" {
			n.Stuck, n.Blocker = other.Stuck, other.Blocker
		}
		delete(byName, n.Name)
	}
	for i := range late.Nodes {
		if n := &late.Nodes[i]; byName[n.Name] != nil { // the faster run failed before it started this node
			f.Nodes = append(f.Nodes, *n)
		}
	}
}

// endsBetterThan reports whether an ending is better than another: it reaches its goal, or reaches more nodes before
// it fails, or ends earlier.
func (e *Ending) endsBetterThan(o *Ending) bool {
	rank := func(e *Ending) int {
		switch {
		case e.Fails():
			return 2
		case e.Result == record.LeftBehind:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(e), rank(o)), cmp.Compare(e.NotReached, o.NotReached), cmp.Compare(e.After.Duration, o.After.Duration)) < 0
}

// Fails reports whether the upgrade ends before its goal.
func (e *Ending) Fails() bool { return e.IsIncomplete() && e.Result != record.LeftBehind }

// IsIncomplete reports whether the upgrade ends with fewer nodes replaced than requested.
func (e *Ending) IsIncomplete() bool { return e.Result != "" && e.Result != record.Succeeded }

func (s Span) union(o Span) Span {
	if o.Earliest.Duration < s.Earliest.Duration {
		s.Earliest = o.Earliest // the order of nodes may depend on the times
	}
	if o.Latest.Duration > s.Latest.Duration {
		s.Latest = o.Latest
	}
	return s
}

// unionIfBoth returns the span of an event that happens in both runs, or zero if it does not happen in one of them.
func (s Span) unionIfBoth(o Span) Span {
	if s == (Span{}) || o == (Span{}) {
		return Span{}
	}
	return s.union(o)
}

func newSpan(d time.Duration) Span {
	return Span{record.Duration{Duration: d}, record.Duration{Duration: d}}
}

func (a amount) toQuantities(pods int) Amount {
	return Amount{CPU: *resource.NewMilliQuantity(a.cpu, resource.DecimalSI), Memory: *resource.NewQuantity(a.memory, resource.BinarySI), Pods: pods}
}

// measureRoom compares what the pods that must move request with what is free for them.
func (c *Cluster) measureRoom(req record.Request) Room {
	keys := map[*schedulingKey]bool{}
	var moves amount
	pods := 0
	for i := range c.group.roster {
		if !c.group.roster[i].Outdated {
			continue
		}
		for _, pod := range c.group.roster[i].Pods {
			if drain.Judge(pod, req.Policy(), false).Fate == drain.Go {
				k := c.index.bound[pod.UID].key
				keys[k] = true
				moves = moves.plus(k.requests())
				pods++
			}
		}
	}
	room := c.measureFree(keys)
	room.Moves = moves.toQuantities(pods)
	if c.group.Can.Resize {
		n := int64(req.Surge)
		of := c.cloud.model.allocatable
		room.Added = amount{fit.MilliCPU(of.Cpu()), fit.Bytes(of.Memory())}.times(n).toQuantities(int(n * of.Pods().Value()))
	}
	return room
}

// measureFree sums the free resources of all nodes on which the scheduler could place a pod with one of the keys.
func (c *Cluster) measureFree(keys map[*schedulingKey]bool) Room {
	var free amount
	var room Room
	pods := int64(0)
	for _, n := range c.index.nodes.sorted {
		has, used := &n.room.Allocatable, &n.room.Used
		if n.closed || n.node.Spec.Unschedulable || n.room.MaxPods == fit.Unlimited || c.group.isOutdated(n) || !canRunAny(n, keys) {
			continue
		}
		room.Nodes++
		free = free.plus(amount{subtractUsed(has.CPU, used.CPU), subtractUsed(has.Memory, used.Memory)})
		pods += subtractUsed(n.room.MaxPods, n.room.Pods)
	}
	room.Free = free.toQuantities(int(pods))
	return room
}

// subtractUsed returns has minus used, or 0 if the node does not report the resource.
func subtractUsed(has, used int64) int64 {
	if has == fit.Unlimited {
		return 0
	}
	return max(0, has-used)
}

func canRunAny(n *simNode, keys map[*schedulingKey]bool) bool {
	for k := range keys {
		if fit.FitsEmpty(&k.needs, &n.room) {
			return true
		}
	}
	return false
}
