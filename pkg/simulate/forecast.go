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

// Forecast is what an upgrade would do, seen in virtual time.
type Forecast struct {
	// Nodes are the outdated nodes in the order they would be started.
	Nodes []NodeForecast
	// Peak is the largest desired size of the group, SizeAfter the one at the end if pods end as soon
	// as they may.
	Peak, SizeAfter int
	// Fast is how the upgrade ends if pods end as soon as possible and faulty pods recover. Slow is how it
	// ends if pods use their whole grace period and faulty pods stay faulty. If Draws is set, Slow is the
	// worst of the drawn node orders.
	Fast, Slow Ending
	// Duration is from now to the end; zero where Endless is set.
	Duration Span
	// Refilled tells that each drained node was taken to be replaced by a user at once.
	Refilled bool
	// Endless is what the upgrade would wait for without an end, as something that only a user
	// does; "" where it ends.
	Endless string
	// ExtraHours is how many instance-hours are paid beyond those of the size before; negative when
	// the group is smaller meanwhile.
	ExtraHours float64
	// Evictions counts the pods that would be evicted, Steps how often upgrade.Next was asked to
	// find that out.
	Evictions, Steps int
	// Forced counts the pods that would be deleted past their budgets, and Deletions lists the workloads
	// of all that would be deleted, in order of time. Outage is for how long workloads would be without a
	// ready pod that have one, added up.
	Forced    int
	Deletions []Deletion
	Outage    time.Duration
	Room      Room
	// Unplaced are the pods that would be left without a node, by name: at the end, or when the upgrade
	// would stop because of them. Those that wait for one already are left out.
	Unplaced []Unplaced
}

// Ending is how an upgrade ends.
type Ending struct {
	// Result is "" where the end is not known.
	Result record.Result `json:"result,omitempty"`
	// After is the time from now until then; zero where the end is not known.
	After record.Duration `json:"after,omitzero"`
	// Why says what it fails for, "" where it does not. Node is the node that could not be drained in its
	// time, and Blocker what kept it, where it fails for that.
	Why     string `json:"why,omitempty"`
	Node    string `json:"node,omitempty"`
	Blocker string `json:"blocker,omitempty"`
	// NotReached counts the outdated nodes whose drain has not begun by then.
	NotReached int `json:"notReached,omitempty"`
}

// Deletion is the pods of a workload that are deleted, not evicted.
type Deletion struct {
	// Workload is NAMESPACE/KIND/NAME, of the pod where it has no controller.
	Workload string `json:"workload"`
	// Pods counts all of them, and PastBudget those whose budgets would not have let them be evicted.
	Pods       int `json:"pods"`
	PastBudget int `json:"pastBudget,omitempty"`
	// After is the time from now to the first.
	After record.Duration `json:"after"`
}

// Span is a time from now that depends on how long pods take to end: as soon as they are told to,
// or not before their grace period is over.
type Span struct {
	// Earliest is the time if pods end as soon as they are told to, Latest the time if they use all of their grace period.
	Earliest record.Duration `json:"earliest"`
	Latest   record.Duration `json:"latest"`
}

// NodeForecast is one node's part.
type NodeForecast struct {
	Name  string
	Batch int
	// Start is when its drain begins, End when it is gone or, without a cloud, drained; zero for
	// one that is set aside.
	Start, End Span
	// WaitsFor is what holds it longest: before its start while it is next, and then what its pods
	// wait for; empty when nothing does. Waits is how long.
	WaitsFor string
	Waits    time.Duration
	// Stuck says what would keep the node from being drained in its time, so that it is set aside or the
	// upgrade fails; "" when nothing would. Blocker names that in the fewest words.
	Stuck, Blocker string
}

// Amount is what pods ask for or nodes have.
type Amount struct {
	// CPU is in cores and Memory in bytes, both as Kubernetes writes quantities; Pods counts pods.
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	Pods   int               `json:"pods"`
}

