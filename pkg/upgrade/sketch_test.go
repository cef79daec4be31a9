package upgrade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func duration(d time.Duration) record.Duration { return record.Duration{Duration: d} }

// groupSketch describes a node group: how many outdated and current nodes each zone has.
type groupSketch struct {
	outdated, current map[string]int
	provider          string
	zonal             bool
	max               int    // 0: the current size
	pointed           string // the revision it points at, if not the wanted one
}

// spec returns the cluster of the sketch. A node is Ready two minutes after its launch and gone half a minute after its
// termination. A pod takes 5 seconds to end and 10 to become ready.
func (g groupSketch) spec() simulate.Spec {
	revision := revisionOf("2")
	spec := simulate.Spec{
		Now: start,
		Group: nodegroup.Group{
			Name: "workers", Provider: g.provider, Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision, Quiesce: []string{"AZRebalance"}, Scaling: []string{"AlarmNotification"},
		},
		Outdated: func(n *corev1.Node) bool { return n.Labels["revision"] != "2" },
		Times: simulate.Times{
			Boot: 2 * time.Minute, Leave: 30 * time.Second, Ready: 10 * time.Second, Gone: func(*corev1.Pod) time.Duration { return 5 * time.Second },
		},
	}
	if g.pointed != "" {
		spec.Group.Pointed = revisionOf(g.pointed)
	}
	for _, zone := range []string{"a", "b", "c"} {
		if _, ok := g.outdated[zone]; ok {
			spec.Group.Zones = append(spec.Group.Zones, zone)
		}
		for i := range g.outdated[zone] {
			g.add(&spec, fmt.Sprintf("old-%s-%d", zone, i+1), "1")
		}
		for i := range g.current[zone] {
			g.add(&spec, fmt.Sprintf("cur-%s-%d", zone, i+1), "2")
		}
	}
	spec.Group.Desired = len(spec.Nodes)
	spec.Group.Max = max(g.max, spec.Group.Desired)
	spec.Group.Can.NameZone = g.zonal
	if g.provider == "manual" {
		spec.Group.Can, spec.Group.Quiesce = nodegroup.Capabilities{}, nil
	}
	return spec
}

func revisionOf(id string) nodegroup.Revision {
	return nodegroup.Revision{ID: id, Name: "workers:" + id}
}

func (g groupSketch) add(spec *simulate.Spec, name, revision string) {
	zone := strings.Split(name, "-")[1]
	node := build.Node(name, zone)
	node.Labels["revision"] = revision
	if g.provider != "manual" {
		node.Spec.ProviderID = "sim:///" + zone + "/i-" + name
		spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{
			ID: "i-" + name, Zone: zone, State: nodegroup.InstanceInService, Outdated: revision == "1", Revision: revisionOf(revision),
		})
	}
	spec.Nodes = append(spec.Nodes, node)
}

// addWorkload spreads the pods of a workload over the nodes in turn, under a budget that allows allow of them to be
// missing. A negative allow means no budget.
func addWorkload(spec *simulate.Spec, name, kind string, replicas, allow int) {
	for i := range replicas {
		spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("%s-%d", name, i),
			build.App(name), build.OwnedBy(kind, name), build.On(spec.Nodes[i%len(spec.Nodes)].Name)))
	}
	if allow >= 0 {
		spec.Budgets = append(spec.Budgets, build.Budget(name, build.Counts(int32(replicas), int32(replicas), int32(replicas-allow))))
	}
}

// fault makes the next actions of a kind fail.
type fault struct {
	key     string // the beginning of the action's key
	after   int    // how many of them succeed before
	outcome nodegroup.Outcome
	detail  string
	times   int
}

// driver carries out an upgrade in a simulated cluster, as Cluster.Run does, and adds faults: requests fail, the user
// stops, the process crashes.
type driver struct {
	t             *testing.T
	cluster       *simulate.Cluster
	req           record.Request
	watch         func(upgrade.World, upgrade.Step)
	faults        []fault
	stopRequested bool
	asked         record.Asked
	// leave is for a process that does not stay through a long wait.
	leave bool
	// wanted is the revision that the group is observed with, if not the newest.
	wanted string

	// record and notes are what the process knows; saved is what the cluster stores.
	record, saved record.Record
	notes         upgrade.Notes
	// failed are the answers that faults gave. forgotten counts the tries of each action that a crashed process made.
	failed    map[string]nodegroup.Attempt
	forgotten map[string]int
}

func newDriver(t *testing.T, spec simulate.Spec, req record.Request) *driver {
	return &driver{
		t: t, cluster: simulate.New(spec), req: req, watch: func(upgrade.World, upgrade.Step) {},
		failed: map[string]nodegroup.Attempt{}, forgotten: map[string]int{},
	}
}

