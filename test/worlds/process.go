package worlds

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// The intervals and limits of package runner.
const (
	turnDelay        = 15 * time.Millisecond
	idlePollInterval = time.Minute
	soonPollDelay    = time.Second
	probeInterval    = 30 * time.Second
	rememberedFor    = 5 * time.Minute
	stopLimit        = 10 * time.Second
	idleAfter        = time.Minute
)

// process simulates one run of the command. It works like package runner: it sees the world late, decides, stores the record, and
// acts. It may crash at any time.
type process struct {
	c       *cluster
	rules   *rules
	stored  *storedState
	seen    *view
	request record.Request
	group   nodegroup.Group
	record  record.Record
	notes   upgrade.Notes
	memo    upgrade.Memo
	open    map[string]nodegroup.Attempt
	// requestsInFlight counts the requests without an answer.
	requestsInFlight int
	stopRequested    bool
	// knownRequest is the user request that the process knows of.
	knownRequest record.Asked
	// movable contains the Deployments as the process read them when it began. read contains the same, read by the world itself.
	movable drain.Movable
	read    deploymentReading
	// controllers contains the controllers that were read. readingControllers contains the controllers that are being read.
	controllers        map[drain.Workload]drain.Controller
	readingControllers map[drain.Workload]bool
	// dead is true after the process has ended. ended is called at its end, with the last record.
	dead  bool
	ended func(record.Record)
	// killAfter is the number of actions after which the process crashes in its next turn; negative for no crash.
	killAfter int
	// asleepUntil is when a sleeping laptop wakes.
	asleepUntil time.Time
	// turnPlanned is true while a turn is scheduled. turns counts the turns.
	turnPlanned, polling bool
	turns                int
	// lastPoll is when the cloud was last polled. earlyPoll is when it is polled earlier than usual; zero for never. pollNumber is
	// the number of the last scheduled poll.
	lastPoll, earlyPoll time.Time
	pollNumber          int
	targets             targetPolls
	// delivered is when the last event of each kind (node, pod, budget) reaches the process.
	delivered [3]time.Time
}

// storedState is the state that survives a process.
type storedState struct {
	record record.Record
	asked  record.Asked
	// worked is when a process last took a decision.
	worked time.Time
}

// initialState is the state with which a process begins.
type initialState struct {
	request record.Request
	record  record.Record
	group   nodegroup.Group
}

func newProcess(c *cluster, r *rules, s *storedState, f initialState) *process {
	p := &process{
		c: c, rules: r, stored: s, request: f.request, record: f.record, group: f.group, seen: newView(c),
		controllers: map[drain.Workload]drain.Controller{}, readingControllers: map[drain.Workload]bool{},
		knownRequest: s.asked, open: map[string]nodegroup.Attempt{}, killAfter: -1, lastPoll: c.now, ended: func(record.Record) {},
	}
	p.group.RequireLabels(p.request.Current)
	p.targets.read.Groups = c.plan.targetGroups()
	p.readMovable()
	c.onChange = p.scheduleDelivery
	p.scheduleTurn()
	return p
}

// readMovable reads which Deployments can be restarted, if the request asks for restarts.
func (p *process) readMovable() {
	if p.request.Move == record.MoveBySurge {
		p.movable, p.read = drain.NewMovable(p.c.listDeployments()), p.c.readDeployments()
	}
}

// scheduleDelivery schedules the delivery of a watch event. It may be late, but events of one kind stay in order.
func (p *process) scheduleDelivery(ch change) {
	if p.dead {
		return
	}
	lag := p.c.plan.WatchLag
	if p.c.calm {
		lag = 0
	} else if p.c.drawFault(WatchSlow) {
		lag = max(lag, 20*time.Second)
	}
	kind := 0
	if ch.pod != nil {
		kind = 1
	} else if ch.budget != nil {
		kind = 2
	}
	at := p.c.now.Add(p.c.drawUpTo(lag))
	if at.Before(p.delivered[kind]) {
		at = p.delivered[kind]
	}
	p.delivered[kind] = at
	if !at.After(p.c.now) {
		p.applyEvent(ch)
		return
	}
	p.c.after(at.Sub(p.c.now), func() { p.applyEvent(ch) })
}

func (p *process) applyEvent(ch change) {
	if p.dead {
		return
	}
	p.seen.apply(ch, p.c.now)
	if ch.node != nil {
		p.earlyPoll = p.c.now.Add(soonPollDelay)
	}
	if ch.pod != nil && ch.pod.Spec.NodeName == "" {
		return // a pod without a node changes no decision
	}
	p.scheduleTurn()
}

// scheduleTurn schedules a turn of the process after turnDelay, unless one is scheduled.
func (p *process) scheduleTurn() {
	if p.turnPlanned || p.dead {
		return
	}
	p.turnPlanned = true
	p.whenAwake(turnDelay, p.takeTurn)
}