// Room compares what must move with where it may go.
type Room struct {
	// Moves is what the pods that must leave the outdated nodes ask for.
	Moves Amount `json:"moves"`
	// Nodes is how many nodes take any of these pods once all outdated ones are fenced, and Free
	// what is left on them. Nodes that do not tell what they have are left out.
	Nodes int    `json:"nodes"`
	Free  Amount `json:"free"`
	// Added is what the surge adds.
	Added Amount `json:"added"`
}

// runsAtOnce is how many runs of a forecast are made at the same time: each holds a copy of the
// cluster.
const runsAtOnce = 4

// Predict runs the upgrade in a copy of the cluster: once with pods that end as soon as they may
// and, if the Spec's Times tell the two apart, once with pods that take as long as they may, and with
// faults that last; each once more for every order that is drawn. If the upgrade would fail, the forecast ends there, and Nodes
// lacks the nodes that were not started by then. Of a group without a cloud and without a current node,
// each drained node is taken to be replaced at once. Predict returns an error if the upgrade would act without
// an end, or when the context ends.
func Predict(ctx context.Context, spec Spec, req record.Request) (Forecast, error) {
	spec, req = AssumeReplacements(spec, req)
	runs := drawOrders(spec)
	if spec.Times.GoneLatest != nil {
		spec.Times.Gone, spec.FaultsLast = spec.Times.GoneLatest, true
		runs = append(runs, drawOrders(spec)...)
	}
	var work errgroup.Group
	work.SetLimit(min(runsAtOnce, runtime.GOMAXPROCS(0)))
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
		return runs[failed].forecast, runs[failed].err // the same each time, whichever failed first
	}
	f := runs[0].forecast
	for i := range runs[1:] {
		f.widenToLatest(&runs[1+i].forecast)
	}
	return f, nil
}

// AssumeReplacements returns the spec and the request with what a forecast assumes of groups whose nodes users replace. If the group has
// no current node yet, users replace each drained node at once. Otherwise the upgrade waits for no replacement.
func AssumeReplacements(spec Spec, req record.Request) (Spec, record.Request) {
	spec.Refilled = req.WaitReplacement && len(req.Current) > 0 && spec.isAllOutdated()
	if spec.Record.Run != "" { // its own settings stand
		spec.Record.Request = predictable(spec.Record.Request, spec.Refilled)
	}
	return spec, predictable(req, spec.Refilled)
}

// predictable is the request as a forecast carries it out. Where users bring no nodes, none is waited for.
func predictable(req record.Request, refilled bool) record.Request {
	req.WaitReplacement = req.WaitReplacement && refilled
	req.Run = cmp.Or(req.Run, "forecast") // the run gets its name when it begins
	return req
}

// isAllOutdated reports whether users are still to bring all of the group's current nodes. Where some are
// there, they are taken for all that there will be, and where no labels say which are, none can be brought.
func (s *Spec) isAllOutdated() bool {
	return s.Record.Run == "" && s.Group.Can.Refill == nodegroup.RefillByUser && !slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return !s.Outdated(n) })
}

// predictedRun is one run of the upgrade in a copy of the cluster.
type predictedRun struct {
	spec Spec
	// drawn is which of the drawn orders the nodes are started in; 0 is the one that loses least.
	drawn    uint64
	forecast Forecast
	err      error
}

