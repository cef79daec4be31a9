package upgrade

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// draft is the world that a decision looks at, and the step as far as it is made.
type draft struct {
	w   *World
	rec Record
	// fence is the taint of the group's provider.
	fence corev1.Taint
	// phase is the one that the record is in.
	phase phase
	notes Notes
	count memberCounts
	// drains are the pods of each node that is being drained, by node name.
	drains map[string]*nodePods
	// stages tell what is done about the pods of the nodes in drain. plan is what is decided about
	// them; nil where nodes are not replaced in this step.
	stages map[string]schedule.Stage
	plan   *schedule.Plan

	actions []nodegroup.Action
	// unsettled is true where an action was asked for and its effect is still to be seen, or its
	// next try is not due.
	unsettled bool
	// asked are the keys of the actions that the step asks for, whether they are begun in it, under
	// way or to be tried again later; retried is the one that has been tried for longest.
	asked   []string
	retried Retried
	// undone are the actions that a stop or an undoing leaves out because they were refused for good.
	undone  []nodegroup.Action
	blocked []Blocked
	// health lists the state of each workload on record, by name. recoveries is the same for the
	// scheduling of evictions. unhealthy lists the workloads that do not recover, awaited the
	// workloads whose pods the upgrade waits for, and unscaled the workloads whose controllers the
	// runner reads next.
	health            []workloadHealth
	recoveries        map[drain.Workload]schedule.Recovery
	unhealthy         []Unhealthy
	awaited, unscaled []drain.Workload
	// unsure is a DaemonSet that may or may not create pods for current nodes that have none; "" for
	// none.
	unsure string
	// shortages are what is known of workloads while nodes are started; nil for nothing yet.
	shortages map[drain.Workload]shortage
	// renewing is true while nodes that became current in place still have our fence.
	renewing bool
	// fencing is true while outdated nodes are still open to pods that leave others, pausing once
	// nothing more is to be started.
	fencing  bool
	pausing  bool
	poll     time.Duration
	targets  TargetWatch
	finished bool
	waiting  string
	wake     time.Time
	due      time.Time
}

// strategy is one way to replace a group. It keeps no state: what a run has to remember is in its
// record. Every strategy begins with PhaseSetup, and PhaseDone follows its last phase.
type strategy struct {
	// name is the one that allStrategies has.
	name Strategy
	// fits returns an error where the group, with so many outdated nodes, cannot be replaced in
	// this way; nil for strategies that suit every group.
	fits func(group *nodegroup.Group, r *Request, outdated int) error
	// begin completes the record of a new upgrade, whose census is taken.
	begin  func(*draft)
	phases []phase
	// stop brings an upgrade to rest before its goal, undo takes away what it left.
	stop, undo func(*draft)
}

// phase is one part of a strategy. All that the rest of the package has to know of it are its
// properties: no other file asks for its name.
type phase struct {
	name Phase
	// run makes the next step and reports whether the phase is complete.
	run func(*draft) bool
	// emptied is what follows a node that is empty and settled, and late one whose time is over.
	emptied func(*draft, string, NodeRecord, *nodegroup.Member)
	late    func(*draft, string, NodeRecord)
	// untouched is a phase before whose end no outdated node is drained: a pause comes at once, and
	// a failure to create nodes gives back what was added.
	untouched bool
	// watched is a phase that another actor must not change the group's maximum or protection in.
	watched bool
	// stays is a phase in which a stop leaves all as it is: outdated nodes are kept beside the new.
	stays bool
	// quiet is a phase that suspends what scales the group by itself, too: half of it is idle for
	// long.
	quiet bool
	// calm is a phase that changes no process of the group: no node is touched.
	calm bool
	// mostGrace is the longest grace period that pods are deleted with; 0 for their own.
	mostGrace time.Duration
	// capsLeaving has that hold for pods that were evicted, too.
	capsLeaving bool
	// waitsUntil is what the upgrade does in a long wait of the phase: "it soaks". looksIn is one
	// in which there is work for who looks in before it is over.
	waitsUntil string
	looksIn    bool
	// held are the nodes that autoscalers are kept from in the phase.
	held holding
	// givesBack is a phase in which what was added is given back: another target begins again.
	givesBack bool
	// waitsFor is what keeps the next node from being started, "" for what the step waits for.
	waitsFor string
	// verbs are what a user may ask for in it.
	verbs []Verb
}

// listProcesses are the processes of the group that the phase suspends.
func (p phase) listProcesses(group *nodegroup.Group) []string {
	switch {
	case p.calm:
		return nil
	case p.quiet:
		return slices.Concat(group.Quiesce, group.Scaling)
	}
	return group.Quiesce
}

// holding tells which nodes autoscalers are kept from.
type holding int

const (
	noneHeld holding = iota
	newHeld
	outdatedHeld
	bothHeld
)

// stopUpgradeWith stops the upgrade. Nothing new is begun from here on; what can be undone safely
// is.
func (d *draft) stopUpgradeWith(result Result, message string) {
	if d.rec.Stopping == "" {
		d.rec.Stopping, d.rec.Message = result, message
		d.actions = nil
		d.requeueNow() // and begin to stop
	}
}

func (d *draft) enterPhase(next phase) {
	d.phase, d.rec.Phase, d.rec.PhaseBegan = next, next.name, d.w.Now
}

