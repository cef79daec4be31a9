package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// targetSlack is added to a target's delay, because removing a target and showing that take a moment.
	targetSlack = 10 * time.Second
	// pollTargets is how often load balancers are read while nodes with pods drain. While an empty node waits for them,
	// they are read as often as the cloud.
	pollTargets = 30 * time.Second
)

// followTargets notes what load balancers may have as targets of the node: its machine, and the IPs of leaving pods with
// the time until which each was seen without a deletion.
func (d *decision) followTargets(name string, m *nodegroup.Member, view *nodePods) {
	if len(d.w.Targets.Groups) == 0 || m.Instance.ID == "" {
		return
	}
	addresses := maps.Clone(d.w.Notes.Addresses[name])
	if addresses == nil { // the drain or this process is new
		addresses = map[string]time.Time{}
		for _, address := range d.rec.Nodes[name].Addresses {
			addresses[address] = d.w.Now
		}
	}
	for _, pod := range slices.Concat(view.Evict, view.Held, view.Leaving) {
		address := pod.Status.PodIP // empty for pods with host network
		if _, known := addresses[address]; address != "" && (pod.DeletionTimestamp == nil || !known) {
			addresses[address] = d.w.Now
		}
	}
	if d.notes.DrainingSince == nil { // only nodes that still drain are noted
		d.notes.DrainingSince, d.notes.ExcludedSince = map[string]time.Time{}, map[string]time.Time{}
	}
	d.notes.Addresses[name] = addresses
	d.recordAddresses(name, addresses)
	d.noteExcluded(name, m.Node)
	d.targets.IDs = append(append(d.targets.IDs, m.Instance.ID), slices.Sorted(maps.Keys(addresses))...)
	d.pollTargetsEvery(pollTargets)
	for _, target := range d.listTargetsOf(name, m) {
		if target.Draining {
			d.notes.DrainingSince[target.Key()] = d.drainingSince(target)
		}
	}
}

// recordAddresses records the IPs of the node's pods before they are evicted. A process that takes over follows the
// targets of pods that have left.
func (d *decision) recordAddresses(name string, addresses map[string]time.Time) {
	if n := d.rec.Nodes[name]; len(addresses) > len(n.Addresses) {
		n.Addresses = slices.Sorted(maps.Keys(addresses))
		d.rec.Nodes[name] = n
	}
}

// noteExcluded notes since when the node has had the label that excludes it from load balancers.
func (d *decision) noteExcluded(name string, node *corev1.Node) {
	if node == nil || node.Labels[corev1.LabelNodeExcludeBalancers] == "" {
		return
	}
	since, known := d.w.Notes.ExcludedSince[name]
	if !known {
		since = d.w.Now
	}
	d.notes.ExcludedSince[name] = since
}

// pollTargetsEvery makes the runner read load balancers at least that often.
func (d *decision) pollTargetsEvery(interval time.Duration) {
	if d.targets.Every == 0 || interval < d.targets.Every {
		d.targets.Every = interval
	}
}

// listTargetsOf returns the targets of the node and of its pods that left or must leave.
func (d *decision) listTargetsOf(name string, m *nodegroup.Member) []*nodegroup.Target {
	var own []*nodegroup.Target
	for i := range d.w.Targets.List {
		target := &d.w.Targets.List[i]
		if _, address := d.notes.Addresses[name][target.ID]; address || target.ID == m.Instance.ID {
			own = append(own, target)
		}
	}
	return own
}

// drainingSince returns when the target was first seen draining.
func (d *decision) drainingSince(target *nodegroup.Target) time.Time {
	if since, known := d.w.Notes.DrainingSince[target.Key()]; known {
		return since
	}
	return d.w.Targets.Observed
}

// deferForBalancers keeps an empty node while a load balancer keeps connections to it. It also keeps the node until
// load balancers have been read since the node was empty and excluded.
func (d *decision) deferForBalancers(name string, n record.NodeRecord, m *nodegroup.Member) (deferred bool) {
	if len(d.w.Targets.Groups) == 0 || m.Instance.ID == "" {
		return false // nothing is known about load balancers: only the label and the settle time protect connections
	}
	if !isStartWritten(n, m) { // the request that excludes the node from load balancers has its own limit
		d.setWaiting("node " + name + " to be labelled, so that load balancers remove it")
		return true
	}
	if !d.w.Targets.Observed.After(d.excludedSince(name, m, n.EmptyAt)) {
		d.awaitBalancerReading()
		return true
	}
	until, reason := d.findLastTarget(name, n, m)
	if d.w.Now.Before(until) {
		d.setWaiting(reason)
		d.pollTargetsEvery(pollInterval)
		d.requeueAt(until)
		return true
	}
	return d.deferForOverdue(name, n, m)
}