func (d *driver) world() upgrade.World {
	w := d.cluster.World(d.req)
	open := make(map[string]nodegroup.Attempt, len(w.Open))
	for key, attempt := range w.Open {
		if attempt.Tries > d.forgotten[key] {
			open[key] = attempt
		}
	}
	for key, attempt := range d.failed {
		open[key] = attempt
	}
	w.Open, w.Record, w.Notes, w.Stop, w.Asked, w.Stay = open, d.record, d.notes, d.stopRequested, d.asked, !d.leave
	if d.wanted != "" {
		d.observe(&w)
	}
	return w
}

// observe sets another revision as the wanted one.
func (d *driver) observe(w *upgrade.World) {
	w.Group.Wanted = revisionOf(d.wanted)
	w.Members = slices.Clone(w.Members)
	for i := range w.Members {
		m := &w.Members[i]
		m.Instance.Outdated = m.Instance.Revision.ID != d.wanted
		m.Outdated = m.Instance.Outdated
	}
}

// ask stores a user's request for the process that upgrades.
func (d *driver) ask(verb record.Verb) {
	d.asked = record.Asked{Verb: verb, Run: d.record.Run, By: "alice@host", At: d.cluster.Now()}
}

// abort runs the abort command after the process that ran the upgrade has stopped.
func (d *driver) abort() {
	d.crash()
	d.record = d.record.AsAborting()
}

// rollBack runs the command rollback, after the process before has stopped.
func (d *driver) rollBack() {
	d.crash()
	to, err := upgrade.RollbackTarget(&d.record)
	if err != nil {
		d.t.Fatal(err)
	}
	d.wanted = to
	d.record = upgrade.AsRollback(&d.record, revisionOf(to), d.cluster.Now())
	d.req = d.record.Request
}

// turn takes one step and applies its first limit actions, or all if limit is negative.
func (d *driver) turn(limit int) upgrade.Step {
	w := d.world()
	step := upgrade.Next(w)
	d.watch(w, step)
	d.record, d.notes = step.Record, step.Notes
	if step.Persist {
		d.saved = stored(d.t, step.Record)
		d.record = d.saved
	}
	actions := step.Actions
	if limit >= 0 {
		actions = actions[:min(limit, len(actions))]
	}
	d.cluster.Do(upgrade.Step{Record: step.Record, Unscaled: step.Unscaled, Actions: slices.DeleteFunc(slices.Clone(actions), d.fails)})
	return step
}

// fails reports whether a fault prevents the action. An action whose answer is lost is applied.
func (d *driver) fails(a nodegroup.Action) bool {
	delete(d.failed, a.Key())
	for i := range d.faults {
		f := &d.faults[i]
		if f.times == 0 || !strings.HasPrefix(a.Key(), f.key) {
			continue
		}
		if _, done := d.cluster.World(d.req).Open[a.Key()]; done && f.outcome == nodegroup.OutcomeExhausted {
			continue // an accepted token is never refused
		}
		if f.after > 0 {
			f.after--
			continue
		}
		f.times--
		now := d.cluster.Now()
		d.failed[a.Key()] = nodegroup.Attempt{
			Action: a, Begun: now, Ended: now, Outcome: f.outcome, Detail: f.detail, Tries: 1, NotBefore: now.Add(30 * time.Second),
		}
		return f.outcome != nodegroup.OutcomeUnclear
	}
	return false
}

// run takes steps until the upgrade is finished or the clock reaches until. A zero until means no limit.
func (d *driver) run(until time.Time) (finished bool) {
	d.t.Helper()
	still := 0
	for range 20_000 {
		if !until.IsZero() && !d.cluster.Now().Before(until) {
			return false
		}
		step := d.turn(-1)
		switch {
		case step.Finished:
			return true
		case len(step.Actions) > 0 || !step.Wake.After(d.cluster.Now()):
			if still++; still > 500 {
				d.t.Fatal("it acts without end, at last:", step.Actions, step.Status.Waiting)
			}
		default:
			still = 0
			wake := step.Wake
			if soak := step.Record.Soak.Until; soak.After(wake) {
				wake = soak // steps every half minute for a week would take long
				if due := step.Due; due.After(d.cluster.Now()) && due.Before(soak) {
					wake = due // a step is needed then: outdated nodes are removed during the soak, or pods become late
				}
			}
			if !until.IsZero() && until.Before(wake) {
				wake = until
			}
			d.cluster.Advance(wake)
		}
	}
	d.t.Fatal("it does not end; it is", d.record.Phase, "at", d.cluster.Now().Sub(start))
	return false
}

// crash ends the process, so that only the stored record is left.
func (d *driver) crash() {
	for key, attempt := range d.cluster.World(d.req).Open {
		d.forgotten[key] = attempt.Tries
	}
	d.record, d.notes, d.failed, d.stopRequested = d.saved, upgrade.Notes{}, map[string]nodegroup.Attempt{}, false
}

// reopen runs the same command again.
func (d *driver) reopen() {
	d.crash()
	d.record, d.asked = d.record.Reopened(), record.Asked{}
}
