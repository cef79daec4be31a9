package simulate

import (
	"cmp"
	"maps"
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

// Cluster is a simulated cluster with its own virtual time.
type Cluster struct {
	clock     *clock
	group     *simGroup
	index     *podIndex
	scheduler *scheduler
	budgets   *disruption
	pods      *podLifecycle
	nodes     *nodeLifecycle
	cloud     *cloud
	// autoscaler is nil if the cluster has none.
	autoscaler *autoscaler
	balancers  loadBalancers
	facts      drain.Facts

	actions *actionLog
	record  record.Record
	notes   upgrade.Notes
	// workloads groups the pods by workload.
	workloads *drain.WorkloadIndex
	movable   drain.Movable
	// controllers are the controllers that the upgrade requested to read.
	controllers map[drain.Workload]drain.Controller
	// refilled has the drained nodes that users have already replaced. It is nil if no user replaces nodes.
	refilled map[string]bool
	// began is when the simulation started. evicted counts the evicted pods. deletions counts, by workload, the pods
	// that were deleted instead.
	began     time.Time
	evicted   int
	deletions map[string]*Deletion
	// drawn is the seed for the order in which nodes are started. brief leaves the nodes out of each step's status.
	// See upgrade.World.
	drawn uint64
	brief bool
	// memo is the data that upgrade.Next keeps between steps.
	memo upgrade.Memo
}

// New copies the Spec into a cluster whose time only Advance moves.
func New(spec Spec) *Cluster {
	clock := &clock{now: spec.Now}
	c := &Cluster{
		clock: clock, index: newPodIndex(&spec), budgets: newDisruption(&spec, clock), facts: spec.Facts, record: spec.Record,
		workloads: drain.NewWorkloadIndex(spec.Facts), movable: spec.Movable, balancers: newLoadBalancers(spec.Targets),
		group:   &simGroup{Group: spec.Group, clock: clock, outdated: spec.Outdated, members: map[string]*member{}},
		actions: &actionLog{clock: clock, attempts: map[string]nodegroup.Attempt{}},
		began:   spec.Now, deletions: map[string]*Deletion{}, controllers: map[drain.Workload]drain.Controller{},
	}
	if spec.Refilled {
		c.refilled = map[string]bool{}
	}
	c.scheduler = &scheduler{clock: clock, index: c.index}
	c.pods = &podLifecycle{
		clock: clock, times: spec.Times, group: c.group, index: c.index, scheduler: c.scheduler, budgets: c.budgets,
		actions: c.actions, workloads: c.workloads, faultsLast: spec.FaultsLast, refused: map[drain.Workload]string{}, findRefusal: spec.Refused, webhooks: newWebhooks(&spec, clock),
		outages: &outages{clock: clock, ready: map[types.UID]int{}, since: map[types.UID]time.Time{}},
		sets:    orderedSets{workloads: spec.Workloads, pods: map[types.UID]map[types.UID]*simPod{}, missing: map[types.UID][]*simPod{}},
	}
	c.scheduler.evict = c.pods.beginPodDeletion
	c.nodes = &nodeLifecycle{clock: clock, group: c.group, index: c.index, pods: c.pods, actions: c.actions}
	c.cloud = &cloud{
		clock: clock, times: spec.Times, group: c.group, nodes: c.nodes, actions: c.actions,
		model: newModel(sortNodes(spec.Nodes), resourcesMissingOnNewNodes(&spec), c.index.attachable), tokens: map[string]bool{},
	}
	if spec.Autoscaled || spec.Group.Can.Refill == nodegroup.RefillByPods {
		c.autoscaler = &autoscaler{clock: clock, scheduler: c.scheduler, cloud: c.cloud}
	}
	c.addNodes(&spec)
	pods := c.pods.addPods(slices.SortedFunc(slices.Values(spec.Pods), comparePods))
	c.budgets.initStatuses(pods, spec.Workloads)
	for _, n := range c.index.nodes.sorted {
		for _, pod := range n.pods {
			if pod.DeletionTimestamp == nil && drain.Ready(pod) {
				c.pods.outages.updateReadyCount(c.index.bound[pod.UID], +1)
			}
			c.pods.resumeLifecycle(c.index.bound[pod.UID])
		}
	}
	if arriving := c.pods.findArrivals(pods); !arriving.isEmpty() {
		clock.scheduleAfter(0, func() { c.pods.createArrivals(arriving) })
	}
	return c
}

func sortNodes(nodes []*corev1.Node) []*corev1.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
}