// whenAwake schedules do after the given time, or at the end of the process's sleep if that is later. do does not run in a process
// that has ended.
func (p *process) whenAwake(after time.Duration, do func()) {
	if left := p.asleepUntil.Sub(p.c.now); left > after {
		after = left
	}
	p.c.after(after, func() {
		switch {
		case p.dead:
		case p.c.now.Before(p.asleepUntil):
			p.whenAwake(0, do)
		default:
			do()
		}
	})
}

func (p *process) buildWorld() upgrade.World {
	for key, attempt := range p.open {
		if !attempt.InFlight && p.c.now.Sub(attempt.Ended) > rememberedFor {
			delete(p.open, key)
		}
	}
	ending := map[string]bool{}
	if p.c.namespaceEnding {
		ending[namespace] = true
	}
	return upgrade.World{
		Now: p.c.now, Idle: p.idleTime(), Request: p.request, Group: p.group, Members: p.seen.joinMembers(&p.group, &p.record),
		Snapshot: drain.Snapshot{
			Pods: map[string][]*corev1.Pod{"": p.seen.unboundPods()}, Budgets: p.seen.indexedBudgets(),
			Disrupted: p.seen.disrupted, EndingNamespaces: ending, Facts: p.c.plan.serviceFacts(), Workloads: p.seen.workloads.Snapshot(),
		},
		Movable: p.movable, Controllers: maps.Clone(p.controllers), Targets: p.targets.read, Open: p.open, Record: p.record, Notes: p.notes, Stop: p.stopRequested, Asked: p.knownRequest, Stay: p.c.plan.Stay,
		EvictionsAtOnce: evictionsAtOnce, Memo: &p.memo,
	}
}

// idleTime returns how long no process has been running: since the last turn of the previous process, or since the last turn of this
// process if it slept.
func (p *process) idleTime() time.Duration {
	gap := p.c.now.Sub(p.stored.worked)
	if p.stored.worked.IsZero() || (p.turns > 1 && gap <= idleAfter) {
		return 0
	}
	return gap
}

// takeTurn runs one iteration of the loop.
func (p *process) takeTurn() {
	p.turnPlanned = false
	p.turns++
	w := p.buildWorld()
	p.stored.worked = p.c.now
	step := upgrade.Next(w)
	if !step.Persist || !p.c.drawFault(StoreSlow) {
		p.carryOutStep(w, step)
		return
	}
	p.turnPlanned = true // the next turn waits until the record is stored
	p.whenAwake(p.c.drawUpTo(30*time.Second), func() {
		p.turnPlanned = false
		p.carryOutStep(w, step)
		p.scheduleTurn()
	})
}

func (p *process) carryOutStep(w upgrade.World, step upgrade.Step) {
	if step.Persist {
		p.stored.record = step.Record
	}
	p.record, p.notes = step.Record, step.Notes
	p.rules.checkStep(p, &w, &step)
	if step.Finished && p.requestsInFlight == 0 {
		p.dead = true
		p.ended(p.record)
		return
	}
	for _, action := range step.Actions {
		if p.killAfter == 0 {
			break
		}
		p.killAfter--
		p.sendRequest(action)
	}
	if p.killAfter >= 0 && len(step.Actions) > 0 {
		p.crash()
		return
	}
	turn := p.turns
	p.whenAwake(step.Wake.Sub(p.c.now), func() {
		if p.turns == turn {
			p.scheduleTurn()
		}
	})
	p.schedulePoll(step.Poll)
	p.scheduleTargetPoll(step.Targets)
	p.readControllers(&step)
}

// crash ends the process without a result.
func (p *process) crash() {
	p.dead = true
	p.ended(record.Record{})
}

// sendRequest sends an action's request.
func (p *process) sendRequest(action nodegroup.Action) {
	key := action.Key()
	p.open[key] = nodegroup.Attempt{Action: action, Begun: p.c.now, InFlight: true, Tries: p.open[key].Tries + 1}
	p.requestsInFlight++
	p.rules.tally.count("action", actionKind(action))
	if p.isObjectChanged(action) {
		p.c.after(0, func() { p.recordAnswer(action, nodegroup.ErrMoved) })
		return
	}
	if p.c.drawProcessCrash(action) {
		p.c.after(0, p.crash)
	}
	f := p.c.drawCourse(action)
	p.c.after(f.requestDelay, func() {
		var err error
		if f.hasEffect && (!p.dead || p.c.chance(50)) {
			err = p.c.carryOutRequest(action, p.request.Run)
			p.rules.checkResult(p, action, err)
		}
		switch {
		case f.answerLost:
			err = errAnswerLost()
		case f.refusal != nil:
			err = f.refusal
		}
		if a, ok := action.(nodegroup.Terminate); ok && a.Shrink && (f.answerLost || p.dead) {
			p.rules.noteUnclearTermination(a.Instance)
		}
		p.c.after(f.answerDelay, func() { p.whenAwake(0, func() { p.recordAnswer(action, err) }) })
	})
}

