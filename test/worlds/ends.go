package worlds

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// checkStopped checks an upgrade that stopped, at its goal or before. Its result has a cause. Nodes that were not started are as
// without the upgrade. Processes that the upgrade suspended are resumed.
func (r *rules) checkStopped(rec record.Record) {
	r.tally.count("result", string(rec.Result))
	if r.c.plan.isDelegated() {
		r.checkDelegatedStop(rec)
		return
	}
	r.checkResultCause(rec)
	r.checkStandbyUntouched(rec)
	r.checkRenewedReleased(rec)
	r.checkWorkloadsWhole(rec)
	r.checkOutageReport(rec)
	if r.keepsBothColours(&rec) {
		r.checkBothColoursKept(rec)
		return
	}
	for _, name := range sortedKeys(r.c.nodes) {
		node, shadow := r.c.nodes[name], r.c.shadow[name]
		if i := r.c.instanceOf(node); r.reportsMarked(&rec, name) || r.c.plan.listsMachines() && (i == nil || i.leaving) {
			continue // the Node object is deleted with its machine
		}
		_, started := rec.Nodes[name]
		if shadow != nil && r.noteStray(name) && node.Annotations[nodemark.AnnotationRun] == "" {
			node, shadow = withoutOurAnnotations(node), withoutOurAnnotations(shadow)
		}
		ours := node.Annotations[nodemark.AnnotationRun] != ""
		if !ours && !r.stripped[name] && slices.ContainsFunc(slices.Collect(maps.Keys(node.Annotations)), func(key string) bool { return strings.HasPrefix(key, nodemark.Domain+"/") }) {
			r.fail("I4", "node %s is not fenced, but it still has annotations of the upgrade: %v", name, node.Annotations)
		}
		if started || shadow == nil || r.stripped[name] || (ours && rec.Request.KeepFence && rec.Result != record.Succeeded && rec.Result != record.Aborted) {
			continue
		}
		if !haveSameMarks(node, shadow) {
			r.fail("I4", "node %s was not started and is %+v %v %v; without the upgrade it would be %+v %v %v",
				name, node.Spec, node.Labels, node.Annotations, shadow.Spec, shadow.Labels, shadow.Annotations)
		}
	}
	theirs := r.c.plan.Suspended && !r.resumedByOthers
	kept := r.reportsNotResumed(&rec, rebalance) && slices.Contains(r.c.cloud.suspended, rebalance) || reportsSuspended(&rec) && (!r.undisturbed || r.isUnbalanced())
	kept = kept && (!r.resumedByOthers || slices.Contains(r.c.cloud.suspended, rebalance)) // the upgrade may not have seen that an admin resumed it a moment ago
	if suspended := slices.Contains(r.c.cloud.suspended, rebalance); suspended != (theirs || kept) && r.c.plan.hasSize() {
		r.fail("I4", "%s is suspended: %t, and was suspended by another actor: %t", rebalance, suspended, theirs)
	}
	if slices.Contains(r.c.cloud.suspended, alarm) && !r.resumedByOthers && !r.reportsNotResumed(&rec, alarm) {
		r.fail("I4", "%s is still suspended", alarm)
	}
}

// reportsSuspended reports whether the message says that rebalancing stays suspended.
func reportsSuspended(record *record.Record) bool {
	return strings.Contains(record.Message, rebalance+" stays suspended") || strings.Contains(record.Message, rebalance+", "+alarm+" stay suspended")
}

// reportsRefused reports whether the message names a refused request that begins with the given words.
func (r *rules) reportsRefused(record *record.Record, request string) bool {
	return !r.undisturbed && strings.Contains(record.Message, "to "+request)
}

// reportsNotResumed reports whether the message names a refused request to resume the process, alone or with others.
func (r *rules) reportsNotResumed(record *record.Record, process string) bool {
	_, request, refused := strings.Cut(record.Message, "to resume ")
	processes, _, _ := strings.Cut(request, ":")
	return refused && !r.undisturbed && slices.Contains(strings.Split(processes, ", "), process)
}

// countOfOthersPattern matches a message that names some requests or nodes, and only counts the others.
func countOfOthersPattern() *regexp.Regexp { return regexp.MustCompile(`and [0-9]+ more`) }

// reportsMarked reports whether the message says that the upgrade's marks could not be removed from the node.
func (r *rules) reportsMarked(record *record.Record, node string) bool {
	for _, request := range []string{"unfence node ", "leave node "} {
		if _, refused, said := strings.Cut(record.Message, "to "+request); said && !r.undisturbed && (strings.Contains(refused, node) || countOfOthersPattern().MatchString(refused)) {
			return true
		}
	}
	return false
}

