package worlds

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Balancer is a load balancer in front of the group. The zero value means none.
type Balancer struct {
	// Delay is how long a target drains.
	Delay time.Duration
	// Bound is true if a controller in the cluster deregisters targets, within Late after a node's label or a pod's deletion.
	// Otherwise Auto Scaling deregisters a machine before it terminates it. A Stuck controller does nothing until Calm.
	Bound, Stuck bool
	Late         time.Duration
	// Pods is true if the targets are pods behind Services instead of machines.
	Pods bool
}

// addBalancer puts some AWS groups behind a load balancer. It draws from its own generator, so that all other draws stay the same.
func addBalancer(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x62616c61))}
	if p.Provider != "aws" || p.isDelegated() || p.isShortLived() || !d.chance(30) {
		return
	}
	p.Balancer = Balancer{
		Delay: pick(d, 30*time.Second, 5*time.Minute, d.between(time.Second, 15*time.Minute)),
		Bound: d.chance(85), Stuck: d.chance(8), Late: d.between(0, 5*time.Second), Pods: d.chance(50),
	}
	if from := d.moment(); d.chance(20) {
		p.Faults = append(p.Faults, Fault{Kind: BalancersBlind, From: from, To: from + d.between(time.Minute, 40*time.Minute), Percent: 100})
	}
}

// addUncordons adds admins who uncordon nodes, in some worlds whose machines are targets. The next run fences these nodes again, and
// their machines are deregistered again. It draws from its own generator, so that all other worlds stay the same.
func addUncordons(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x7075746e))}
	if b := &p.Balancer; !p.hasBalancer() || b.Pods || !b.Bound || p.Request.Strategy != record.Surge || !d.chance(25) {
		return
	}
	p.Balancer.Stuck = p.Balancer.Stuck || d.chance(40)
	for range 4 {
		p.Actors = append(p.Actors, Actor{Kind: AdminUncordons, At: d.between(time.Minute, 20*time.Minute), Pick: d.IntN(1000)})
	}
}

// addKillsBeforeTargetsDrain adds several crashes of the process to some worlds whose targets are pods. The targets still drain when
// the command runs again. It draws from its own generator, so that all other worlds stay the same.
func addKillsBeforeTargetsDrain(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x64696573))}
	if b := &p.Balancer; !p.hasBalancer() || !b.Pods || !b.Bound || b.Stuck || p.Request.Strategy != record.Surge || !d.chance(30) {
		return
	}
	p.Balancer.Delay = d.between(12*time.Minute, 15*time.Minute)
	p.Workloads = append(p.Workloads, Workload{
		Name: "web", Kind: Deployment, Replicas: min(10, 1+len(p.Nodes)), Ready: d.between(time.Second, 20*time.Second), Gone: time.Second, Served: true,
	})
	for range 5 {
		p.Actors = append(p.Actors, Actor{Kind: Kill, At: d.between(time.Minute, pick(d, 10*time.Minute, 40*time.Minute))})
	}
}

func (p *Plan) hasBalancer() bool { return p.Balancer.Delay > 0 }

// targetGroups returns the target groups as their cloud shows them.
func (p *Plan) targetGroups() []nodegroup.TargetGroup {
	if !p.hasBalancer() {
		return nil
	}
	return []nodegroup.TargetGroup{{ID: "arn:web", Name: "web", Delay: p.Balancer.Delay, Bound: p.Balancer.Bound}}
}

// targetAddress returns the address of a pod that is a target, and "" for all other pods.
func (c *cluster) targetAddress(pod *corev1.Pod) string {
	m := c.controllers[pod.Labels["app"]]
	if !c.plan.hasBalancer() || !c.plan.Balancer.Pods || m == nil || !m.Served {
		return ""
	}
	return "ip-" + string(pod.UID)
}

// deregisterTarget schedules the deregistration of a target by the controller in the cluster.
func (c *cluster) deregisterTarget(id string) {
	b := &c.plan.Balancer
	if _, known := c.deregisteredAt[id]; known || id == "" || !b.Bound || (b.Stuck && !c.calm) {
		return
	}
	c.deregisteredAt[id] = c.now.Add(c.drawUpTo(b.Late))
}

