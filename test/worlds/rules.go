package worlds

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// rules watch a world from beginning to end. broken is the first rule that was broken.
type rules struct {
	c      *cluster
	tell   func(string)
	broken string
	tally  Tally

	// desired, max, zones and serves are the group's values at first. others is the number of nodes that other actors added since.
	desired, max, others int
	// taken is the number of nodes by which other actors lowered the group's size.
	taken  int
	zones  map[string]int
	serves int
	// rearranged is true once other actors changed which zones nodes are in. maxed is true once they changed the maximum.
	rearranged, maxed bool
	// renewed is the time since when each node that was renewed in place has been current.
	renewed map[string]time.Time
	// aimed contains, by node, the machine that the record named before another actor changed it.
	aimed map[string]string
	// stripped contains the nodes from which another actor removed annotations of this program.
	stripped map[string]bool
	// deadlines contains the deadline of each node, by its UID. phase is the furthest phase of the run, and run is its name.
	deadlines map[types.UID]time.Time
	phase     int
	run       string
	// moved counts how often a pod of each kept name was evicted since the last stop.
	moved map[string]int
	// sent contains, by node, the addresses of the pods that the upgrade evicted from the node.
	sent map[types.UID][]string
	// doubtful is true once only the cloud can know which termination came first: the upgrade's or another actor's.
	doubtful bool
	// resumed is true once another actor resumed suspended processes.
	resumed  bool
	duties   duties
	refusals refusals
	// recovery is what the rules know about workloads that lost pods.
	recovery recovery
	moving   moving
	// delegations is for groups that their own cloud upgrades; soaks is for blue-green upgrades.
	delegations delegations
	soaks       soaks
	waited      waited
	// pointed is the revision that the group's owner last pointed it at. back is true once the upgrade is on its way back.
	pointed string
	back    bool
	// begunIn is the zone of the node that was started last, where zones take turns.
	begunIn string
	// quiet is true for worlds without faults, other actors and lags. easy is true for quiet worlds in which nothing keeps pods from
	// leaving in time.
	quiet, easy bool
}

func newRules(c *cluster, say func(string)) *rules {
	p := c.plan
	r := &rules{
		c: c, tell: say, tally: Tally{}, desired: c.cloud.desired, max: c.cloud.max, pointed: c.cloud.pointed, zones: c.cloud.zones(),
		aimed: map[string]string{}, stripped: map[string]bool{}, renewed: map[string]time.Time{}, deadlines: map[types.UID]time.Time{}, moved: map[string]int{}, sent: map[types.UID][]string{}, duties: newDuties(), recovery: newRecovery(),
		delegations: delegations{tokens: map[string]nodegroup.Delegate{}, told: map[string]bool{}},
		quiet:       p.quiet(), moving: newMoving(),
	}
	r.easy = r.quiet && easy(p)
	r.rearranged = p.autoscaled()
	r.serves = r.serving(record.Record{})
	c.struck = func(kind FaultKind) {
		r.tally.met("fault", string(kind))
		if kind == ZoneFull || kind == BootNever || kind == BootUnlabelled {
			r.rearranged = true
		}
	}
	c.tainted = func() { r.tally.met("renewal", daemonTainted) }
	c.closes = func(by Closing) { r.tally.met("renewal", string(by)) }
	c.restarted, c.departs = r.restarted, r.departs
	r.tally.plan(p)
	return r
}

// easy reports whether every node of the plan can be drained with patience only.
func easy(p *Plan) bool {
	hard := p.hasWorkload(func(w *Workload) bool {
		return w.ailing() || w.Broken || w.Undead || w.Tolerant || w.Role == Completes || (w.Role == Protected && p.Request.RespectDoNotDisrupt) || (w.Kind == Bare && !p.Request.EvictUnmanaged)
	})
	tight := slices.ContainsFunc(p.Budgets, func(b Budget) bool { return b.Shape != MaxUnavailable || b.N < 1 || b.Percent })
	twice := map[string]bool{}
	for _, w := range p.Workloads {
		twice[w.Name] = w.Kind != Deployment && w.Kind != StatefulSet // no budget counts their pods, or their pods end
	}
	for _, b := range p.Budgets {
		tight = tight || twice[b.Workload]
		twice[b.Workload] = true
	}
	return !hard && !tight && !p.Balancer.Stuck && p.Outside && p.Request.DrainTimeout.Duration >= 15*time.Minute
}

func (r *rules) say(format string, args ...any) {
	if r.tell != nil {
		r.tell(fmt.Sprintf("%10s  %s", r.c.since().Round(time.Millisecond), fmt.Sprintf(format, args...)))
	}
}

// fail records that a rule is broken. Only the first call counts.
func (r *rules) fail(rule, format string, args ...any) {
	if r.broken == "" {
		r.broken = rule + ": " + fmt.Sprintf(format, args...)
		r.say("BROKEN %s", r.broken)
	}
}

// lost records that another actor took a node, which lowers the number of nodes that the upgrade must keep serving.
func (r *rules) lost() {
	r.serves--
	r.rearranged = true
}

