package worlds

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// maxGrace is the longest grace period that a pod gets (GKE G75).
const maxGrace = 24 * time.Hour

// drawAutoscaled makes the upgrade an autoscaled blue-green one in some worlds, in which an autoscaler launches the new nodes. It
// draws from its own generator, so that all other worlds stay the same.
func drawAutoscaled(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6175746f))}
	if !p.hasSize() || p.isDelegated() || p.isBlueGreen() || p.isShortLived() || !d.chance(7) {
		return
	}
	if d.chance(8) { // more nodes than the upgrade drains at the same time
		for len(p.Nodes) < 26 {
			p.Nodes = append(p.Nodes, Node{Zone: d.IntN(p.Zones)})
		}
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if d.chance(15) {
			w.Grace = 30 * time.Hour
		}
		if w.Kind == DaemonSet && w.Role == "" && d.chance(30) {
			w.Role = Protected
		}
	}
	p.Stay = d.chance(50)
	most := 6 * time.Hour
	if !p.Stay {
		most = week
	}
	r := &p.Request
	r.Strategy, r.Surge, r.MaxUnavailable, r.Window, r.BatchBarrier, r.OnTimeout = record.AutoscaledBlueGreen, 0, 0, 20, false, record.Force
	r.KeepMax = r.KeepMax && p.countOutdated() <= p.Room
	r.WaitForDrain = record.Duration{Duration: pick(d, 0, d.between(time.Second, 20*time.Minute), d.between(0, most), d.between(0, most))}
	d.addAutoscaledActors(p)
}

// addAutoscaledActors adds actors to an autoscaled blue-green upgrade. In half of these worlds, the only actors are users with
// requests, and processes that end.
func (d dice) addAutoscaledActors(p *Plan) {
	if d.chance(30) {
		return
	}
	kinds := []ActorKind{Pauses, Pauses, RollsBack, EndsSoak, Aborts, Kill, KillMidStep, Interrupt}
	if d.chance(50) {
		p.Faults, p.Actors, p.WatchLag, p.CloudLag = nil, nil, 0, 0
	} else {
		kinds = append(kinds, ScalerGrows, ScalerShrinks, ScalerShrinks, ScalerShrinks, AdminUncordons, AdminProtects, AdminResumes, AdminTerminates, AdminDeletes)
	}
	most := p.Request.WaitForDrain.Duration + time.Hour
	if p.Calm > 0 {
		p.Calm += most
	}
	for range 1 + d.IntN(4) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, kinds...), At: d.between(0, pick(d, 10*time.Minute, time.Hour, most)), Pick: d.IntN(1000)})
	}
}

func (p *Plan) isAutoscaled() bool { return p.Request.Strategy == record.AutoscaledBlueGreen }

// keepsTarget reports whether the upgrade keeps its first target when the template changes. An upgrade that keeps its target also
// keeps its fences when it stops.
func (p *Plan) keepsTarget() bool { return p.isBlueGreen() || p.isAutoscaled() }

// addNodesForPods acts as cluster-autoscaler when pods wait: it adds a node or two, up to the group's maximum.
func (u *user) addNodesForPods() {
	u.growForPods(func() {
		k := &u.c.cloud
		if k.desired >= k.max {
			return
		}
		n := min(1+u.c.rng.IntN(2), k.max-k.desired)
		k.desired += n
		u.rules.noteResize(n)
		u.c.reconcileSize()
	})
}

// sizeChangeByOthers returns by how many nodes other actors changed the group's size. If an autoscaler launches the new nodes,
// removals by the upgrade count too.
func (r *rules) sizeChangeByOthers() int {
	n := r.addedByOthers
	if r.c.plan.isAutoscaled() {
		for _, times := range r.c.cloud.shrunk {
			n -= times
		}
	}
	return n
}

// waitState is the state of the rules about autoscaled blue-green upgrades. begun is true after the wait has begun.
type waitState struct{ begun bool }

