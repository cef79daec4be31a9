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

// The runner's own numbers.
const (
	coalesce   = 15 * time.Millisecond
	cloudIdle  = time.Minute
	cloudSoon  = time.Second
	probe      = 30 * time.Second
	remembered = 5 * time.Minute
	stopLimit  = 10 * time.Second
	idleAfter  = time.Minute
)

// process is one run of the command. It does what package runner does: it sees the world late, decides, stores, and acts. It may crash
// at any time.
type process struct {
	c       *cluster
	rules   *rules
	stored  *stored
	seen    *view
	request record.Request
	group   nodegroup.Group
	record  record.Record
	notes   upgrade.Notes
	memo    upgrade.Memo
	open    map[string]nodegroup.Attempt
	flying  int
	stop    bool
	// heard is the user request that the process knows of.
	heard record.Asked
	// movable is what was read about Deployments when the process began. read is the same, read by the world itself.
	movable drain.Movable
	read    reading
	// controllers contains what was read about controllers. readingOf contains those that are being read.
	controllers map[drain.Workload]drain.Controller
	readingOf   map[drain.Workload]bool
	// dead is true once the process has ended. ended is then called once with the last record.
	dead  bool
	ended func(record.Record)
	// killAfter is the number of actions that the process still begins in its next turn before it crashes; negative for no crash.
	killAfter int
	// until is when a sleeping laptop wakes, or when the record has been stored.
	until time.Time
	// looking is true while a turn is scheduled. turns counts the turns.
	looking, polling bool
	turns            int
	asked, soon      time.Time
	asking           int
	targets          targetPolls
	delivered        [3]time.Time
}

// stored is the state that survives a process.
type stored struct {
	record record.Record
	asked  record.Asked
	// worked is when a process last decided, as the renewals of a lease show.
	worked time.Time
}

// found is the state with which a process begins.
type found struct {
	request record.Request
	record  record.Record
	group   nodegroup.Group
}

func newProcess(c *cluster, r *rules, s *stored, f found) *process {
	p := &process{
		c: c, rules: r, stored: s, request: f.request, record: f.record, group: f.group, seen: newView(c),
		controllers: map[drain.Workload]drain.Controller{}, readingOf: map[drain.Workload]bool{},
		heard: s.asked, open: map[string]nodegroup.Attempt{}, killAfter: -1, asked: c.now, ended: func(record.Record) {},
	}
	p.group.RequireLabels(p.request.Current)
	p.targets.read.Groups = c.plan.targetGroups()
	p.readMovable()
	c.watch = p.hear
	p.look()
	return p
}

// readMovable reads which Deployments can be restarted, if the request asks for restarts.
func (p *process) readMovable() {
	if p.request.Move == record.MoveBySurge {
		p.movable, p.read = drain.NewMovable(p.c.listDeployments()), p.c.readDeployments()
	}
}

// hear delivers a watch event to the process, late but in order among events of its kind.
func (p *process) hear(ch change) {
	if p.dead {
		return
	}
	lag := p.c.plan.WatchLag
	if p.c.calm {
		lag = 0
	} else if p.c.befalls(WatchSlow) {
		lag = max(lag, 20*time.Second)
	}
	kind := 0
	if ch.pod != nil {
		kind = 1
	} else if ch.budget != nil {
		kind = 2
	}
	at := p.c.now.Add(p.c.draw(lag))
	if at.Before(p.delivered[kind]) {
		at = p.delivered[kind]
	}
	p.delivered[kind] = at
	if !at.After(p.c.now) {
		p.notice(ch)
		return
	}
	p.c.after(at.Sub(p.c.now), func() { p.notice(ch) })
}

func (p *process) notice(ch change) {
	if p.dead {
		return
	}
	p.seen.take(ch, p.c.now)
	if ch.node != nil {
		p.soon = p.c.now.Add(cloudSoon)
	}
	if ch.pod != nil && ch.pod.Spec.NodeName == "" {
		return // by itself it changes no decision
	}
	p.look()
}