// followExclusion registers or deregisters a node's machine according to the node's exclusion label.
func (c *cluster) followExclusion(node *corev1.Node) {
	i := c.instanceOf(node)
	switch _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; {
	case !c.plan.hasBalancer() || c.plan.Balancer.Pods || i == nil:
	case excluded:
		if _, known := c.excludedSince[i.id]; !known {
			c.excludedSince[i.id] = c.now
		}
		c.deregisterTarget(i.id)
	default:
		delete(c.deregisteredAt, i.id)
		delete(c.excludedSince, i.id)
	}
}

// The states of a target.
const (
	targetNone = iota
	targetRegistered
	targetDraining
)

// targetState returns the current state of a target. A machine that ended is no target. A pod is a target until it is deregistered.
func (c *cluster) targetState(id string) int {
	taken, out := c.deregisteredAt[id]
	switch {
	case out && !c.now.Before(taken.Add(c.plan.Balancer.Delay)):
		return targetNone
	case out && !c.now.Before(taken):
		return targetDraining
	case !out && c.calm && c.plan.Balancer.Pods && !c.isPodServing(types.UID(strings.TrimPrefix(id, "ip-"))):
		return targetNone // a stuck controller has caught up
	case c.plan.Balancer.Pods == (c.cloud.instances[id] == nil):
		return targetRegistered
	}
	return targetNone
}

// isPodServing reports whether the pod exists and has not completed.
func (c *cluster) isPodServing(uid types.UID) bool {
	pod := c.pods[uid]
	return pod != nil && pod.Status.Phase != corev1.PodSucceeded
}

// listTargets returns the targets among the IDs.
func (c *cluster) listTargets(ids []string) ([]nodegroup.Target, error) {
	if c.drawFault(CloudBlind) || c.drawFault(BalancersBlind) {
		return nil, errors.New("load balancers cannot be read")
	}
	var all []nodegroup.Target
	for _, id := range ids {
		if state := c.targetState(id); state != targetNone {
			all = append(all, nodegroup.Target{Group: c.plan.targetGroups()[0], ID: id, Draining: state == targetDraining})
		}
	}
	return all, nil
}

// targetPolls are a process's polls of load balancers.
type targetPolls struct {
	read     nodegroup.Targets
	lastPoll time.Time
	polling  bool
	// pollNumber is the number of the last scheduled poll. Earlier scheduled polls are cancelled.
	pollNumber int
}

// scheduleTargetPoll schedules the next poll of the load balancers.
func (p *process) scheduleTargetPoll(watch upgrade.TargetWatch) {
	t := &p.targets
	t.pollNumber++
	if t.polling || watch.Every == 0 {
		return
	}
	planned := t.pollNumber
	p.whenAwake(max(0, t.lastPoll.Add(watch.Every).Sub(p.c.now)), func() {
		if t.pollNumber == planned && !t.polling {
			p.readTargets(watch.IDs)
		}
	})
}

func (p *process) readTargets(ids []string) {
	t := &p.targets
	t.polling, t.lastPoll = true, p.c.now
	list, err := p.c.listTargets(ids)
	observed := p.c.now
	p.whenAwake(p.c.drawUpTo(500*time.Millisecond), func() {
		t.polling = false
		if err == nil {
			t.read.Observed, t.read.List = observed, list
		}
		p.scheduleTurn()
	})
}

// The words of the tally about the targets of load balancers.
const (
	ofMachines = "are machines"
	ofPods     = "are pods"
	ofProvider = "are taken out by the provider"
	stuck      = "are not taken out"
	keepNode   = "keep an empty node"
	keepPods   = "of pods keep an empty node"
	toBeRead   = "are to be read for an empty node"
)

func targetWords() []string {
	return []string{ofMachines, ofPods, ofProvider, stuck, keepNode, keepPods, toBeRead}
}

func (t Tally) countBalancer(b *Balancer) {
	if b.Delay == 0 {
		return
	}
	for name, is := range map[string]bool{ofMachines: b.Bound && !b.Pods, ofPods: b.Bound && b.Pods, ofProvider: !b.Bound, stuck: b.Bound && b.Stuck} {
		if is {
			t.count("targets", name)
		}
	}
}