// addAction adds an action, unless it is in flight, its next try is not due, or it was accepted a
// moment ago and its effect is still to be observed.
func (d *draft) addAction(a nodegroup.Action) {
	attempt, begun := d.w.Open[a.Key()]
	d.asked = append(d.asked, a.Key())
	if begun && attempt.InFlight {
		return
	}
	due := attempt.NotBefore
	switch {
	case d.rec.Stopping != "" && d.isRefused(a):
		d.undone = append(d.undone, a) // it was tried; the report names it
		return
	case attempt.Outcome == nodegroup.OutcomeDone:
		due = attempt.Ended.Add(seen)
	case attempt.Outcome == nodegroup.OutcomeMoved && !nodegroup.OfCloud(a) && attempt.Action == a:
		// What moved it is not seen yet, and the answer would be the same.
		due = attempt.Ended.Add(min(time.Second<<min(max(0, attempt.Tries-1), 5), seen))
	}
	if begun && d.w.Now.Before(due) {
		d.unsettled = true
		d.requeueAt(due)
		return
	}
	d.actions = append(d.actions, a)
}

// requeueAt makes the next look happen no later than the time, if that is still to come.
func (d *draft) requeueAt(at time.Time) {
	if !at.After(d.w.Now) {
		return
	}
	if at.Before(d.wake) {
		d.wake = at
	}
	if d.due.IsZero() || at.Before(d.due) {
		d.due = at
	}
}

// waitForCloud has the cloud asked often, because something of ours is under way there. reason says
// what the upgrade waits for; with "" what was said before stands.
func (d *draft) waitForCloud(reason string) {
	d.poll = pollInterval
	if reason != "" {
		d.waiting = reason
	}
}

// requeueNow has the next step follow at once.
func (d *draft) requeueNow() { d.wake, d.due = d.w.Now, d.w.Now }

// lastAttempt is the last try of the action; the zero Attempt if there was none.
func (d *draft) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return d.w.lastAttempt(a) }

// isRefused reports whether the last try of the action was refused for good, or it was tried for as
// long as a stop or an undoing does.
func (d *draft) isRefused(a nodegroup.Action) bool {
	attempt := d.lastAttempt(a)
	return attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight || d.isLeftOut(a)
}

// askController has the runner read the workload's controller.
func (d *draft) askController(w drain.Workload) {
	if !slices.Contains(d.unscaled, w) {
		d.unscaled = append(d.unscaled, w)
	}
}

// addBlocked adds an obstacle. key is the pod's UID, or the node's name where no pod is in the way.
func (d *draft) addBlocked(b Blocked, key string) {
	since, was := d.w.Notes.BlockedSince[key]
	if !was {
		since, was = d.w.Record.Nodes[b.Node].Blocked[b.Pod.String()]
	}
	if !was {
		since, was = d.w.Record.Delegation.blockedSince(b.Pod.String())
	}
	if !was {
		since = d.w.Now
	}
	b.Since, b.Forces = since, d.rec.Request.OnTimeout == Force
	d.notes.BlockedSince[key] = since
	if b.IsLast() {
		d.notes.LastReadySince[key] = d.w.Now
		if waits, was := d.w.Notes.LastReadySince[key]; was {
			d.notes.LastReadySince[key] = waits
		}
	}
	d.blocked = append(d.blocked, b)
}

// listLongBlocked lists since when pods have been blocked, of those that have been for long, by the
// place that placeOf gives them: no more than most of each. more counts the others.
func listLongBlocked(d *draft, most int, placeOf func(Blocked) string) (long map[string]map[string]time.Time, more map[string]int) {
	for _, b := range d.blocked {
		place := placeOf(b)
		switch {
		case d.w.Now.Sub(b.Since) < longBlocked || b.Pod.Name == "":
			continue
		case long == nil: // seldom is there any
			long, more = map[string]map[string]time.Time{}, map[string]int{}
		case len(long[place]) == most:
			more[place]++
			continue
		}
		if long[place] == nil {
			long[place] = map[string]time.Time{}
		}
		long[place][b.Pod.String()] = b.Since
	}
	return long, more
}

func (d *draft) endUpgradeWith(result Result, message string) {
	d.rec.Result, d.rec.Message, d.rec.Ended = result, message, d.w.Now
	d.finished = true
	d.actions = nil
}

// classifyPodsOf is what a drain has to know of the member's pods.
func (d *draft) classifyPodsOf(m *nodegroup.Member) *nodePods {
	v, known := d.drains[m.Name()]
	if !known {
		v = classifyPods(m, d.rec.Request.Policy(), d.w.Now)
		d.drains[m.Name()] = v
	}
	return v
}

// hasNothingOpen reports whether there is nothing to do, now or at the next try, and no answer to
// wait for.
func (d *draft) hasNothingOpen() bool {
	for _, attempt := range d.w.Open {
		if attempt.InFlight {
			return false
		}
	}
	return len(d.actions) == 0 && !d.unsettled
}

// startRecord begins the record of a member, which is to be stored before anything happens to it.
func (d *draft) startRecord(m *nodegroup.Member, n NodeRecord) {
	d.count.byName[m.Name()] = m
	d.rec.Nodes[m.Name()] = n
}

// forgetNode removes a started node from the record, with what is noted about it.
func (d *draft) forgetNode(name string) {
	delete(d.rec.Nodes, name)
	delete(d.notes.Yielded, name)
	delete(d.notes.Addresses, name)
}

// pauseUpgrade stops the upgrade, unless no node is left that a pause could keep from being
// started.
func (d *draft) pauseUpgrade() {
	if d.rec.Stopping != "" || len(d.count.pending) == 0 {
		return
	}
	stopAsAsked(d)
}

// stopAsAsked stops the upgrade for who asked for a pause.
func stopAsAsked(d *draft) {
	d.rec.PausedBy = d.w.Asked.By
	d.stopUpgradeWith(Paused, describePause(d.w.Asked.By, d.w.Group.Name))
}
