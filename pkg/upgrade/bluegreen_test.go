package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// newBlueGreen returns the blue-green upgrade of three nodes, with a soak of two hours.
func newBlueGreen(t *testing.T, batch int) *driver {
	t.Helper()
	spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: true, pointed: "1"}.spec()
	addWorkload(&spec, "web", "ReplicaSet", 6, 1)
	return newDriver(t, spec, record.Request{
		Group: "workers", Run: "r1", Strategy: record.BlueGreen, Like: "eks", Window: max(1, batch), Surge: 3,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		OnTimeout: record.Fail, BlueGreen: &record.BlueGreenRequest{Batch: batch, Soak: duration(2 * time.Hour)},
	})
}

// deleting returns the world in which the soak has just ended.
func deleting(t *testing.T) upgrade.World {
	t.Helper()
	d := newBlueGreen(t, 3)
	d.run(start.Add(time.Hour))
	d.ask(record.VerbComplete)
	for d.record.Phase != record.PhaseDeleteBlue {
		d.turn(0)
	}
	return d.world()
}

func memberOf(t *testing.T, w *upgrade.World, name string) *nodegroup.Member {
	t.Helper()
	for i := range w.Members {
		if w.Members[i].Name() == name {
			return &w.Members[i]
		}
	}
	t.Fatalf("there is no member %s", name)
	return nil
}

// G41: an outdated node that joins after the upgrade was requested also gets a new node beside it.
func TestBlueGreenAddsNewNodeForLateOutdatedNode(t *testing.T) {
	d := newBlueGreen(t, 1)
	d.req.Surge = 2 // when the upgrade was requested, there were two outdated nodes
	before := d.cluster.World(d.req).Group.Desired
	most := 0
	d.watch = func(w upgrade.World, _ upgrade.Step) { most = max(most, w.Group.Desired) }
	d.run(time.Time{})
	if after := d.cluster.World(d.req).Group.Desired; d.record.Result != record.Succeeded || most != 2*before || after != before {
		t.Errorf("got %q (%s) with %d, at most %d and then %d nodes, want twice as many and then as before", d.record.Result, d.record.Message, before, most, after)
	}
}

// G41: the same for a node that turns out to be outdated when the new nodes exist and others are drained.
func TestBlueGreenAddsNewNodeForOutdatedNodeFoundDuringDrain(t *testing.T) {
	d := newBlueGreen(t, 1)
	d.req.Surge = 2
	for !d.cluster.Now().After(start.Add(2 * time.Hour)) {
		w := d.world()
		if d.record.Phase != record.PhaseDrainBlue {
			memberOf(t, &w, "old-a-1").Outdated = false
		}
		step := upgrade.Next(w)
		d.record, d.notes = step.Record, step.Notes
		d.cluster.Do(step)
		if step.Finished || d.record.Phase == record.PhaseSoak {
			break
		}
		d.cluster.Advance(step.Wake)
	}
	if desired := d.cluster.World(d.req).Group.Desired; d.record.Phase != record.PhaseSoak || desired != 6 {
		t.Errorf("it is in the phase %q with %d nodes, want the soak with 6: %s", d.record.Phase, desired, d.record.Message)
	}
}

// A person must decide about a node that a user made schedulable during the soak. The same command fences it again.
func TestBlueGreenPausesWhenUserUncordonsOutdatedNode(t *testing.T) {
	w := deleting(t)
	m := memberOf(t, &w, "old-a-1")
	node := m.Node.DeepCopy()
	node.Spec.Unschedulable = false
	*m = nodegroup.Member{Node: node, Instance: m.Instance, Pods: m.Pods, Outdated: m.Outdated}
	step := upgrade.Next(w)
	if step.Record.Stopping != record.Paused || len(step.Actions) > 0 {
		t.Fatalf("got %q and %v, want a pause", step.Record.Stopping, step.Actions)
	}
	w.Record, w.Notes = step.Record, step.Notes
	step = upgrade.Next(w)
	if _, unfences := step.Actions[0].(nodemark.Unfence); step.Finished || len(step.Actions) != 1 || !unfences {
		t.Errorf("got %v, want what is left of the fence of one node to be taken off", step.Actions)
	}
}

// An instance that a user protected during the soak is not deleted.
func TestProtectedOutdatedNodeIsKept(t *testing.T) {
	w := deleting(t)
	memberOf(t, &w, "old-a-1").Instance.Protected = true
	if step := upgrade.Next(w); step.Record.Stopping != record.Paused || len(step.Actions) > 0 {
		t.Errorf("got %q and %v, want a pause", step.Record.Stopping, step.Actions)
	}
}