// checkAutoscaled checks one decision of an autoscaled blue-green upgrade.
func (r *rules) checkAutoscaled(w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if rec.Run == "" || !r.c.plan.isAutoscaled() {
		return
	}
	if strings.HasPrefix(rec.Message, "stopped for a rollback") {
		r.fail("G78", "it stops for a rollback in phase %q", rec.Phase)
	}
	for _, action := range step.Actions {
		r.checkAutoscaledAction(w, rec, action)
	}
	if rec.Stopping == record.Aborted || w.Record.Stopping == record.Aborted {
		return
	}
	r.checkWaitForDrain(w, rec)
	if r.undisturbed && rec.Stopping == "" && rec.Result == "" {
		r.checkIdleNodesRemoved(w, step)
		r.checkScaleDownDisabledInDrain(w, rec)
	}
}

// checkAutoscaledAction checks one action. The upgrade launches no node (G70). It raises the maximum by at most the number of
// outdated nodes (G77). It evicts pods only after the wait (G71), with a grace period of at most a day (G75). During the wait it
// removes no node with protected pods (G72).
func (r *rules) checkAutoscaledAction(w *upgrade.World, rec *record.Record, action nodegroup.Action) {
	drains := rec.Phase == record.PhaseDrainBlue || rec.Phase == record.PhaseDeleteBlue
	switch a := action.(type) {
	case nodegroup.AddCapacity:
		r.fail("G70", "%s", a)
	case nodegroup.RaiseMax:
		if most := r.max + rec.Total; !r.maxChanged && a.Max > most {
			r.fail("G77", "%s, with %d before and %d outdated nodes", a, r.max, rec.Total)
		}
	case nodemark.Fence:
		if room := r.max + len(r.c.plan.Nodes); r.undisturbed && !rec.Request.KeepMax && r.c.cloud.max == r.max && room > r.max {
			r.fail("G77", "%s, but the maximum was not raised", a)
		}
	case schedule.Eviction:
		if !drains {
			r.fail("G71", "%s in phase %q", a, rec.Phase)
		}
		for i := range w.Members {
			if m := &w.Members[i]; m.Outdated && m.Node != nil && m.Instance.State != nodegroup.InstanceLeaving && !m.Node.Spec.Unschedulable {
				r.fail("G71", "%s, and node %s is not fenced", a, m.Name())
			}
		}
	case schedule.Deletion:
		r.checkGraceUpToADay(w, a, drains)
	case nodegroup.Terminate:
		m := memberNamed(w, a.Node)
		if drains || m == nil || m.Node == nil {
			return
		}
		if !a.Shrink && r.undisturbed {
			r.fail("G73", "%s without shrinking the group, which is at its minimum", a)
		}
		if slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return isProtected(pod) || mustLeave(pod, isSilent(m.Node, w.Now)) }) && w.Record.Nodes[a.Node].State != record.NodeRemoving {
			r.fail("G72", "%s in phase %q, but the node has pods that must stay", a, rec.Phase)
		}
	}
}

func (r *rules) checkGraceUpToADay(w *upgrade.World, a schedule.Deletion, drains bool) {
	m := memberNamed(w, a.Node)
	if m == nil || !drains {
		r.fail("G75", "%s before the drain", a)
		return
	}
	for _, pod := range m.Pods {
		want := int64(0)
		if *pod.Spec.TerminationGracePeriodSeconds > int64(maxGrace.Seconds()) {
			want = int64(maxGrace.Seconds())
		}
		if pod.UID == a.UID && a.Grace != want {
			r.fail("G75", "%s with a grace period of %ds, want %d", a, a.Grace, want)
		}
	}
}

