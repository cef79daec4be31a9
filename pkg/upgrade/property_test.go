package upgrade_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestAnyUpgrade upgrades random groups, with random workloads, faults, stops and crashes, and
// holds every step to the invariants. A failing group prints itself. Each third makes a hundred
// checks.
func TestAnyUpgrade(t *testing.T) {
	for _, third := range []string{"first", "second", "third"} {
		t.Run(third, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, anyUpgrade)
		})
	}
}

func anyUpgrade(t *rapid.T) {
	spec := drawSpec(t)
	slow := rapid.IntRange(0, 9).Draw(t, "slow") == 0
	if slow {
		spec.Times.Boot = 25 * time.Minute
	}
	d := newDriver(t, spec, upgrade.Request{})
	d.req = drawRequest(t, d.world().Group)
	rules := newInvariants(t, d)
	d.watch = rules.check
	d.faults = drawFaults(t)
	for range rapid.IntRange(0, 3).Draw(t, "troubles") {
		if trouble(t, d, rules) && !ended(d, rules) {
			d.reopen()
		}
	}
	// Each run that fails for want of time gives that time again, so a node that nothing can move
	// fails each time.
	for range 3 {
		d.run(time.Time{})
		if ended(d, rules) {
			return
		}
		rules.checkFailure(d.world(), slow)
		d.reopen()
	}
}

// ended reports whether the upgrade reached its goal, which the same command would not begin again.
func ended(d *driver, rules *invariants) bool {
	w := d.world()
	rules.checkRest(w)
	if w.Record.Result != upgrade.Succeeded && w.Record.Result != upgrade.LeftBehind {
		return false
	}
	rules.checkEnd(w)
	return true
}

// trouble lets the upgrade run for a while; then the user stops it, it is killed in the middle of a
// step, or an autoscaler adds a node. It reports whether the upgrade came to rest: otherwise it is
// under way still.
func trouble(t *rapid.T, d *driver, rules *invariants) (rested bool) {
	if d.record.Result != "" {
		return true
	}
	after := time.Duration(rapid.IntRange(0, 240).Draw(t, "after")) * 10 * time.Second
	if d.run(d.cluster.Now().Add(after)) {
		return true
	}
	switch rapid.SampledFrom([]string{"stop", "kill", "grow"}).Draw(t, "trouble") {
	case "stop":
		d.stop = true
		d.run(time.Time{})
		return true
	case "kill":
		d.turn(rapid.IntRange(0, 3).Draw(t, "done"))
		d.crash()
	case "grow":
		grow(t, d, rules)
	}
	return false
}

// grow has an autoscaler add a node, where the group has room for that and for all that the upgrade
// may add.
func grow(t *rapid.T, d *driver, rules *invariants) {
	group := d.world().Group
	if group.Max-group.Desired <= d.req.Surge+d.req.MaxUnavailable {
		return
	}
	zone := rapid.SampledFrom(group.Zones).Draw(t, "zone")
	token := fmt.Sprintf("autoscaler-%s", d.cluster.Now())
	d.cluster.Do(upgrade.Step{Record: d.record, Actions: []nodegroup.Action{nodegroup.AddCapacity{Zone: zone, N: 1, Token: token}}})
	grown := d.world().Group.Desired - group.Desired
	rules.before.Desired += grown
	rules.zones[zone] += grown
}

func drawSpec(t *rapid.T) simulate.Spec {
	g := groupSketch{
		outdated: map[string]int{}, current: map[string]int{}, provider: rapid.SampledFrom([]string{"aws", "gke"}).Draw(t, "provider"),
		zonal: rapid.Bool().Draw(t, "zonal"),
	}
	for _, zone := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "zones")] {
		g.outdated[zone] = rapid.IntRange(0, 6).Draw(t, "outdated in "+zone)
		g.current[zone] = rapid.IntRange(0, 4).Draw(t, "current in "+zone)
	}
	spec := g.spec()
	spec.Group.Max += rapid.SampledFrom([]int{0, 1, 3, 20}).Draw(t, "room")
	spec.Times.Boot = time.Duration(rapid.IntRange(1, 300).Draw(t, "boot")) * time.Second
	gone := time.Duration(rapid.IntRange(0, 90).Draw(t, "gone")) * time.Second
	spec.Times.Gone = func(*corev1.Pod) time.Duration { return gone }
	if len(spec.Nodes) == 0 {
		return spec
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "workloads") {
		kind := rapid.SampledFrom([]string{"ReplicaSet", "StatefulSet"}).Draw(t, "kind")
		replicas := rapid.IntRange(1, 12).Draw(t, "replicas")
		addWorkload(&spec, fmt.Sprintf("app%d", i), kind, replicas, rapid.IntRange(-1, 3).Draw(t, "allow"))
	}
	for i, node := range spec.Nodes {
		if rapid.IntRange(0, 5).Draw(t, "daemon") > 0 {
			spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("agent-%d", i), build.OwnedBy("DaemonSet", "agent"), build.On(node.Name)))
		}
		if spec.Outdated(node) {
			drawMarks(t, &spec, node)
		}
	}
	return spec
}

// drawMarks puts on an outdated node what another actor may have put there.
func drawMarks(t *rapid.T, spec *simulate.Spec, node *corev1.Node) {
	switch rapid.IntRange(0, 9).Draw(t, "marks") {
	case 0:
		node.Spec.Unschedulable = true
	case 1:
		build.Tainted("dedicated")(node)
	case 2:
		node.Labels[corev1.LabelNodeExcludeBalancers] = "true"
	case 3:
		spec.Pods = append(spec.Pods, build.Pod("bare-"+node.Name, build.Bare, build.On(node.Name)))
	}
}

func drawRequest(t *rapid.T, group nodegroup.Group) upgrade.Request {
	unavailable := rapid.IntRange(0, 5).Draw(t, "max-unavailable")
	surge := rapid.IntRange(0, 6).Draw(t, "surge")
	window, like := unavailable, rapid.SampledFrom([]string{"eks", "gke"}).Draw(t, "like")
	if unavailable == 0 || like == "gke" {
		surge = max(surge, 1-unavailable)
		window = unavailable + surge
	}
	return upgrade.Request{
		Group: group.Name, Run: "r1", Strategy: upgrade.Surge, Like: like, MaxUnavailable: unavailable, Window: window,
		Surge: surge, BatchBarrier: rapid.Bool().Draw(t, "barrier"),
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		OnTimeout:      rapid.SampledFrom([]upgrade.OnTimeout{upgrade.Fail, upgrade.Force, upgrade.Skip}).Draw(t, "on-timeout"),
		EvictUnmanaged: rapid.Bool().Draw(t, "evict-unmanaged"),
	}
}

// drawFaults are failures that a patient program outlives.
func drawFaults(t *rapid.T) (faults []fault) {
	keys := []string{"add/", "terminate/", "fence/", "unfence/", "start-drain/", "evict/", "delete/", "quiesce", "resume", "raise-max/", "lower-max/"}
	for range rapid.IntRange(0, 3).Draw(t, "faults") {
		f := fault{
			key:     rapid.SampledFrom(keys).Draw(t, "action"),
			outcome: rapid.SampledFrom([]nodegroup.Outcome{nodegroup.OutcomeLater, nodegroup.OutcomeUnclear, nodegroup.OutcomeExhausted}).Draw(t, "outcome"),
			times:   rapid.IntRange(1, 3).Draw(t, "times"),
		}
		if f.outcome == nodegroup.OutcomeExhausted && f.key != "add/" {
			f.outcome = nodegroup.OutcomeRefused
		}
		faults = append(faults, f)
	}
	return faults
}