// reportsLeftovers reports whether the record's message names leftovers of a refused request.
func (r *rules) reportsLeftovers(record *record.Record) bool {
	return slices.ContainsFunc([]string{"add ", "unfence node ", "leave node ", "resume ", "lower the group's max ", "terminate ", "set the group's revision "}, func(request string) bool {
		return r.reportsRefused(record, request)
	})
}

// isUnbalanced reports whether rebalancing the zones, if it ran, would terminate nodes.
func (r *rules) isUnbalanced() bool {
	zones := r.c.cloud.nodesPerZone()
	least, most := len(r.c.cloud.instances), 0
	for i := range r.c.plan.Zones {
		least, most = min(least, zones[zoneName(i)]), max(most, zones[zoneName(i)])
	}
	return most-least > 1
}

func haveSameMarks(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}

// checkResultCause checks that the world contains a cause of the result, and that the message names the cause.
func (r *rules) checkResultCause(rec record.Record) {
	p := r.c.plan
	switch rec.Result {
	case record.Succeeded:
	case record.LeftBehind:
		if p.isShortLived() {
			return
		}
		if rec.Request.OnTimeout != record.Skip || r.easy {
			r.fail("liveness", "nodes are left behind for no reason")
		}
	case record.PodEvictionFailure:
		r.checkEvictionFailure(rec)
	case record.NodeCreationFailure:
		lacksDevice := r.c.hadNoNewDevices(r.c.now.Add(-rec.Request.BootTimeout.Duration)) && strings.Contains(rec.Message, "does not offer "+device)
		if r.undisturbed && !lacksDevice && p.Boot*5/4+p.ClosedFor+5*time.Minute < rec.Request.BootTimeout.Duration {
			r.fail("liveness", "the result is NodeCreationFailure, but new nodes boot in time: %s", rec.Message)
		}
		if !strings.Contains(rec.Message, "new nodes are ready: ") {
			r.fail("E33", "the message names no cause: %q", rec.Message)
		}
		r.checkSurgeReturned(rec)
	case record.WorkloadUnhealthy:
		r.checkUnhealthyMessage(rec)
	case record.Failed:
		refused := (p.hasFault(Forbidden) || p.Denial.Kind != "") && strings.Contains(rec.Message, "forbidden")
		tooLong := !r.undisturbed && strings.Contains(rec.Message, "has had no effect for")
		aimed := p.hasActor(RecordMachineChanged) && reportsChangedRecord(&rec)
		scribbled := p.hasActor(AnnotationOverwritten) && strings.Contains(rec.Message, unreadable)
		if scribbled && slices.ContainsFunc(strings.Split(rec.Message, "; "), func(request string) bool {
			return strings.Contains(request, unreadable) && strings.Contains(request, "has had no effect for")
		}) {
			r.fail("S20", "it retried a request that always fails: %s", rec.Message)
		}
		unread := p.hasFault(CloudBlind, BalancersBlind) && strings.Contains(rec.Message, "load balancers: they have not been read for")
		if !refused && !tooLong && !aimed && !scribbled && !unread && !r.reportsLeftovers(&rec) {
			r.fail("liveness", "it fails without a cause: %q", rec.Message)
		}
	case record.Aborted:
		if !p.hasActor(Aborts) {
			r.fail("liveness", "it is aborted, but no user requested that")
		}
	case record.Paused:
		if p.hasActor(Pauses) && rec.PausedBy != "" {
			r.checkPaused(rec)
			return
		}
		uncordoned := p.hasActor(AdminUncordons) && strings.Contains(rec.Message, "a user or another process uncordoned node")
		protected := p.hasActor(AdminProtects) && strings.Contains(rec.Message, "a user or another process protected instance")
		if !uncordoned && !protected {
			r.fail("liveness", "it pauses without a cause: %q", rec.Message)
		}
	case record.TargetMoved:
		if !p.hasActor(TargetMoves) || p.keepsTarget() {
			r.fail("liveness", "the result is TargetMoved, but the target did not change")
		}
	case record.Waiting:
		if !p.isShortLived() {
			r.checkWaiting(rec)
		}
	case record.Interrupted:
		gaveWay := p.hasActor(Aborts, RollsBack) && strings.HasPrefix(rec.Message, "stopped for a")
		if !p.hasActor(Interrupt) && !gaveWay {
			r.fail("liveness", "the result is Interrupted, but nothing interrupted it")
		}
	default:
		r.fail("end", "result %q", rec.Result)
	}
}

// checkSurgeReturned checks S5: if new nodes were not ready in time and no old node was started, the upgrade removes its empty new
// nodes.
func (r *rules) checkSurgeReturned(rec record.Record) {
	if rec.Phase != record.PhaseScaleUp || rec.Ledger.ConfirmedSurge() <= 0 || r.unclearTermination || rec.Rollback || r.c.plan.hasActor(TargetMoves) {
		return // a launch without an answer may be the upgrade's or another process's, and nodes of an earlier target are outdated
	}
	r.checkNoIdleNode("S5", rec)
}