// checkWaitForDrain checks G71, G74 and G82. The wait has the requested length, counted from the fence, and begins only once. It ends
// early only if no outdated node is left.
func (r *rules) checkWaitForDrain(w *upgrade.World, rec *record.Record) {
	before, now := w.Record.Soak, rec.Soak
	left := countOutdatedLeft(w)
	switch {
	case now.Until.Equal(before.Until):
	case now.Until.IsZero() && now.Left.Duration > 0:
		if rest := before.Until.Sub(w.Now); now.Left.Duration != rest {
			r.fail("G78", "%s of the wait are left at the pause, but the record has %s", rest, now.Left)
		}
	case now.Until.IsZero():
		if w.Now.Before(before.Until) && left > 0 {
			r.fail("G71", "the wait ends %s before its time, with %d outdated nodes", before.Until.Sub(w.Now), left)
		}
	case !before.Until.IsZero():
		r.fail("G82", "the end of the wait moves from %s to %s", before.Until, now.Until)
	default:
		want := before.Left.Duration
		if want == 0 {
			want = rec.Request.WaitForDrain.Duration
			if r.waited.begun {
				r.fail("G82", "the wait begins a second time")
			}
		}
		r.waited.begun = true
		if got := now.Until.Sub(w.Now); got != want {
			r.fail("G71", "it waits for %s, want %s", got, want)
		}
	}
	if rec.Stopping == record.Paused && rec.PausedBy != "" && rec.Phase == record.PhaseWait && now.Until.After(w.Now) {
		r.fail("G78", "it is paused, and its wait still ends at %s", now.Until)
	}
	if due := w.Record.Phase == record.PhaseCordonBlue && rec.Phase == record.PhaseDrainBlue && rec.Request.WaitForDrain.Duration > 0 && left > 0; due {
		r.fail("G71", "it drains without waiting")
	}
	if overdue := now.Until.Add(time.Minute); r.undisturbed && r.c.plan.Stay && !now.Until.IsZero() && w.Now.After(overdue) {
		r.fail("G71", "the wait ended at %s, but the upgrade does not continue", now.Until)
	}
}

// countOutdatedLeft counts the outdated members. A node that the upgrade is removing counts until the boot timeout is over. A node
// that an actor is removing does not count.
func countOutdatedLeft(w *upgrade.World) (n int) {
	for i := range w.Members {
		m := &w.Members[i]
		left := m.Instance.State != nodegroup.InstanceLeaving
		if known := w.Record.Nodes[m.Name()]; known.State == record.NodeRemoving {
			left = w.Now.Before(known.Terminated.Add(w.Record.Request.BootTimeout.Duration))
		}
		if m.Outdated && left {
			n++
		}
	}
	return n
}

// checkIdleNodesRemoved checks G72 to G74: during the wait, the upgrade removes outdated nodes without pods if the group may shrink.
// It does not wait if no outdated node is left.
func (r *rules) checkIdleNodesRemoved(w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if rec.Phase != record.PhaseWait || w.Record.Phase != record.PhaseWait {
		return
	}
	if len(rec.Nodes) == 0 && countOutdatedLeft(w) == 0 {
		r.fail("G74", "it waits until %s, and no outdated node is left", rec.Soak.Until)
	}
	if len(rec.Nodes) > 0 || w.Group.Desired <= w.Group.Min {
		return
	}
	for i := range w.Members {
		m := &w.Members[i]
		stays := func(pod *corev1.Pod) bool { return isProtected(pod) || mustLeave(pod, false) }
		if m.Outdated && hasReadyNode(m) && m.Node.Spec.Unschedulable && m.Instance.State == nodegroup.InstanceInService && !slices.ContainsFunc(m.Pods, stays) && !slices.ContainsFunc(m.Pods, isSkipped) {
			r.fail("G72", "node %s has no pods, but it is not removed", m.Name())
		}
	}
}

// checkScaleDownDisabledInDrain checks G81: outdated nodes have the scale-down-disabled annotation during the drain, and not during
// the wait. New nodes never have it.
func (r *rules) checkScaleDownDisabledInDrain(w *upgrade.World, rec *record.Record) {
	if drains := rec.Phase == record.PhaseDrainBlue; (!drains && rec.Phase != record.PhaseWait) || w.Now.Before(rec.PhaseBegan.Add(time.Minute)) {
		return
	}
	for i := range w.Members {
		m := &w.Members[i]
		if m.Node == nil || !isNodeReady(m.Node) || m.Instance.State != nodegroup.InstanceInService || m.Node.CreationTimestamp.After(w.Now.Add(-2*time.Minute)) {
			continue
		}
		if m.Outdated && rec.Nodes[m.Name()].State == record.NodeRemoving {
			continue
		}
		if held := hasScaleDownDisabled(m.Node); held != (m.Outdated && rec.Phase == record.PhaseDrainBlue) {
			r.fail("G81", "node %s has the scale-down-disabled annotation: %t, in phase %q", m.Name(), held, rec.Phase)
		}
	}
}