// look schedules a turn of the process a moment later.
func (p *process) look() {
	if p.looking || p.dead {
		return
	}
	p.looking = true
	p.awake(coalesce, p.turn)
}

// awake runs do after the given time, or when the process wakes if that is later.
func (p *process) awake(after time.Duration, do func()) {
	if left := p.until.Sub(p.c.now); left > after {
		after = left
	}
	p.c.after(after, func() {
		switch {
		case p.dead:
		case p.c.now.Before(p.until):
			p.awake(0, do)
		default:
			do()
		}
	})
}

func (p *process) world() upgrade.World {
	for key, attempt := range p.open {
		if !attempt.InFlight && p.c.now.Sub(attempt.Ended) > remembered {
			delete(p.open, key)
		}
	}
	ending := map[string]bool{}
	if p.c.ending {
		ending[space] = true
	}
	return upgrade.World{
		Now: p.c.now, Idle: p.idle(), Request: p.request, Group: p.group, Members: p.seen.members(&p.group, &p.record),
		Snapshot: drain.Snapshot{
			Pods: map[string][]*corev1.Pod{"": p.seen.unbound()}, Budgets: p.seen.indexedBudgets(),
			Disrupted: p.seen.disrupted, EndingNamespaces: ending, Facts: p.c.plan.facts(), Workloads: p.seen.workloads.Snapshot(),
		},
		Movable: p.movable, Controllers: maps.Clone(p.controllers), Targets: p.targets.read, Open: p.open, Record: p.record, Notes: p.notes, Stop: p.stop, Asked: p.heard, Stay: p.c.plan.Stay,
		EvictionsAtOnce: evictionsAtOnce, Memo: &p.memo,
	}
}

// idle returns for how long no process was at work: since the last turn of the previous process, or of this one if it slept.
func (p *process) idle() time.Duration {
	gap := p.c.now.Sub(p.stored.worked)
	if p.stored.worked.IsZero() || (p.turns > 1 && gap <= idleAfter) {
		return 0
	}
	return gap
}

// turn runs one iteration of the loop.
func (p *process) turn() {
	p.looking = false
	p.turns++
	w := p.world()
	p.stored.worked = p.c.now
	step := upgrade.Next(w)
	if !step.Persist || !p.c.befalls(StoreSlow) {
		p.carryOut(w, step)
		return
	}
	p.looking = true // no turn is taken while the record is stored
	p.awake(p.c.draw(30*time.Second), func() {
		p.looking = false
		p.carryOut(w, step)
		p.look()
	})
}

func (p *process) carryOut(w upgrade.World, step upgrade.Step) {
	if step.Persist {
		p.stored.record = step.Record
	}
	p.record, p.notes = step.Record, step.Notes
	p.rules.step(p, &w, &step)
	if step.Finished && p.flying == 0 {
		p.dead = true
		p.ended(p.record)
		return
	}
	for _, action := range step.Actions {
		if p.killAfter == 0 {
			break
		}
		p.killAfter--
		p.begin(action)
	}
	if p.killAfter >= 0 && len(step.Actions) > 0 {
		p.die()
		return
	}
	turn := p.turns
	p.awake(step.Wake.Sub(p.c.now), func() {
		if p.turns == turn {
			p.look()
		}
	})
	p.ask(step.Poll)
	p.askTargets(step.Targets)
	p.readControllers(&step)
}

// die ends the process without a result.
func (p *process) die() {
	p.dead = true
	p.ended(record.Record{})
}

