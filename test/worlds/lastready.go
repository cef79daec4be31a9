package worlds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// addCuredWorkload adds a workload to some worlds whose pods crash only on nodes of the second revision. The target soon changes to
// the third revision. It draws from its own generator.
func addCuredWorkload(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x63757265))}
	if !p.hasSize() || p.Request.Strategy != record.Surge || len(p.Request.Current) > 0 || !d.chance(5) {
		return
	}
	p.Workloads = append(p.Workloads, Workload{
		Name: "ill", Kind: pick(d, Deployment, StatefulSet), Replicas: min(12, (2+d.IntN(2))*len(p.Nodes)), Ready: d.between(time.Second, 30*time.Second),
		Crashes: true, Cured: true,
	})
	p.Actors = append(p.Actors, Actor{Kind: TargetMoves, At: d.between(time.Minute, 8*time.Minute)})
}

// drawSlowlyEndingPods replaces some worlds by small ones: one node has both pods of a StatefulSet. These pods take minutes to end. It
// draws from its own generator.
func drawSlowlyEndingPods(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x656e6473))}
	if p.isDelegated() || p.isShortLived() || p.keepsTarget() || p.countStandby() > 0 || !d.chance(3) {
		return
	}
	p.Nodes, p.Slack = []Node{{Zone: p.Nodes[0].Zone}}, min(p.Slack, 1)
	p.keepLastReadyPods()
	gone := d.between(3*time.Minute, 9*time.Minute)
	p.Workloads = append(p.Workloads, Workload{
		Name: "slowend", Kind: StatefulSet, Replicas: 2, Ready: d.between(time.Second, 30*time.Second), Gone: gone, Grace: gone + time.Minute, Served: true,
	})
}

// addLongSilences makes nodes silent for longer than the drain limit, in some worlds. The pods of silent nodes do not end. It draws
// from its own generator.
func addLongSilences(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73696c65))}
	if !p.hasSize() || p.Request.Strategy != record.Surge || !d.chance(3) {
		return
	}
	p.Request.DrainTimeout.Duration = d.between(6*time.Minute, 9*time.Minute)
	for range 4 {
		p.Actors = append(p.Actors, Actor{Kind: NodeSilent, At: d.between(5*time.Second, 6*time.Minute), Pick: 20*d.IntN(50) + 14 + d.IntN(6)})
	}
}

// drawStandbyPods replaces some worlds by small ones, with a current and an outdated node, and a workload that does not recover.
// Another workload has an unready pod on the current node, like a standby. It draws from its own generator.
func drawStandbyPods(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x7374696e))}
	if p.isDelegated() || p.isShortLived() || p.keepsTarget() || p.countStandby() > 0 || !d.chance(3) {
		return
	}
	zone := p.Nodes[0].Zone
	p.Nodes, p.Slack = []Node{{Zone: zone, Current: true}, {Zone: zone}}, min(p.Slack, 2)
	p.keepLastReadyPods()
	lost := Workload{Name: "lost", Kind: Deployment, Replicas: 2, Ready: time.Second}
	lost.Crashes = d.chance(50)
	lost.Refused = !lost.Crashes
	p.Workloads = append(p.Workloads, lost, Workload{Name: "pairs", Kind: Deployment, Replicas: 2, Ready: d.between(time.Second, 30*time.Second), Served: true, Sick: 1})
}

// keepLastReadyPods sets the request so that the upgrade keeps last ready pods, and has enough time for it on each node.
func (p *Plan) keepLastReadyPods() {
	r := &p.Request
	r.NoImplicitBudgets, r.IgnoreUnready = false, nil
	r.DrainTimeout.Duration = max(r.DrainTimeout.Duration, 20*time.Minute)
}

// checkLastReadyStays checks I12: the last ready pod of a workload is not evicted in two cases. Another pod of its StatefulSet must
// end before the controller can create a new pod. Or another workload does not recover, because of which the upgrade may stop.
func (r *rules) checkLastReadyStays(w *upgrade.World, step *upgrade.Step, app *Workload, sent string) {
	name := app.id().String()
	if ending := r.podInGracePeriod(w, app); ending != nil {
		r.fail("I12", "pod %s, the last ready pod of %s, is evicted, but pod %s must end before a new one is created", sent, name, ending.Name)
	}
	for _, u := range step.Status.Unhealthy {
		if _, said := w.Notes.Unhealthy[u.Name]; said && u.Name != name {
			r.fail("I12", "pod %s, the last ready pod of %s, is evicted, but the upgrade may stop because of %s", sent, name, u.Name)
		}
	}
}