// checkNoIdleNode checks that an upgrade that removed its surge nodes has kept no empty one.
func (r *rules) checkNoIdleNode(rule string, record record.Record) {
	if strings.Contains(record.Message, "they are still to be launched") {
		return // the cloud may have launched them after the stop
	}
	for _, i := range r.c.cloud.liveInstances() {
		if refused := strings.Contains(record.Message, "to terminate instance ") && strings.Contains(record.Message, i.id); refused || r.c.plan.namesZones() && record.Ledger.ContributionIn(i.zone) <= 0 {
			continue
		}
		idle := !slices.ContainsFunc(r.c.podsOn(r.c.nodeNameOf(i)), func(pod *corev1.Pod) bool { return mustLeave(pod, false) })
		if idle && strings.HasPrefix(i.id, "i-new-") && r.c.cloud.desired > r.c.cloud.min { // a group at its minimum cannot shrink
			r.fail(rule, "instance %s has no pods and is not removed, with a contribution of %d nodes", i.id, record.Ledger.Contribution())
		}
	}
}

// checkEvictionFailure checks E42 and E52: the upgrade fails because of a drain only if OnTimeout is Fail. Its message names the node,
// a pod, and the reason.
func (r *rules) checkEvictionFailure(rec record.Record) {
	m := rec.Message
	named := strings.Contains(m, `draining node "`) && (strings.Contains(m, "target group web still has") || strings.Contains(m, "pod "+namespace+"/") || strings.Contains(m, "still terminating: "+namespace+"/") || strings.Contains(m, " their eviction: "+namespace+"/"))
	switch {
	case isBlueGreen(&rec):
		r.fail("G44", "it fails because a drain takes too long: %s", m)
	case rec.Request.OnTimeout != record.Fail:
		r.fail("E43", "it fails, but OnTimeout is %s: %s", rec.Request.OnTimeout, m)
	case !named:
		r.fail("E52", "the message names no pod: %q", m)
	case r.easy || (r.c.calm && rec.Started.After(worldStart().Add(r.c.plan.Calm))):
		r.fail("liveness", "nothing kept the pods from leaving: %s", m)
	}
}

// checkWorkloadsWhole checks I14 in undisturbed worlds. After a success, each workload has as many ready pods as before the upgrade.
// If the upgrade stops because of a workload that had several ready pods, the workload has at least one, unless its owner scaled it
// to zero and no pod was created since.
func (r *rules) checkWorkloadsWhole(rec record.Record) {
	if !r.undisturbed || rec.Run == "" || rec.Request.NoImplicitBudgets || rec.Request.OnTimeout == record.Force {
		return
	}
	for i := range r.c.plan.Workloads {
		app := &r.c.plan.Workloads[i]
		first := r.recovery.readyAtFirst[app.id().String()]
		if !app.isReplicated() || first == 0 || app.Broken || app.Tolerant || app.Undead || app.Role == Completes || app.Role == Skipped || isIgnored(&rec, app.id().String()) {
			continue
		}
		if first = r.requiredReady(app, first, &rec); first == 0 {
			continue
		}
		ready := 0
		for _, pod := range r.c.pods {
			if pod.Labels["app"] == app.Name && pod.DeletionTimestamp == nil && (isPodReady(pod) || r.c.brieflyUnready[pod.UID]) {
				ready++ // the upgrade did not make the brieflyUnready pods unready
			}
		}
		switch {
		case rec.Result == record.Succeeded && ready < first && !r.c.calm:
			r.fail("I14", "it succeeds, but %d pods of %s are ready, and %d were ready before", ready, app.id(), first)
		case rec.Result == record.WorkloadUnhealthy && ready == 0 && first > 1 && !isBlueGreen(&rec) && app.Flaps == 0 && (!app.Shut || app.Low > 0) && !r.recovery.roomless[app.id().String()] && (app.Homeless || !strings.Contains(rec.Message, "no node takes it")): // if no node took the pods, the upgrade waited for room
			r.fail("I14", "it stops, but no pod of %s is ready, and %d were ready before", app.id(), first)
		}
	}
}

// checkOutageReport checks that an upgrade that stops because of workloads reports which workloads have no ready pod.
func (r *rules) checkOutageReport(rec record.Record) {
	if !r.undisturbed || rec.Result != record.WorkloadUnhealthy {
		return
	}
	for i := range r.c.plan.Workloads {
		app := &r.c.plan.Workloads[i]
		known, on := rec.Workloads[app.id().String()]
		if !app.isReplicated() || !on || known.Ready == 0 {
			continue
		}
		ready := 0
		for _, pod := range r.c.pods {
			if pod.Labels["app"] == app.Name && pod.DeletionTimestamp == nil && isPodReady(pod) {
				ready++
			}
		}
		if known.Out != (ready == 0) {
			r.fail("outage", "the record says that it has no ready pod: %t, but %d pods of %s are ready", known.Out, ready, app.id())
		}
	}
}