// G56: a rollback is impossible once outdated nodes are deleted.
func TestNoRollbackWhileOutdatedNodesAreDeleted(t *testing.T) {
	w := deleting(t)
	if _, err := upgrade.RollbackTarget(&w.Record); err == nil || !strings.Contains(err.Error(), `in phase "delete blue"`) {
		t.Errorf("got error %v", err)
	}
}

// TestSoakWaitsForUnhealthyWorkloads: while a workload does not recover on the new nodes, the process stays in the soak
// to stop the upgrade, and no outdated node is deleted.
func TestSoakWaitsForUnhealthyWorkloads(t *testing.T) {
	for name, c := range map[string]struct {
		soak time.Duration
		wait bool
	}{"a long soak": {2 * time.Hour, false}, "a long soak that is waited for": {2 * time.Hour, true}, "a short one": {time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: true, pointed: "1"}.spec()
			addWorkload(&spec, "solo", "ReplicaSet", 1, 1)
			spec.Times.ReadyOf = func(*corev1.Pod) time.Duration { return -1 }
			d := newDriver(t, spec, newBlueGreen(t, 3).req)
			d.req.BlueGreen.Soak, d.req.Settle, d.leave = duration(c.soak), duration(time.Second), !c.wait // the soak begins before the pod is late
			deleted := 0
			d.watch = func(_ upgrade.World, step upgrade.Step) {
				for _, action := range step.Actions {
					if _, ends := action.(nodegroup.Terminate); ends {
						deleted++
					}
				}
			}
			d.run(start.Add(90 * time.Minute))
			if d.record.Result != record.WorkloadUnhealthy || deleted > 0 {
				t.Errorf("it ends with %q (%s), and %d nodes are deleted", d.record.Result, d.record.Message, deleted)
			}
		})
	}
}

// TestSoakIgnoresDaemonSetUnreadyBeforeUpgrade: the upgrade does not wait for pods of a DaemonSet that were not ready before.
func TestSoakIgnoresDaemonSetUnreadyBeforeUpgrade(t *testing.T) {
	spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: true, pointed: "1"}.spec()
	addWorkload(&spec, "agent", "DaemonSet", 3, -1)
	for _, pod := range spec.Pods {
		build.Unready(pod)
	}
	spec.Times.ReadyOf = func(*corev1.Pod) time.Duration { return -1 }
	d := newDriver(t, spec, newBlueGreen(t, 3).req)
	d.leave = true
	if d.run(start.Add(90 * time.Minute)); d.record.Result != record.Waiting {
		t.Errorf("it ends with %q (%s), and is in the phase %q", d.record.Result, d.record.Message, d.record.Phase)
	}
}

// G56: a rollback during a soak does not wait for its end.
func TestRollbackDuringSoakDoesNotWaitForItsEnd(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.leave = true
	d.run(time.Time{})
	if d.record.Result != record.Waiting {
		t.Fatalf("got %q, want it to wait", d.record.Result)
	}
	d.rollBack()
	soak := d.record.Soak
	d.run(time.Time{})
	if d.record.Result != record.Succeeded || soak != (record.Soak{}) {
		t.Errorf("got %q with the soak %+v: %s", d.record.Result, soak, d.record.Message)
	}
}

// G54: pausing an upgrade that no process carries out also keeps the time that is left of its soak.
func TestPauseWithoutRunningProcessKeepsRemainingSoak(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.leave = true
	d.run(time.Time{})
	at := d.record.Soak.Until.Add(-time.Hour)
	d.cluster.Advance(at)
	d.saved = record.AsPaused(&d.record, "workers", "alice@host", at)
	d.cluster.Advance(at.Add(24 * time.Hour))
	d.reopen()
	d.turn(-1)
	if want := at.Add(25 * time.Hour); !d.record.Soak.Until.Equal(want) {
		t.Errorf("it soaks until %s, want %s", d.record.Soak.Until, want)
	}
}

// G52: a paused soak can be completed at once, whatever time is left of it.
func TestCompleteEndsPausedSoakImmediately(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.run(start.Add(time.Hour))
	d.ask(record.VerbPause)
	d.run(time.Time{})
	d.saved.Soak.Until = d.cluster.Now() // the command complete ends a soak in this way
	d.reopen()
	d.turn(-1)
	if d.record.Phase != record.PhaseDeleteBlue {
		t.Errorf("it is in phase %q, with the soak %+v", d.record.Phase, d.record.Soak)
	}
}

// G49: a soak that is over does not begin again because a node is released late.
func TestEndedSoakDoesNotBeginAgainIfNodeIsReleasedLate(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.faults = []fault{{key: "free/", outcome: nodegroup.OutcomeLater, times: 3 * 5 * 60}}
	d.run(start.Add(3 * time.Hour))
	if spent := d.record.Soak.Spent.Duration; spent != 2*time.Hour {
		t.Errorf("it soaks for %s, want 2h", spent)
	}
}