// podInGracePeriod returns a deleted pod of a StatefulSet whose grace period is not over; nil for none.
func (r *rules) podInGracePeriod(w *upgrade.World, app *Workload) *corev1.Pod {
	if app.Kind != StatefulSet {
		return nil
	}
	for i := range w.Members {
		for _, pod := range w.Members[i].Pods {
			if pod.Labels["app"] == app.Name && pod.DeletionTimestamp != nil && w.Now.Before(pod.DeletionTimestamp.Time) {
				return pod
			}
		}
	}
	return nil
}

// lacksLastingPods reports whether the workload lost pods and now has fewer lasting pods than it had ready ones. A pod counts as
// lasting once it has been ready for steadyAfter, or for as long as the workload's pods take to become ready.
func (r *rules) lacksLastingPods(w *upgrade.World, name string) bool {
	return slices.ContainsFunc(r.c.plan.Workloads, func(app Workload) bool {
		before, lost := r.recovery.lostPods[name]
		if !lost || app.id().String() != name {
			return false
		}
		lasting := slices.DeleteFunc(slices.Clone(livePodsOf(w, &app)), func(pod *corev1.Pod) bool {
			return !isPodReady(pod) || w.Now.Sub(pod.Status.Conditions[0].LastTransitionTime.Time) < max(steadyAfter, app.Ready)
		})
		return len(lasting) < before.ready
	})
}

// checkFirstPodLeaves checks I11 for pods that wait until a first new pod of their workload is ready. A first pod must be leaving
// its node, or must have left it since the target last changed. If that pod's node was given up, the other pods wait while the
// workload lacks pods, and the upgrade stops if that lasts.
func (r *rules) checkFirstPodLeaves(w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if goal := fmt.Sprintf("%s %s %t", rec.Run, rec.Target.ID, rec.Rollback); goal != r.recovery.goal {
		r.recovery.goal = goal
		clear(r.recovery.leftNode)
	}
	for _, b := range step.Blocked {
		if b.Kind != drain.Canary || r.recovery.leftNode[b.Workload] || !w.Now.Equal(r.c.now) {
			continue
		}
		leaves := slices.ContainsFunc(sortedKeys(rec.Nodes), func(name string) bool {
			m := memberNamed(w, name)
			return name != b.Node && m != nil && isInDrain(rec.Nodes[name].State) && slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return drain.WorkloadOf(pod) == b.Workload })
		})
		if !leaves && !r.lacksLastingPods(w, b.Workload.String()) {
			r.fail("I11", "pod %s waits for the first pod of %s on another node, but no pod of it leaves its node", b.Pod.Name, b.Workload)
		}
	}
}

// checkWorkloadsRemembered checks I11 in a cluster with more workloads than the record can contain. It adds 500 recovered workloads to
// the record. The start of a node may remove these, but no workload whose pods still have to leave.
func (r *rules) checkWorkloadsRemembered(w *upgrade.World, step *upgrade.Step) {
	if !r.undisturbed || len(step.Record.Nodes) < 2 || len(step.Record.Nodes) <= len(w.Record.Nodes) {
		return
	}
	crowded := *w
	crowded.Memo, crowded.Record.Workloads = nil, maps.Clone(w.Record.Workloads)
	if crowded.Record.Workloads == nil {
		crowded.Record.Workloads = map[string]record.WorkloadRecord{}
	}
	noticed := record.WorkloadRecord{Impact: record.Impact{None: record.Duration{Duration: week}}} // with this impact, the record keeps these workloads longest
	for i := range 500 {
		crowded.Record.Workloads[fmt.Sprintf("%s/%s/other-%03d", namespace, Deployment, i)] = noticed
	}
	again := upgrade.Next(crowded)
	r.tally.count("health", crowdedRecord)
	for i := range r.c.plan.Workloads {
		app := &r.c.plan.Workloads[i]
		known := step.Record.Workloads[app.id().String()]
		if _, kept := again.Record.Workloads[app.id().String()]; kept || known.Ready == 0 || !app.isReplicated() {
			continue
		}
		if pods := livePodsOf(w, app); hasLeavers(w, pods) || countReady(pods) < known.Ready {
			r.fail("I11", "workload %s is removed from a full record, but %d of %d pods are ready, or pods must still leave", app.id(), countReady(pods), known.Ready)
		}
	}
}