// drawOrders are a run in the order that loses least, and one in each of those that are drawn.
func drawOrders(spec Spec) []predictedRun {
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
	c.cloud.ownSurge = c.countOwnSurge(req)
	size := cmp.Or(c.record.Sizes.Desired, c.group.Desired)
	var before []Unplaced // when it begins to stop: the nodes that it opens again take some of them back
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
	for err == nil && rec.Result == record.Succeeded && c.giveNodeBack(req, size) {
		r.recordSize(c.clock.now, c.group.Desired)
	}
	r.finishForecast(c.clock.now)
	r.forecast.SizeAfter, r.forecast.Refilled = c.group.Desired, spec.Refilled
	r.forecast.Evictions, r.forecast.Unplaced = c.evicted, mergeUnplaced(c.Unplaced(), before)
	r.forecast.Deletions, r.forecast.Outage = c.listDeletions(), c.pods.outages.sum()
	for _, d := range r.forecast.Deletions {
		r.forecast.Forced += d.PastBudget
	}
	r.recordEnding(rec.Result, c.countNotReached(r.nodes))
	if isEndless {
		r.forecast.Endless = cmp.Or(endless.Waiting, "something that does not happen")
		r.forecast.Duration, r.forecast.ExtraHours = Span{}, 0
		r.forecast.Fast, r.forecast.Slow = Ending{}, Ending{}
	}
	return r.forecast, err
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

// mergeUnplaced adds the pods of the second list that the first lacks, by name.
func mergeUnplaced(all, more []Unplaced) []Unplaced {
	for _, u := range more {
		if !slices.ContainsFunc(all, func(known Unplaced) bool { return known.Pod == u.Pod }) {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Unplaced) int { return strings.Compare(a.Pod.String(), b.Pod.String()) })
	return all
}

// widenToLatest takes over from the later run what makes the forecast the more careful one.
func (f *Forecast) widenToLatest(late *Forecast) {
	f.Duration, f.Endless = f.Duration.or(late.Duration), cmp.Or(f.Endless, late.Endless)
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
		n.Start, n.End = n.Start.or(other.Start), n.End.both(other.End)
		n.WaitsFor, n.Waits = other.WaitsFor, other.Waits
		if n.Stuck == "" {
			n.Stuck, n.Blocker = other.Stuck, other.Blocker
		}
		delete(byName, n.Name)
	}
	for i := range late.Nodes {
		if n := &late.Nodes[i]; byName[n.Name] != nil { // the faster run failed before it came to this node
			f.Nodes = append(f.Nodes, *n)
		}
	}
}

// endsBetterThan reports whether an upgrade that ends so goes further than another: it reaches its goal,
// or it fails, and reaches more nodes.
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

// Fails reports whether it ends before its goal.
func (e *Ending) Fails() bool { return e.IsShort() && e.Result != record.LeftBehind }

// IsShort reports whether it ends with fewer nodes replaced than were to be.
func (e *Ending) IsShort() bool { return e.Result != "" && e.Result != record.Succeeded }

func (s Span) or(o Span) Span {
	if o.Earliest.Duration < s.Earliest.Duration {
		s.Earliest = o.Earliest // the order of nodes may depend on the times
	}
	if o.Latest.Duration > s.Latest.Duration {
		s.Latest = o.Latest
	}
	return s
}

// both is the span of an end that each of two runs comes to, and zero where one of them never does.
func (s Span) both(o Span) Span {
	if s == (Span{}) || o == (Span{}) {
		return Span{}
	}
	return s.or(o)
}

func newSpan(d time.Duration) Span {
	return Span{record.Duration{Duration: d}, record.Duration{Duration: d}}
}

func (a amount) toQuantities(pods int) Amount {
	return Amount{CPU: *resource.NewMilliQuantity(a.cpu, resource.DecimalSI), Memory: *resource.NewQuantity(a.memory, resource.BinarySI), Pods: pods}
}

// measureRoom adds up what must move and what is free for it.
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

// measureFree adds up what is left on the nodes that take pods of any of the keys.
func (c *Cluster) measureFree(keys map[*schedulingKey]bool) Room {
	var free amount
	var room Room
	pods := int64(0)
	for _, n := range c.index.nodes.sorted {
		has, used := &n.room.Allocatable, &n.room.Used
		if n.closed || n.node.Spec.Unschedulable || n.room.MaxPods == fit.Unlimited || c.group.isOutdated(n) || !takesAny(n, keys) {
			continue
		}
		room.Nodes++
		free = free.plus(amount{leftOf(has.CPU, used.CPU), leftOf(has.Memory, used.Memory)})
		pods += leftOf(n.room.MaxPods, n.room.Pods)
	}
	room.Free = free.toQuantities(int(pods))
	return room
}

// leftOf is what is left; nothing of what the node does not report.
func leftOf(has, used int64) int64 {
	if has == fit.Unlimited {
		return 0
	}
	return max(0, has-used)
}

func takesAny(n *simNode, keys map[*schedulingKey]bool) bool {
	for k := range keys {
		if fit.Suits(&k.needs, &n.room) {
			return true
		}
	}
	return false
}