// countTargets counts the reasons for which an empty node is kept.
func (t Tally) countTargets(step *upgrade.Step) {
	switch why := step.Status.Waiting; {
	case strings.HasPrefix(why, "load balancers to be read"):
		t.count("targets", toBeRead)
	case !strings.HasPrefix(why, "target group web to remove node "):
	case strings.Contains(why, "target ip-"):
		t.count("targets", keepPods)
	default:
		t.count("targets", keepNode)
	}
}

// checkTargetsGone checks E45 for load balancers: no machine is terminated while its targets drain, if the process has seen that. The
// targets include the pods that the upgrade evicted from the node. In undisturbed worlds, no target may still be registered.
func (r *rules) checkTargetsGone(w *upgrade.World, m *nodegroup.Member) {
	if !r.c.plan.hasBalancer() {
		return
	}
	for _, id := range append(slices.Clone(r.evictedAddresses[m.Node.UID]), m.Instance.ID) {
		state := r.c.targetState(id)
		seen := slices.ContainsFunc(w.Targets.List, func(t nodegroup.Target) bool { return t.ID == id && t.Draining })
		switch {
		case state == targetDraining && (seen || !r.c.plan.hasFault(CloudBlind, BalancersBlind)):
			r.fail("E45", "node %s is removed, and its target %s drains for another %s", m.Name(), id, r.c.deregisteredAt[id].Add(r.c.plan.Balancer.Delay).Sub(r.c.now))
		case state == targetRegistered && r.undisturbed && r.c.plan.Balancer.Bound && !r.c.plan.Balancer.Stuck:
			r.fail("E45", "node %s is removed, and its target %s is still registered", m.Name(), id)
		}
	}
}

// forgetEvictedPods forgets the evicted pods of nodes that are no longer in the record.
func (r *rules) forgetEvictedPods(rec *record.Record) {
	kept := map[types.UID]bool{}
	for _, n := range rec.Nodes {
		kept[n.UID] = true
	}
	maps.DeleteFunc(r.evictedAddresses, func(node types.UID, _ []string) bool { return !kept[node] })
}

// checkOverdueTargets checks E45 for messages about a machine that stays a target. The machine had the deregistration delay to drain.
// Its node is given up at most an hour after the drain limit.
func (r *rules) checkOverdueTargets(w *upgrade.World, step *upgrade.Step) {
	lags := r.c.plan.WatchLag > 0 || r.c.plan.hasFault(WatchSlow)
	for _, b := range step.Blocked {
		m := memberNamed(w, b.Node)
		if b.Kind != drain.TargetStays || m == nil || m.Node == nil || !strings.Contains(b.Detail, "target "+m.Instance.ID+" ") {
			continue
		}
		n, stands := step.Record.Nodes[b.Node], step.Record.Stopping == "" && step.Record.Result == ""
		if over := w.Now.Sub(n.Deadline.Add(r.duties.waited[n.UID])); stands && isInDrain(n.State) && over > time.Hour {
			r.fail("E45", "node %s is not given up, %s after its drain limit: %s", b.Node, over, b.Detail)
		}
		if m.Node.Labels[corev1.LabelNodeExcludeBalancers] == "" {
			r.fail("E45", "node %s has no exclusion label, but the message is: %s", b.Node, b.Detail)
		}
		if since, out := r.c.excludedSince[m.Instance.ID]; out && !lags && w.Now.Sub(since) < r.c.plan.Balancer.Delay {
			r.fail("E45", "node %s was excluded from its load balancer %s ago, and the target drains for %s, but the message is: %s", b.Node, w.Now.Sub(since), r.c.plan.Balancer.Delay, b.Detail)
		}
	}
}

// noteEvictedPod records the address of a pod that the process evicts. From then on the upgrade must wait for the load-balancer target
// with that address.
func (r *rules) noteEvictedPod(node types.UID, pod *corev1.Pod) {
	if address := pod.Status.PodIP; address != "" && !slices.Contains(r.evictedAddresses[node], address) {
		r.evictedAddresses[node] = append(r.evictedAddresses[node], address)
	}
}
