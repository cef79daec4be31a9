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
	// targetSlack is how much longer than its delay a target is waited for: what takes it out, and
	// the cloud that shows it, take a moment.
	targetSlack = 10 * time.Second
	// pollTargets is how often load balancers are read while nodes drain that still have pods.
	// While an empty one waits for them it is as often as the cloud.
	pollTargets = 30 * time.Second
)

// followTargets notes what load balancers may know of the node: its machine, and the addresses of
// pods that leave it, with the time until which each was seen to stay.
func (d *decision) followTargets(name string, m *nodegroup.Member, view *nodePods) {
	if len(d.w.Targets.Groups) == 0 || m.Instance.ID == "" {
		return
	}
	addresses := maps.Clone(d.w.Notes.Addresses[name])
	if addresses == nil { // the drain begins, or the process that began it is no more
		addresses = map[string]time.Time{}
		for _, address := range d.rec.Nodes[name].Addresses {
			addresses[address] = d.w.Now
		}
	}
	for _, pod := range slices.Concat(view.Evict, view.Held, view.Leaving) {
		address := pod.Status.PodIP // of a pod in its host's network it was trimmed
		if _, known := addresses[address]; address != "" && (pod.DeletionTimestamp == nil || !known) {
			addresses[address] = d.w.Now
		}
	}
	if d.notes.DrainingSince == nil { // only of nodes that drain still
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

// recordAddresses puts the addresses of the node's pods on record before the pods are evicted: whoever
// takes the upgrade up follows the targets of those that have left by then.
func (d *decision) recordAddresses(name string, addresses map[string]time.Time) {
	if n := d.rec.Nodes[name]; len(addresses) > len(n.Addresses) {
		n.Addresses = slices.Sorted(maps.Keys(addresses))
		d.rec.Nodes[name] = n
	}
}

// noteExcluded notes since when the node has been seen to carry the label that has it taken out of
// load balancers.
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

// pollTargetsEvery has load balancers read at least so often.
func (d *decision) pollTargetsEvery(interval time.Duration) {
	if d.targets.Every == 0 || interval < d.targets.Every {
		d.targets.Every = interval
	}
}

// listTargetsOf are the targets of the node and of pods that left it or are about to.
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

// drainingSince is when the target was first seen to drain.
func (d *decision) drainingSince(target *nodegroup.Target) time.Time {
	if since, known := d.w.Notes.DrainingSince[target.Key()]; known {
		return since
	}
	return d.w.Targets.Observed
}

// deferForBalancers has an empty node stay while a load balancer keeps
// connections to it, and while load balancers were not read since it was empty: what they know of
// it is unknown then.
func (d *decision) deferForBalancers(name string, n record.NodeRecord, m *nodegroup.Member) (deferred bool) {
	if len(d.w.Targets.Groups) == 0 || m.Instance.ID == "" {
		return false // nothing is known of load balancers: the label and the settling are all there is
	}
	if !isStartWritten(n, m) { // the request that takes the node out of its load balancers has its own limit
		d.waitFor("node " + name + " to be labelled, so that load balancers let go of it")
		return true
	}
	if !d.w.Targets.Observed.After(d.sinceExcluded(name, m, n.EmptyAt)) {
		d.awaitBalancerReading()
		return true
	}
	until, reason := d.findLastTarget(name, n, m)
	if d.w.Now.Before(until) {
		d.waitFor(reason)
		d.pollTargetsEvery(pollInterval)
		d.requeueAt(until)
		return true
	}
	return d.deferForOverdue(name, n, m)
}

// awaitBalancerReading has load balancers read, and stops the upgrade when they could not be for as long as
// new nodes may take to come up.
func (d *decision) awaitBalancerReading() {
	since := d.w.Notes.UnreadSince.Add(d.w.Idle)
	if d.w.Notes.UnreadSince.IsZero() {
		since = d.w.Now
	}
	d.notes.UnreadSince = since
	d.waitFor("load balancers to be read")
	limit := since.Add(d.rec.Request.BootTimeout.Duration)
	if !d.w.Now.Before(limit) {
		d.stopUpgradeWith(record.Failed, fmt.Sprintf("reading load balancers: they have not been read for %s, and may send to nodes that are drained: see why, which the progress said", d.rec.Request.BootTimeout))
		return
	}
	d.pollTargetsEvery(pollInterval)
	d.requeueAt(limit)
}

// deferForOverdue has an empty node stay while a target of it is still there that
// should have gone by now. It is named, and when the node's time is over it is given up as
// --on-timeout says. A node whose pods are deleted in the end is terminated all the same.
func (d *decision) deferForOverdue(name string, n record.NodeRecord, m *nodegroup.Member) (deferred bool) {
	var overdue string
	for _, target := range d.listTargetsOf(name, m) {
		if end := d.endOfTarget(name, n, m, target); !end.IsZero() {
			overdue = fmt.Sprintf("target group %s still has target %s of node %s, which should have gone at %s",
				target.Group.Name, target.ID, name, end.UTC().Format(time.TimeOnly))
		}
	}
	if overdue == "" || d.phase.mostGrace > 0 {
		return false
	}
	d.addBlocked(drain.Blocked{Node: name, Obstacle: drain.Obstacle{Kind: drain.TargetStays, Detail: overdue}})
	d.waitFor(overdue)
	d.pollTargetsEvery(pollInterval)
	switch {
	case !d.chargeTime(name):
		return true
	case d.rec.Request.OnTimeout == record.Force:
		return false
	}
	d.phase.late(d, name, n)
	return true
}

// sinceExcluded returns the later of two times: the given one, and the one since which the process has seen the
// node carry the label that has it taken out of load balancers. A new process has read nothing before it began.
// A node that another actor made schedulable was put in again, and has no label until its drain is started again.
func (d *decision) sinceExcluded(name string, m *nodegroup.Member, since time.Time) time.Time {
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

// findLastTarget is when the last of the node's targets has to be gone, zero when none is waited
// for, and what is said of it meanwhile.
func (d *decision) findLastTarget(name string, n record.NodeRecord, m *nodegroup.Member) (until time.Time, reason string) {
	for _, target := range d.listTargetsOf(name, m) {
		end := d.endOfTarget(name, n, m, target)
		if !end.After(until) {
			continue
		}
		state := "is draining"
		if !target.Draining {
			state = "is still to be taken out"
		}
		left := max(0, end.Sub(d.w.Now)).Round(time.Second)
		until, reason = end, fmt.Sprintf("target group %s to let go of node %s: target %s %s, %s left at most", target.Group.Name, name, target.ID, state, left)
	}
	return until, reason
}

// endOfTarget is until when a target is waited for: its group's delay from when it was seen to
// drain or, where it is to be taken out, from when that could be done. What its provider takes out
// by itself it takes out when the machine is to end, and waits.
func (d *decision) endOfTarget(name string, n record.NodeRecord, m *nodegroup.Member, target *nodegroup.Target) time.Time {
	var since time.Time
	switch left, address := d.notes.Addresses[name][target.ID]; {
	case target.Draining:
		since = d.drainingSince(target)
	case !target.Group.Bound:
		return time.Time{}
	case address:
		since = left
	default:
		since = d.sinceExcluded(name, m, n.Began) // by the label that has it taken out (EKS E46)
	}
	return since.Add(target.Group.Delay + targetSlack)
}