// awaitBalancerReading requests a reading of load balancers. It stops the upgrade if none succeeded for as long as new
// nodes may take to come up.
func (d *decision) awaitBalancerReading() {
	since := d.w.Notes.UnreadSince.Add(d.w.Idle)
	if d.w.Notes.UnreadSince.IsZero() {
		since = d.w.Now
	}
	d.notes.UnreadSince = since
	d.setWaiting("load balancers to be read")
	limit := since.Add(d.rec.Request.BootTimeout.Duration)
	if !d.w.Now.Before(limit) {
		d.stopUpgradeWith(record.Failed, fmt.Sprintf("reading load balancers: they have not been read for %s, and may send requests to drained nodes: fix the error that the progress lines show, and run the command again", d.rec.Request.BootTimeout))
		return
	}
	d.pollTargetsEvery(pollInterval)
	d.requeueAt(limit)
}

// deferForOverdue keeps an empty node while one of its targets is still there that should have gone by now. It names
// the target. When the node's drain timeout is over, the node is given up as --on-timeout says. If the phase deletes
// remaining pods at the end, the node is terminated anyway.
func (d *decision) deferForOverdue(name string, n record.NodeRecord, m *nodegroup.Member) (deferred bool) {
	var overdue string
	for _, target := range d.listTargetsOf(name, m) {
		if end := d.targetDeadline(name, n, m, target); !end.IsZero() {
			overdue = fmt.Sprintf("target group %s still has target %s of node %s, which should have been removed at %s",
				target.Group.Name, target.ID, name, end.UTC().Format(time.TimeOnly))
		}
	}
	if overdue == "" || d.phase.maxGrace > 0 {
		return false
	}
	d.addBlocked(drain.Blocked{Node: name, Obstacle: drain.Obstacle{Kind: drain.TargetStays, Detail: overdue}})
	d.setWaiting(overdue)
	d.pollTargetsEvery(pollInterval)
	switch {
	case !d.countDrainTime(name):
		return true
	case d.rec.Request.OnTimeout == record.Force:
		return false
	}
	d.phase.onTimeout(d, name, n)
	return true
}

// excludedSince returns the later of two times: the given one, and the time since which this process has seen the node
// carry the label that excludes it from load balancers. A new process has seen no label before it began. A node that a
// user made schedulable was added to load balancers again. It has no label until its drain is started again.
func (d *decision) excludedSince(name string, m *nodegroup.Member, since time.Time) time.Time {
	excluded, labeled := d.notes.ExcludedSince[name]
	switch {
	case !labeled && m.Node != nil:
		return d.w.Now
	case excluded.After(since):
		return excluded
	default:
		return since
	}
}

// findLastTarget returns when the last of the node's targets must be gone, and the reason to show until then. It
// returns zero if the upgrade waits for no target.
func (d *decision) findLastTarget(name string, n record.NodeRecord, m *nodegroup.Member) (until time.Time, reason string) {
	for _, target := range d.listTargetsOf(name, m) {
		end := d.targetDeadline(name, n, m, target)
		if !end.After(until) {
			continue
		}
		state := "is draining"
		if !target.Draining {
			state = "is still registered"
		}
		left := max(0, end.Sub(d.w.Now)).Round(time.Second)
		until, reason = end, fmt.Sprintf("target group %s to remove node %s: target %s %s, at most %s left", target.Group.Name, name, target.ID, state, left)
	}
	return until, reason
}

// targetDeadline returns until when the upgrade waits for a target: its group's delay, counted from when the target was
// seen draining. If it was not, the delay counts from when the target could be taken out. It returns zero for a target that
// the provider takes out only when the machine is terminated.
func (d *decision) targetDeadline(name string, n record.NodeRecord, m *nodegroup.Member, target *nodegroup.Target) time.Time {
	var since time.Time
	switch left, address := d.notes.Addresses[name][target.ID]; {
	case target.Draining:
		since = d.drainingSince(target)
	case !target.Group.Bound:
		return time.Time{}
	case address:
		since = left
	default:
		since = d.excludedSince(name, m, n.Began) // the label excludes the node (EKS E46)
	}
	return since.Add(target.Group.Delay + targetSlack)
}