// G46: nodes that were never drained are deleted with their pods, and the record names them.
func TestPodsDeletedWithoutDrainAreNamed(t *testing.T) {
	d := newBlueGreen(t, 0)
	named := map[string]string{}
	d.watch = func(_ upgrade.World, step upgrade.Step) {
		for name, n := range step.Record.Nodes {
			if n.State == record.NodeForcing {
				named[name] = n.Reason
			}
		}
	}
	d.run(time.Time{})
	if d.record.Result != record.Succeeded || len(named) != 3 {
		t.Errorf("it ends with %q, and pods were deleted from %v", d.record.Result, named)
	}
	for name, reason := range named {
		if !strings.Contains(reason, "shop/web-") {
			t.Errorf("node %s: reason %q", name, reason)
		}
	}
}

// G42: if autoscalers cannot be kept from outdated nodes, nothing else is changed, and the message names a remedy.
func TestBlueGreenStopsIfScaleDownCannotBeDisabled(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.faults = []fault{{key: "hold/", outcome: nodegroup.OutcomeFatal, detail: "denied by policy", times: 100}}
	d.watch = func(_ upgrade.World, step upgrade.Step) {
		for _, action := range step.Actions {
			if _, hold := action.(nodemark.HoldNode); !hold {
				t.Errorf("it does %s", action)
			}
		}
	}
	d.run(time.Time{})
	if d.record.Result != record.Failed {
		t.Errorf("it ends with %q", d.record.Result)
	}
	for _, want := range []string{`"old-a-1": denied by policy`, "--strategy=surge"} {
		if !strings.Contains(d.record.Message, want) {
			t.Errorf("it says %q, want %q in it", d.record.Message, want)
		}
	}
}

// G56: an abort during the soak keeps both the outdated and the new nodes; a rollback does not. During a rollback an
// abort does not keep both.
func TestAbortDuringSoakKeepsOldAndNewNodes(t *testing.T) {
	d := newBlueGreen(t, 3)
	if d.run(start.Add(time.Second)); upgrade.AbortKeepsBoth(&d.record) {
		t.Errorf("in phase %q, too", d.record.Phase)
	}
	if d.run(start.Add(time.Hour)); !upgrade.AbortKeepsBoth(&d.record) {
		t.Errorf("not in phase %q", d.record.Phase)
	}
	aborting := d.record.AsAborting()
	if back := upgrade.AsRollback(&d.record, revisionOf("1"), start); upgrade.AbortKeepsBoth(&back) || upgrade.AbortKeepsBoth(&aborting) {
		t.Error("an upgrade that is being undone, too")
	}
}