func (c *Cluster) addNodes(spec *Spec) {
	members := c.group.members
	for _, instance := range spec.Group.Instances {
		members[instance.ID] = &member{instance: instance}
	}
	provider := nodegroup.InfoOf(spec.Group.Provider)
	for _, node := range sortNodes(spec.Nodes) {
		m, ok := members[provider.InstanceID(node)]
		if !ok {
			m = &member{}
			members[node.Name] = m
		}
		c.nodes.addNode(node, m)
	}
	for _, node := range sortNodes(spec.Others) {
		c.nodes.addNode(node, nil)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		c.group.updateInRoster(members[id]) // instances without a node
	}
	c.cloud.resumeMachines(spec)
}

// Now returns the cluster's time.
func (c *Cluster) Now() time.Time { return c.clock.now }

// Record returns the upgrade's record as it was last stored.
func (c *Cluster) Record() record.Record { return c.record }

// Unplaced lists the pods that no node takes now, by name. Pods that were already pending before the simulation are
// left out.
func (c *Cluster) Unplaced() []Unplaced { return c.scheduler.listUnplaced() }

// Refusals returns why each node refuses a pending pod, by the node's name and in kube-scheduler's words. Nodes that
// take the pod are left out. The result is nil if the pod is not pending.
func (c *Cluster) Refusals(pod types.NamespacedName) map[string][]string {
	return c.scheduler.refusals(pod)
}

// World returns what an upgrade sees of the cluster now. Its budgets are not copied, so it must not be used after the
// cluster changes.
func (c *Cluster) World(req record.Request) upgrade.World {
	w := c.sharedWorld(req)
	w.Members, w.Open, w.Controllers = slices.Clone(w.Members), maps.Clone(w.Open), maps.Clone(w.Controllers)
	for _, member := range w.Members {
		if member.Instance.ID != "" {
			w.Group.Instances = append(w.Group.Instances, member.Instance)
		}
	}
	return w
}

// sharedWorld is like World, but without copies and without Group.Instances. The members contain the instances.
func (c *Cluster) sharedWorld(req record.Request) upgrade.World {
	g := c.group.Group
	g.Observed, g.Instances = c.clock.now, nil
	return upgrade.World{
		Now: c.clock.now, Request: req, Group: g, Members: c.group.roster,
		Snapshot: drain.Snapshot{Budgets: c.budgets.index, EndingNamespaces: c.budgets.endingNamespaces, Facts: c.facts, Disrupted: c.budgets.disrupted, Workloads: c.workloads.Current()},
		Movable:  c.movable, Controllers: c.controllers,
		Open: c.actions.attempts, Record: c.record, Notes: c.notes, Targets: c.readTargets(),
	}
}

// placePending places pending pods on nodes. Then it wakes the autoscaler, if there is one.
func (c *Cluster) placePending() {
	c.pods.placePending()
	c.autoscaler.scanIfPending()
}

// Advance moves the time to the next event, but not beyond limit, and runs the event. A zero limit means no limit.
// Advance reports whether the time moved.
func (c *Cluster) Advance(limit time.Time) bool {
	if at, ok := c.clock.nextEventTime(); ok && (limit.IsZero() || !at.After(limit)) {
		c.clock.runEvents(at)
		c.placePending()
		return true
	}
	if limit.After(c.clock.now) {
		c.clock.now = limit
		return true
	}
	return false
}