// doubt records that the effect of a request to end an instance and shrink the group is unknown. There is no doubt if the instance
// still exists, or if the request shrank the group.
func (r *rules) doubt(id string) {
	i := r.c.cloud.instances[id]
	r.doubtful = r.doubtful || ((i == nil || i.leaving) && r.c.cloud.shrunk[id] == 0)
}

func (r *rules) grown(n int) {
	r.others += n
	r.taken += max(0, -n)
	r.rearranged = true
}

func (r *rules) remaxed() { r.maxed = true }

// begun prepares the rules for a new process.
func (r *rules) begun(p *process) {
	r.say("record %q, phase %q", p.record.Run, p.record.Phase)
	r.duties.reset()
	clear(r.moving.most)
	r.delegations.seen = time.Time{}
	r.forgetSent(&p.record)
	r.c.landed = func(pod *corev1.Pod) { r.landed(p, pod) }
	r.recovery.begin(p.record.Run, r.c.now)
	for _, n := range p.record.Nodes {
		if n.State == record.NodeRemoving && n.Shrink && !n.Landed {
			r.doubt(n.Instance)
		}
	}
	if p.record.Run == "" && r.run != "" && r.c.plan.sized() { // the surge that the last run left belongs to the group now
		r.desired = r.c.cloud.desired - r.changed()
	}
	if p.record.Ledger.TargetMoved() {
		r.phase = 0 // the surge that was given back is launched again for the new target
	}
	if p.record.Run != r.run || p.record.Rollback != r.back {
		r.run, r.back, r.phase = p.record.Run, p.record.Rollback, 0
		clear(r.duties.batches)
		r.begunIn = ""
		r.soaks, r.waited = soaks{early: r.soaks.early}, waited{}
		clear(r.deadlines) // nodes on the way back are drained for another reason
	}
}

// serving counts the group's nodes that can take pods and are not being removed.
func (r *rules) serving(rec record.Record) int {
	n := 0
	for name, node := range r.c.nodes {
		i := r.c.instanceOf(node)
		wantsFlavor := rec.Run == "" || len(rec.Request.Current) > 0 // a rollback asks for no labels
		lacking := node.Labels[imageLabel] == "" || (wantsFlavor && node.Labels[flavorLabel] == "")
		unproven := lacking && (i == nil || rec.Run == "" || i.revision == rec.Target.ID)
		fit := isReady(node) && !r.c.isClosed(node)
		if r.c.fellSilent[node.UID] { // with its taint, which stays a moment longer
			fit = !silent(node, r.c.now) && !r.c.isKeptClosed(node)
		}
		if node.Labels[groupLabel] == "" || unproven || !fit {
			continue
		}
		if r.c.plan.listed() && (i == nil || i.leaving || !i.inService) {
			continue
		}
		started, ok := rec.Nodes[name]
		if !ok || started.UID != node.UID || started.State == record.NodeQuarantined {
			n++
		}
	}
	return n
}

// step checks one decision against the rules, before its actions are begun and after its record is stored.
func (r *rules) step(p *process, w *upgrade.World, step *upgrade.Step) {
	r.note(w, step)
	r.delegations.read = w.Group.Observed
	if p.turns%40 == 1 && !r.c.plan.hasFault(StoreSlow) { // answers arrive while the record is stored
		same := *w
		same.Memo = nil
		if again := upgrade.Next(same); !reflect.DeepEqual(again, *step) {
			r.fail("pure", "the same world gives another step: %+v and %+v", *step, again)
		}
	}
	if step.Finished && (r.quiet && len(step.Actions) > 0 || step.Record.Result == "") {
		r.fail("end", "finished with %v to do and result %q", step.Actions, step.Record.Result)
	}
	if !step.Finished && step.Wake.Before(w.Now) {
		r.fail("wake", "it wakes at %s, before %s", step.Wake, w.Now)
	}
	for _, b := range step.Blocked {
		if b.String() == "" || b.Remedy() == "" {
			r.fail("E52", "pod %s is blocked for no reason that is said", b.Pod)
		}
	}
	r.endsRefused(p, w, step)
	if r.c.plan.delegated() {
		r.delegated(p, w, step)
		return
	}
	if r.c.plan.shortLived() {
		r.expires(w, step)
		return
	}
	r.window(&step.Record)
	r.size(&step.Record)
	r.progress(w, &step.Record)
	r.verb(w, step)
	r.bothColours(w, step)
	r.autoscales(w, step)
	r.turns(w, step)
	r.duty(p, w, step)
	r.recovers(p, w, step)
	r.sees(p)
	r.rebuilds(p, w)
	r.remembers(w, step)
	r.awaitsFirst(w, step)
	r.saysOverdue(w, step)
	r.saysDenial(w, step)
	for _, action := range step.Actions {
		r.act(p, w, step, action)
	}
}