// G47, G48, G49: the default batches and soaks.
func TestBlueGreenDefaultsToBatchOfOneAndSoakOfOneHour(t *testing.T) {
	group := &nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: zones(3), Desired: 9, Max: 9, Wanted: revisionOf("2")}
	req, err := settings(func(s *upgrade.Settings) { s.Strategy = record.BlueGreen }).ResolveRequest(group, 9, 9)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := *req.BlueGreen, (record.BlueGreenRequest{Batch: 1, Soak: duration(time.Hour)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// G42, G51: during the soak autoscalers are kept from the outdated nodes, but from no new one.
func TestSoakHoldsOnlyOutdatedNodes(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.run(start.Add(time.Hour))
	w := d.world()
	for i := range w.Members {
		if m := &w.Members[i]; d.record.Phase != record.PhaseSoak || m.IsHeld() != m.Outdated {
			t.Errorf("in phase %q node %s is outdated: %t, and held: %t", d.record.Phase, m.Name(), m.Outdated, m.IsHeld())
		}
	}
}

// G53: pods are deleted with their own grace period, limited to one hour.
func TestBlueGreenLimitsGracePeriodToAnHour(t *testing.T) {
	const hour = int64(3600)
	for own, want := range map[int64]int64{hour - 1: 0, hour: 0, hour + 1: hour, 24 * hour: hour} { // 0 is the pod's own
		w := deleting(t)
		pod := build.Pod("slow-0", build.On("old-a-1"))
		pod.Spec.TerminationGracePeriodSeconds = &own
		m := memberOf(t, &w, "old-a-1")
		m.Pods = append(m.Pods, pod)
		var deleted *schedule.Deletion
		for range 5 {
			step := upgrade.Next(w)
			for _, a := range step.Actions {
				if del, ok := a.(schedule.Deletion); ok {
					deleted = &del
				}
			}
			w.Record, w.Notes = step.Record, step.Notes
		}
		if deleted == nil {
			t.Fatalf("with a grace period of %ds the pod is not deleted: %+v", own, w.Record.Nodes["old-a-1"])
		}
		if deleted.Grace != want {
			t.Errorf("with a grace period of %ds the pod is deleted with %ds, want %ds", own, deleted.Grace, want)
		}
	}
}

// TestLateOutdatedNodesOfOneWorkloadAreDeletedOneByOne: two outdated nodes joined late and have pods of one workload. Their pods are
// deleted with them, so the second node must wait until the first new pod is ready, even if it has pods of other
// workloads (G53).
func TestLateOutdatedNodesOfOneWorkloadAreDeletedOneByOne(t *testing.T) {
	w := deleting(t)
	w.Record.Request.Window, w.Request.Window = 20, 20
	index := drain.NewWorkloadIndex(drain.Facts{})
	for _, number := range []string{"1", "2"} {
		shared, own := build.Pod("late-"+number, build.App("late")), build.Pod("own-"+number, build.App("own-"+number))
		m := old("old-a-late-"+number, shared, own)
		w.Members = append(w.Members, m)
		for _, pod := range m.Pods {
			index.Store(pod)
		}
	}
	for _, number := range []string{"3", "4", "5", "6", "7", "8"} { // enough pods that two may be away
		index.Store(build.Pod("late-"+number, build.App("late"), build.On("elsewhere")))
	}
	w.Workloads = index.Snapshot()
	step := upgrade.Next(w)
	begun := 0
	for _, number := range []string{"1", "2"} {
		if _, is := step.Record.Nodes["old-a-late-"+number]; is {
			begun++
		}
	}
	if begun != 1 {
		t.Errorf("%d nodes with pods of one workload are deleted at once, want 1", begun)
	}
}

// G53: a pause is impossible while outdated nodes are deleted.
func TestNoPauseWhileOutdatedNodesAreDeleted(t *testing.T) {
	w := deleting(t)
	if err := upgrade.Allows(&w.Record, record.VerbPause); err == nil {
		t.Error("it may be paused")
	}
	if err := upgrade.Allows(&w.Record, record.VerbAbort); err != nil {
		t.Errorf("it cannot be aborted: %v", err)
	}
}

// G43: a node turns out to be outdated just when a pod of another node would be evicted. It is fenced first.
func TestOutdatedNodeThatJoinsInDrainIsFencedFirst(t *testing.T) {
	d := newBlueGreen(t, 2)
	d.req.Surge = 2
	joined, evicted := false, 0
	for d.record.Phase != record.PhaseSoak && !d.cluster.Now().After(start.Add(2*time.Hour)) {
		w := d.world()
		late := memberOf(t, &w, "old-a-1")
		late.Outdated = joined
		step := upgrade.Next(w)
		if !joined && evicted > 0 && countEvictions(step) > 0 {
			joined, late.Outdated = true, true
			step = upgrade.Next(w)
		}
		evicted += countEvictions(step)
		if late.Outdated && !nodegroup.IsClosed(late.Node) && countEvictions(step) > 0 {
			t.Fatal("it evicts a pod while the node is open to it")
		}
		d.record, d.notes = step.Record, step.Notes
		d.cluster.Do(step)
		d.cluster.Advance(step.Wake)
	}
	if d.record.Phase != record.PhaseSoak || evicted < 4 {
		t.Errorf("it is in the phase %q after %d evictions: %s", d.record.Phase, evicted, d.record.Message)
	}
}

func countEvictions(step upgrade.Step) (n int) {
	for _, action := range step.Actions {
		if _, evicts := action.(schedule.Eviction); evicts {
			n++
		}
	}
	return n
}

// TestBlueGreenSetsGroupRevisionAgainAfterUserChangedIt: a user points the group elsewhere during the soak, or while outdated nodes are
// deleted. Otherwise new nodes would be outdated, and their pods would be deleted with them.
func TestBlueGreenSetsGroupRevisionAgainAfterUserChangedIt(t *testing.T) {
	soak := newBlueGreen(t, 3)
	soak.run(start.Add(time.Hour))
	for phase, w := range map[record.Phase]upgrade.World{record.PhaseSoak: soak.world(), record.PhaseDeleteBlue: deleting(t)} {
		if w.Record.Phase != phase {
			t.Fatalf("it is in the phase %q, not %q", w.Record.Phase, phase)
		}
		w.Group.Pointed = revisionOf("3")
		step := upgrade.Next(w)
		if set := actionsOf(step, "set the group"); len(set) != 1 || len(actionsOf(step, "terminate")) > 0 {
			t.Errorf("in the phase %q it asks for %v", phase, step.Actions)
		}
	}
}