// checkGoalReached checks a group whose upgrade reached its goal.
func (r *rules) checkGoalReached(rec record.Record) {
	for _, name := range sortedKeys(r.c.nodes) {
		node := r.c.nodes[name]
		state := rec.Nodes[name].State
		kept := state == record.NodeQuarantined || state == record.NodeDrained || rec.Result == record.LeftBehind && r.c.plan.isShortLived()
		if node.Labels[groupLabel] == "" || kept || r.stripped[name] {
			continue
		}
		i := r.c.instanceOf(node)
		if r.c.plan.listsMachines() && (i == nil || i.leaving) {
			continue
		}
		if r.isOutdated(node, i, rec) && (i == nil || !i.standby) {
			r.fail("end", "node %s is still outdated, in state %q", name, state)
		}
		if node.Annotations[nodemark.AnnotationRun] != "" {
			r.fail("end", "node %s still has annotations of the upgrade", name)
		}
	}
	if r.c.plan.hasSize() && rec.Run != "" && !r.unclearTermination {
		r.checkFinalSize(rec)
	}
	if owed := rec.Ledger.Contribution(); r.c.plan.isBlueGreen() && r.c.plan.namesZones() && r.hasOnlyUserRequests() && rec.Result == record.Succeeded && owed != 0 { // otherwise the group itself launches more nodes of the old revision
		r.fail("G56", "it ends with a contribution of %d nodes, rolled back: %t", owed, rec.Rollback)
	}
	if serving := r.countServing(rec); r.undisturbed && r.c.plan.hasSize() && !r.c.plan.isAutoscaled() && serving < r.servingBefore {
		r.fail("E26", "it ends with %d serving nodes, of %d before", serving, r.servingBefore)
	}
}

func (r *rules) isOutdated(node *corev1.Node, i *instance, record record.Record) bool {
	target := record.Target.ID
	if record.Run == "" {
		target = r.c.cloud.wanted
	}
	if wants := len(record.Request.Current) > 0; wants && r.undisturbed && node.Labels[flavorLabel] != flavorOf(target) {
		return true
	}
	if i != nil {
		return i.revision != target && !r.c.plan.hasActor(TargetMoves)
	}
	return node.Labels[imageLabel] != target && !r.c.plan.hasActor(TargetMoves)
}

// checkFinalSize checks I9 at the end: the group has the same size and zones as before the upgrade. Exceptions are changes by other
// actors, and a difference that the message reports.
func (r *rules) checkFinalSize(rec record.Record) {
	k, owed := &r.c.cloud, rec.Ledger.Contribution()
	isSaid := strings.Contains(rec.Message, "more node")
	isUnexplained := owed > 0 && !isSaid && r.removedByOthers == 0 && r.sizeChangeByOthers() >= 0 // other actors have removed fewer nodes than were added
	if owed < 0 || isUnexplained || (isSaid && r.undisturbed && k.desired <= r.desired) {
		r.fail("I9", "it ends with a contribution of %d nodes, and the message is %q", owed, rec.Message)
	}
	if r.undisturbed && owed != 0 && rec.Result == record.Succeeded {
		r.fail("I9", "it succeeds with a contribution of %d nodes", owed)
	}
	if want := r.desired + r.sizeChangeByOthers() + owed; k.desired != want {
		r.fail("I9", "the desired size is %d, want %d", k.desired, want)
	}
	least, most := max(r.max, k.desired), max(r.max, k.desired)
	if owed > 0 || r.c.plan.isAutoscaled() {
		most += r.removedByOthers // the autoscaler or an admin may have removed a node during the last reading of the group
	}
	if !r.maxChanged && (k.max < least || k.max > most) {
		r.fail("I9", "the maximum is %d, want %d", k.max, least)
	}
	if launched := r.countLaunched(rec); r.c.plan.namesZones() && launched != len(k.tokens) {
		r.fail("I9", "%d launches are in the ledger, but %d were made", launched, len(k.tokens))
	}
	if zones := k.nodesPerZone(); r.c.plan.namesZones() && owed == 0 && !r.zonesChanged && !maps.Equal(zones, r.zones) {
		r.fail("E20", "the zones are %v, and were %v", zones, r.zones)
	}
}

func (r *rules) countLaunched(record record.Record) int {
	n := 0
	for _, z := range record.Ledger.Books().Zones {
		n += z.Launched
	}
	return n
}