// isObjectChanged reports whether the process has seen a change of the action's object since the decision. The writer sends no request
// then.
func (p *process) isObjectChanged(action nodegroup.Action) bool {
	switch a := action.(type) {
	case schedule.Eviction:
		pod, ok := p.seen.pods[a.UID]
		return !ok || pod.Spec.NodeName != a.Node
	case nodemark.Fence:
		node, ok := p.seen.nodes[a.Node]
		return !ok || node.ResourceVersion != a.Version
	case nodemark.Unfence:
		node, ok := p.seen.nodes[a.Node]
		return !ok || node.ResourceVersion != a.Version
	case nodemark.HoldNode:
		node, ok := p.seen.nodes[a.Node]
		return !ok || node.ResourceVersion != a.Version
	case nodemark.UnholdNode:
		node, ok := p.seen.nodes[a.Node]
		return !ok || node.ResourceVersion != a.Version
	case nodemark.StartDrain:
		node, ok := p.seen.nodes[a.Node]
		return !ok || node.ResourceVersion != a.Version
	default:
		return false
	}
}

// recordAnswer records the answer to an action.
func (p *process) recordAnswer(action nodegroup.Action, err error) {
	if p.dead {
		return
	}
	p.requestsInFlight--
	answer := runner.ClassifyAnswer(err)
	attempt := p.open[action.Key()]
	attempt.InFlight, attempt.Ended = false, p.c.now
	attempt.Outcome, attempt.Detail = answer.Outcome, answer.Detail
	attempt.NotBefore = p.c.now.Add(p.retryDelay(answer, attempt.Tries))
	p.open[action.Key()] = attempt
	p.rules.tally.count("outcome", string(answer.Outcome))
	if kind := actionKind(action); answer.Outcome != nodegroup.OutcomeDone && p.c.plan.hasDenial(kind) {
		p.rules.tally.count("denied", kind)
	}
	if answer.Outcome != nodegroup.OutcomeDone {
		p.rules.logf("%s: %s %s", action, answer.Outcome, answer.Detail)
	}
	if nodegroup.IsCloudAction(action) {
		p.earlyPoll = p.c.now.Add(soonPollDelay)
	}
	p.scheduleTurn()
}

func (p *process) retryDelay(answer runner.Answer, tries int) time.Duration {
	switch answer.Outcome {
	case nodegroup.OutcomeDone, nodegroup.OutcomeMoved:
		return 0
	case nodegroup.OutcomeRefused, nodegroup.OutcomeExhausted:
		return max(answer.After, probeInterval+p.c.drawUpTo(probeInterval))
	default:
		base := min(500*time.Millisecond<<min(tries-1, 6), probeInterval)
		return max(answer.After, base/2+p.c.drawUpTo(base))
	}
}

// schedulePoll schedules the next poll of the cloud. every is the interval that the step asks for; 0 for the usual one.
func (p *process) schedulePoll(every time.Duration) {
	if p.polling || !p.c.plan.listsMachines() {
		return
	}
	next := p.lastPoll.Add(idlePollInterval)
	if every > 0 {
		next = p.lastPoll.Add(every)
	}
	if !p.earlyPoll.IsZero() && p.earlyPoll.Before(next) {
		next = p.earlyPoll
	}
	p.pollNumber++
	asking := p.pollNumber
	p.whenAwake(next.Sub(p.c.now), func() {
		if p.pollNumber == asking && !p.polling {
			p.pollCloud()
		}
	})
}

func (p *process) pollCloud() {
	p.polling, p.lastPoll, p.earlyPoll = true, p.c.now, time.Time{}
	group, err := p.c.pollGroup()
	lag := 500 * time.Millisecond
	if p.c.drawFault(CloudSlow) {
		lag = 20 * time.Second
	}
	p.whenAwake(p.c.drawUpTo(lag), func() {
		p.polling = false
		if err == nil {
			p.group = retarget(group, p.wantedRevision())
			p.group.RequireLabels(p.request.Current)
		}
		p.scheduleTurn()
	})
}

// wantedRevision returns the revision that counts as current in the process's readings of the group.
func (p *process) wantedRevision() string {
	return p.c.plan.wantedRevision(&p.record, p.c.cloud.wanted)
}

// wantedRevision returns the target of an upgrade. Rollbacks and blue-green upgrades keep their first target. For all others it is
// template, the revision of the group's template.
func (p *Plan) wantedRevision(record *record.Record, template string) string {
	if record.Rollback || (record.Run != "" && p.keepsTarget()) {
		return record.Target.ID
	}
	return template
}

// storeAndReadBack returns the record after it was encoded and decoded, as in the cluster.
func storeAndReadBack(rec record.Record) (record.Record, error) {
	text, err := json.Marshal(rec)
	if err != nil {
		return record.Record{}, fmt.Errorf("storing the record: %w", err)
	}
	var back record.Record
	if err := json.Unmarshal(text, &back); err != nil {
		return record.Record{}, fmt.Errorf("reading the record: %w", err)
	}
	return back, nil
}
