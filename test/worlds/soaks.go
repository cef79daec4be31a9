package worlds

import (
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

// soakState is the state of the rules about blue-green upgrades.
type soakState struct {
	// total is the length of all soaks. beforeLast is the length of all soaks before the phase of the last soak.
	total, beforeLast time.Duration
	// lastDrainEnded is when the drain of a node last ended. lastBegan is when the phase of the last soak began.
	lastDrainEnded, lastBegan time.Time
	// lastHasBegun is true after the last soak has begun. completed is true after a user has ended it.
	lastHasBegun, completed bool
	// exitsEarly is true for a process that begins long before the end of a soak. It must exit at once.
	exitsEarly bool
}

// checkBlueGreen checks one decision of a blue-green upgrade.
func (r *rules) checkBlueGreen(w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if !isBlueGreen(rec) || rec.Stopping == record.Aborted {
		return
	}
	if r.soaks.exitsEarly && r.undisturbed && (len(step.Actions) > 0 || !step.Finished || rec.Result != record.Waiting) {
		r.fail("G47", "it soaks until %s, and the command does %v: %q", w.Record.Soak.Until, step.Actions, rec.Result)
	}
	r.checkScaleDownDisabledFirst(w, step)
	r.checkBatchesAndSoaks(w, rec)
	r.checkSoak(w, rec)
	r.checkDeletions(w, step)
	if beganAt := rec.PhaseBegan.Add(time.Minute); r.undisturbed && (w.Now.After(beganAt) || rec.Result == record.Waiting) {
		r.checkScaleDownDisabled(w, rec)
	}
}

// checkBatchesAndSoaks checks G44 to G47. Nodes are started in batches, each after the soak of the previous batch. A node that is not
// empty in time is kept.
func (r *rules) checkBatchesAndSoaks(w *upgrade.World, rec *record.Record) {
	for name, before := range w.Record.Nodes {
		n, kept := rec.Nodes[name]
		if isInDrain(before.State) && (!kept || !isInDrain(n.State)) {
			r.soaks.lastDrainEnded = w.Now
		}
		if m := memberNamed(w, name); m != nil && kept && n.State == record.NodeParked && before.State != record.NodeParked && n.Reason == "" {
			for _, pod := range m.Pods {
				if mustLeave(pod, isSilent(m.Node, w.Now)) {
					r.fail("G44", "node %s is parked as empty, but it has pod %s", name, pod.Name)
				}
			}
		}
	}
	if rec.Phase != record.PhaseDrainBlue {
		return
	}
	for name, n := range rec.Nodes {
		if _, known := w.Record.Nodes[name]; known || n.Batch == 0 {
			continue
		}
		asked := rec.Request.BlueGreen
		switch {
		case asked.Batch == 0:
			r.fail("G46", "node %s is drained, but the batch size is 0", name)
		case n.Batch == 1 || r.duties.batches[n.Batch] != nil:
		case r.soaks.total >= maxSoak:
			r.fail("G50", "node %s is drained after soaks of %s", name, r.soaks.total)
		case w.Now.Sub(r.soaks.lastDrainEnded) < asked.BatchSoak.Duration:
			r.fail("G47", "batch %d is begun only %s after the drain of the previous batch", n.Batch, w.Now.Sub(r.soaks.lastDrainEnded))
		}
		for other, o := range w.Record.Nodes {
			if o.Batch < n.Batch && isInDrain(o.State) {
				r.fail("G45", "batch %d is begun while node %s of batch %d is %q", n.Batch, other, o.Batch, o.State)
			}
		}
	}
}

func isInDrain(s record.NodeState) bool {
	return s == record.NodeDraining || s == record.NodeForcing || s == record.NodeEmpty
}

// checkSoak checks G47 to G52. Each soak has its requested length, and all soaks together take at most a week. The last soak ends
// early only if a user requests it.
func (r *rules) checkSoak(w *upgrade.World, rec *record.Record) {
	before, now, asked := w.Record.Soak, rec.Soak, rec.Request.BlueGreen
	soaksLast := rec.Phase == record.PhaseSoak || rec.Phase == record.PhaseDeleteBlue
	completes := w.Asked.Verb == record.VerbComplete && w.Asked.Run == rec.Run && (w.Record.Phase == record.PhaseSoak || rec.Phase == record.PhaseSoak)
	r.soaks.completed = r.soaks.completed || completes
	if soaksLast && r.soaks.lastBegan.IsZero() {
		r.soaks.lastBegan, r.soaks.beforeLast = w.Now, r.soaks.total
	}
	ended := !before.Until.After(w.Now) // the next soak may begin at once
	switch {
	case now.Until.Equal(before.Until):
	case now.Until.IsZero() && now.Left.Duration > 0 && ended && before.Left.Duration == 0 && w.Record.Phase != rec.Phase:
		r.checkLengthOfNewSoak(w, rec, soaksLast)
	case now.Until.IsZero() && now.Left.Duration > 0:
		if left := before.Until.Sub(w.Now); now.Left.Duration != left {
			r.fail("G54", "%s of the soak are left at the pause, but the record has %s", left, now.Left)
		}
	case now.Until.IsZero():
		if w.Now.Before(before.Until) && !completes {
			r.fail("G47", "a soak ends %s before its time", before.Until.Sub(w.Now))
		}
	case before.Until.IsZero() || (ended && w.Record.Phase != rec.Phase):
		r.checkLengthOfNewSoak(w, rec, soaksLast)
	case !completes || now.Until.After(w.Now):
		r.fail("G52", "the end of a soak moves from %s to %s", before.Until, now.Until)
	}
	if completes && w.Record.Phase == record.PhaseSoak && now.Until.After(w.Now) && !before.Until.IsZero() && rec.Stopping == "" && rec.Result == "" {
		r.fail("G52", "it soaks until %s, although a user completes the soak", now.Until)
	}
	if overdue := now.Until.Add(time.Minute); r.undisturbed && r.c.plan.Stay && !now.Until.IsZero() && w.Now.After(overdue) && !r.lacksPods(w) {
		r.fail("G49", "a soak ended at %s, but the upgrade does not continue", now.Until)
	}
	if due := min(asked.Soak.Duration, maxSoak-r.soaks.beforeLast); rec.Phase == record.PhaseDeleteBlue && w.Record.Phase != rec.Phase && !r.soaks.completed && w.Now.Sub(r.soaks.lastBegan) < due {
		r.fail("G49", "outdated nodes are deleted %s after the last soak began, want %s", w.Now.Sub(r.soaks.lastBegan), due)
	}
}

// checkLengthOfNewSoak checks the length that a beginning soak is given: the requested length, the rest of the week, or the rest of a
// paused soak. isLast is true for the soak before the outdated nodes are deleted.
func (r *rules) checkLengthOfNewSoak(w *upgrade.World, record *record.Record, isLast bool) {
	want := w.Record.Soak.Left.Duration
	if want == 0 {
		want = record.Request.BlueGreen.BatchSoak.Duration
		if isLast {
			want = record.Request.BlueGreen.Soak.Duration
		}
		want = max(0, min(want, maxSoak-r.soaks.total))
		r.soaks.total += want
		if isLast && r.soaks.lastHasBegun {
			r.fail("G49", "it soaks for a second time before the outdated nodes are deleted")
		}
		r.soaks.lastHasBegun = isLast
	}
	got := record.Soak.Until.Sub(w.Now)
	if record.Soak.Until.IsZero() { // the soak is paused when it begins
		got = record.Soak.Left.Duration
	}
	if got != want {
		r.fail("G50", "a soak takes %s, want %s", got, want)
	}
}

// checkDeletions checks G53: outdated nodes and their pods are deleted only in the phase DeleteBlue. That phase cannot be paused or
// rolled back.
func (r *rules) checkDeletions(w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if !isDeletingBlue(rec) {
		for _, action := range step.Actions {
			_, deletes := action.(schedule.Deletion)
			if a, ends := action.(nodegroup.Terminate); ends {
				m := memberNamed(w, a.Node)
				deletes = m != nil && m.Outdated
			}
			if deletes {
				r.fail("G53", "%s in phase %q", action, rec.Phase)
			}
		}
		return
	}
	paused := rec.Stopping == record.Paused && rec.PausedBy != ""
	if w.Record.Stopping == "" && w.Record.Phase == rec.Phase && (paused || strings.HasPrefix(rec.Message, "stopped for a rollback")) {
		r.fail("G53", "it stops while outdated nodes are deleted: %s", rec.Message)
	}
}

// checkGraceUpToAnHour checks G53: a deleted pod keeps its grace period, but gets at most an hour.
func (r *rules) checkGraceUpToAnHour(pod *corev1.Pod, a schedule.Deletion) {
	want := int64(0)
	if *pod.Spec.TerminationGracePeriodSeconds > 3600 {
		want = 3600
	}
	if a.Grace != want {
		r.fail("G53", "%s with a grace period of %ds, want %d", a, a.Grace, want)
	}
}

// checkFencedFirst checks G43 and G53: pods are evicted only after all outdated nodes are fenced, and only in the phase DrainBlue.
func (r *rules) checkFencedFirst(w *upgrade.World, stored *record.Record, a nodegroup.Action) {
	if !isBlueGreen(stored) {
		return
	}
	if stored.Phase != record.PhaseDrainBlue {
		r.fail("G53", "%s in phase %q", a, stored.Phase)
	}
	for i := range w.Members {
		if m := &w.Members[i]; m.Outdated && m.Node != nil && m.Instance.State != nodegroup.InstanceLeaving && !m.Node.Spec.Unschedulable {
			r.fail("G43", "%s, and node %s is not fenced", a, m.Name())
		}
	}
}

// checkScaleDownDisabled checks G42 and G51: nodes of both colours have the scale-down-disabled annotation during the drain. During
// the last soak, only outdated nodes have it.
func (r *rules) checkScaleDownDisabled(w *upgrade.World, rec *record.Record) {
	if rec.Phase != record.PhaseDrainBlue && rec.Phase != record.PhaseSoak {
		return
	}
	for i := range w.Members {
		m := &w.Members[i]
		if m.Node == nil || m.Instance.State != nodegroup.InstanceInService || (!m.Outdated && !strings.HasPrefix(m.Name(), "new-")) {
			continue
		}
		if !m.Outdated && nodegroup.HasNotReadyTaint(m.Node) {
			continue // the control plane is about to change this node, so the upgrade's change may conflict
		}
		want := m.Outdated || rec.Phase == record.PhaseDrainBlue
		if held := hasScaleDownDisabled(m.Node); held != want {
			rule := "G42"
			if !want {
				rule = "G51"
			}
			r.fail(rule, "node %s has the scale-down-disabled annotation: %t, in phase %q", m.Name(), held, rec.Phase)
		}
	}
}

// checkScaleDownDisabledFirst checks G42 at the start: outdated nodes have the scale-down-disabled annotation before the upgrade
// changes the group.
func (r *rules) checkScaleDownDisabledFirst(w *upgrade.World, step *upgrade.Step) {
	if step.Record.Phase != record.PhaseSetup || step.Record.Stopping != "" || !slices.ContainsFunc(step.Actions, nodegroup.IsCloudAction) {
		return
	}
	for i := range w.Members {
		m := &w.Members[i]
		if m.Outdated && hasReadyNode(m) && m.Instance.State == nodegroup.InstanceInService && !hasScaleDownDisabled(m.Node) {
			r.fail("G42", "%v, but node %s has no scale-down-disabled annotation", step.Actions, m.Name())
		}
	}
}

// keepsBothColours reports whether the upgrade stopped in a phase in which the nodes of both colours stay.
func (r *rules) keepsBothColours(rec *record.Record) bool {
	staying := []record.Phase{record.PhaseCordonBlue, record.PhaseDrainBlue, record.PhaseSoak, record.PhaseDeleteBlue}
	if r.c.plan.isAutoscaled() {
		staying = append(staying, record.PhaseWait)
	}
	return (isBlueGreen(rec) || r.c.plan.isAutoscaled()) && slices.Contains(staying, rec.Phase) && rec.Result != record.Aborted && rec.Stopping != record.Aborted
}

// checkBothColoursKept checks G54: outdated nodes keep their fence, and the cloud's processes stay suspended. Nodes that were current
// before are as without the upgrade.
func (r *rules) checkBothColoursKept(rec record.Record) {
	if rec.Result != record.Waiting && !strings.Contains(rec.Message, "both stay") {
		r.fail("G54", "it does not say that both colours stay: %q", rec.Message)
	}
	for _, process := range []string{rebalance, alarm} {
		if !r.resumedByOthers && !slices.Contains(r.c.cloud.suspended, process) {
			r.fail("G54", "%s runs again", process)
		}
	}
	for _, name := range sortedKeys(r.c.nodes) {
		node, shadow, i := r.c.nodes[name], r.c.shadow[name], r.c.instanceOf(r.c.nodes[name])
		switch {
		case i == nil || i.leaving || shadow == nil || r.stripped[name]:
		case len(rec.Request.Current) == 0 && strings.HasPrefix(name, "cur-") && node.Annotations[nodemark.AnnotationRun] == "" && !haveSameMarks(node, shadow):
			r.fail("I4", "node %s, which was current, is %+v %v %v", name, node.Spec, node.Labels, node.Annotations)
		case !r.hasOnlyUserRequests() || rec.Phase == record.PhaseCordonBlue || i.revision == rec.Target.ID:
		case !node.Spec.Unschedulable || node.Annotations[nodemark.AnnotationRun] != rec.Run:
			r.fail("G54", "node %s is no longer fenced: %+v %v", name, node.Spec, node.Annotations)
		}
	}
}

// checkWaiting checks a process that exited until its soak is over.
func (r *rules) checkWaiting(record record.Record) {
	left := record.Soak.Until.Sub(record.Ended)
	switch {
	case r.c.plan.Stay || left <= longWait || (!isBlueGreen(&record) && !r.c.plan.isAutoscaled()):
		r.fail("end", "the process exits with %s of the wait left", left)
	case !strings.Contains(record.Message, record.Soak.Until.UTC().Format(time.RFC3339)):
		r.fail("G47", "the message does not contain the end of the soak: %q", record.Message)
	}
	for name, n := range record.Nodes {
		if isInDrain(n.State) {
			r.fail("G47", "the process exits while node %s is %q", name, n.State)
		}
	}
}