// note counts and prints what the step shows.
func (r *rules) note(w *upgrade.World, step *upgrade.Step) {
	r.tally.step(w, step)
	if r.tell == nil {
		return
	}
	before := w.Record
	if before.Phase != step.Record.Phase {
		r.say("phase %s, desired %d max %d", step.Record.Phase, w.Group.Desired, w.Group.Max)
	}
	if before.Stopping != step.Record.Stopping {
		r.say("stopping: %s %s", step.Record.Stopping, step.Record.Message)
	}
	for _, name := range sortedKeys(step.Record.Nodes) {
		if n := step.Record.Nodes[name]; before.Nodes[name].State != n.State {
			r.say("node %s is %s", name, n.State)
		}
	}
	for _, action := range step.Actions {
		r.say("-> %s", action)
	}
}

// window checks I1: at most Window nodes are draining or empty.
func (r *rules) window(rec *record.Record) {
	busy := 0
	for _, n := range rec.Nodes {
		switch n.State {
		case record.NodeDraining, record.NodeForcing, record.NodeEmpty:
			busy++
		}
	}
	window := rec.Request.Window
	if isDeletingBlue(rec) {
		window = mostDeleted
	}
	if rec.Run != "" && busy > window {
		r.fail("I1", "%d nodes in flight, window %d", busy, window)
	}
}

// size checks I9: the nodes that the upgrade adds and takes stay within bounds, in the ledger and in the group.
func (r *rules) size(record *record.Record) {
	if record.Run == "" || !r.c.plan.sized() || r.doubtful {
		return
	}
	least, most := -record.Request.MaxUnavailable, record.Request.Surge
	if owed := record.Ledger.Contribution(); owed < least || owed > most {
		r.fail("I9", "our contribution is %d, outside [%d, %d]", owed, least, most)
	}
	if change := r.c.cloud.desired - r.desired - r.changed(); change < least || change > most {
		r.fail("I9", "the group changed by %d because of us, outside [%d, %d]", change, least, most)
	}
	if len(r.c.cloud.scaledIn) > 0 {
		r.fail("E53", "the cloud had too many nodes and took %v itself", r.c.cloud.scaledIn)
	}
	if record.Request.KeepMax && !r.maxed && r.c.cloud.max != r.max {
		r.fail("keep-max", "the maximum is %d and was %d", r.c.cloud.max, r.max)
	}
}

// progress checks I8 and I10. A deadline moves only by the time during which no process was at work. No phase comes twice.
func (r *rules) progress(w *upgrade.World, rec *record.Record) {
	if rec.Stopping == record.PodEvictionFailure || rec.Result == record.PodEvictionFailure {
		clear(r.deadlines) // running the same command again gives the nodes their time again
	} else {
		for name, n := range w.Record.Nodes {
			left := n.State == record.NodeRemoving || w.Record.Phase == record.PhaseWait
			if _, kept := rec.Nodes[name]; left && !kept {
				delete(r.deadlines, n.UID) // the node is gone, or its termination was taken back
			}
		}
		for name, n := range rec.Nodes {
			if n.Deadline.IsZero() || n.State == record.NodeQuarantined {
				continue
			}
			if isDeletingBlue(rec) && (n.State == record.NodeForcing || n.State == record.NodeDraining) {
				delete(r.deadlines, n.UID) // its pods are deleted from then on
			}
			want, known := r.deadlines[n.UID]
			if before := w.Record.Nodes[name].State; before == record.NodeDraining || before == record.NodeEmpty {
				want = want.Add(w.Idle)
			}
			if known && !n.Deadline.Equal(want) {
				r.fail("I8", "the deadline of node %s moved from %s to %s, with nobody at work for %s", name, r.deadlines[n.UID], n.Deadline, w.Idle)
			}
			r.deadlines[n.UID] = n.Deadline
		}
	}
	if rec.Stopping != "" {
		clear(r.moved) // nodes that take pods again are drained again
	}
	if rec.Run == "" {
		return // there was nothing to do
	}
	if rec.Replaced > rec.Total {
		r.fail("total", "%d of %d nodes are replaced", rec.Replaced, rec.Total)
	}
	reached := slices.Index(phasesOf(rec), rec.Phase)
	if rec.Run == r.run && reached < r.phase {
		r.fail("I10", "phase %q after %q", rec.Phase, phasesOf(rec)[r.phase])
	}
	r.run, r.phase = rec.Run, reached
}

// mustGo reports whether a drain must wait until the pod has left its node. lost is true for a node whose kubelet no longer answers.
func mustGo(pod *corev1.Pod, lost bool) bool {
	if pod.Annotations[corev1.MirrorPodAnnotationKey] != "" || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if len(pod.OwnerReferences) > 0 && pod.OwnerReferences[0].Kind == string(DaemonSet) {
		return false
	}
	return !skipped(pod) && (pod.DeletionTimestamp == nil || !lost)
}

// silent reports whether the node's kubelet has been unreachable for so long that a drain does not wait for deleted pods.
func silent(node *corev1.Node, now time.Time) bool {
	return node != nil && !isReady(node) && now.Sub(node.Status.Conditions[0].LastTransitionTime.Time) >= 5*time.Minute
}