// begin sends an action's request.
func (p *process) begin(action nodegroup.Action) {
	key := action.Key()
	p.open[key] = nodegroup.Attempt{Action: action, Begun: p.c.now, InFlight: true, Tries: p.open[key].Tries + 1}
	p.flying++
	p.rules.tally.met("action", kindOf(action))
	if p.stray(action) {
		p.c.after(0, func() { p.settle(action, nodegroup.ErrMoved) })
		return
	}
	if p.c.kills(action) {
		p.c.after(0, p.die)
	}
	f := p.c.flightOf(action)
	p.c.after(f.there, func() {
		var err error
		if f.effect && (!p.dead || p.c.chance(50)) {
			err = p.c.do(action, p.request.Run)
			p.rules.effect(p, action, err)
		}
		switch {
		case f.lost:
			err = errLost()
		case f.refusal != nil:
			err = f.refusal
		}
		if a, ok := action.(nodegroup.Terminate); ok && a.Shrink && (f.lost || p.dead) {
			p.rules.doubt(a.Instance)
		}
		p.c.after(f.back, func() { p.awake(0, func() { p.settle(action, err) }) })
	})
}

// stray reports whether the process knows that the action's object has changed, as the writer checks before it sends a request.
func (p *process) stray(action nodegroup.Action) bool {
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

// settle records the answer to an action.
func (p *process) settle(action nodegroup.Action, err error) {
	if p.dead {
		return
	}
	p.flying--
	answer := runner.ClassifyAnswer(err)
	attempt := p.open[action.Key()]
	attempt.InFlight, attempt.Ended = false, p.c.now
	attempt.Outcome, attempt.Detail = answer.Outcome, answer.Detail
	attempt.NotBefore = p.c.now.Add(p.backoff(answer, attempt.Tries))
	p.open[action.Key()] = attempt
	p.rules.tally.met("outcome", string(answer.Outcome))
	if kind := keyKind(action); answer.Outcome != nodegroup.OutcomeDone && p.c.plan.denied(kind) {
		p.rules.tally.met("denied", kind)
	}
	if answer.Outcome != nodegroup.OutcomeDone {
		p.rules.say("%s: %s %s", action, answer.Outcome, answer.Detail)
	}
	if nodegroup.IsCloudAction(action) {
		p.soon = p.c.now.Add(cloudSoon)
	}
	p.look()
}

func (p *process) backoff(answer runner.Answer, tries int) time.Duration {
	switch answer.Outcome {
	case nodegroup.OutcomeDone, nodegroup.OutcomeMoved:
		return 0
	case nodegroup.OutcomeRefused, nodegroup.OutcomeExhausted:
		return max(answer.After, probe+p.c.draw(probe))
	default:
		base := min(500*time.Millisecond<<min(tries-1, 6), probe)
		return max(answer.After, base/2+p.c.draw(base))
	}
}

// ask schedules the next poll of the cloud. every is the interval while requests of the upgrade are under way there, and 0 while none
// is.
func (p *process) ask(every time.Duration) {
	if p.polling || !p.c.plan.listed() {
		return
	}
	next := p.asked.Add(cloudIdle)
	if every > 0 {
		next = p.asked.Add(every)
	}
	if !p.soon.IsZero() && p.soon.Before(next) {
		next = p.soon
	}
	p.asking++
	asking := p.asking
	p.awake(next.Sub(p.c.now), func() {
		if p.asking == asking && !p.polling {
			p.poll()
		}
	})
}

func (p *process) poll() {
	p.polling, p.asked, p.soon = true, p.c.now, time.Time{}
	group, err := p.c.describe()
	lag := 500 * time.Millisecond
	if p.c.befalls(CloudSlow) {
		lag = 20 * time.Second
	}
	p.awake(p.c.draw(lag), func() {
		p.polling = false
		if err == nil {
			p.group = retarget(group, p.wanted())
			p.group.RequireLabels(p.request.Current)
		}
		p.look()
	})
}

// wanted returns the revision against which the process has the group read. A rollback and a blue-green upgrade keep their own target.
func (p *process) wanted() string { return p.c.plan.wantedBy(&p.record, p.c.cloud.wanted) }

// wantedBy returns the revision to which an upgrade brings nodes. template is the revision of the group's template.
func (p *Plan) wantedBy(record *record.Record, template string) string {
	if record.Rollback || (record.Run != "" && p.pins()) {
		return record.Target.ID
	}
	return template
}

// reread returns the record as it is read back from the cluster.
func reread(rec record.Record) (record.Record, error) {
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
