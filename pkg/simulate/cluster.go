package simulate

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Cluster is a simulated cluster at one moment of its own time.
type Cluster struct {
	now   time.Time
	times Times
	group nodegroup.Group
	// members are the group's machines by instance ID, or by node name without a cloud; the roster
	// is what an upgrade sees of them, by name.
	members  map[string]*member
	roster   []nodegroup.Member
	outdated func(*corev1.Node) bool
	model    model
	tokens   map[string]bool

	// machines are all nodes, by name and, in sites, sorted by it. Those that take pods are in open
	// or cordoned, sorted by how much of them is allocated.
	machines       map[string]*machine
	numbers        int32
	sites          []*machine
	open, cordoned ranking

	// units are the pods on nodes, waiting those that no node takes; lines are the same in order.
	units        map[types.UID]*unit
	waiting      map[types.UID]*unit
	lines        []*line
	roomAt       []*machine
	roomAnywhere bool

	// shapes are by controller, in shapesIn by namespace; tallies by what they mean, in talliesIn
	// by namespace.
	shapes    map[types.UID][]*shape
	shapesIn  map[string][]*shape
	tallies   map[string]*tally
	talliesIn map[string][]*tally
	domains   map[string]*domain
	classes   map[string]*class
	volumes   map[string]*nodeaffinity.NodeSelector
	workloads map[types.UID]Workload
	daemons   []daemon
	// sets are the pods of ordered StatefulSets, missing those that are to come, by controller.
	sets    map[types.UID]map[types.UID]*unit
	missing map[types.UID][]*unit

	budgets []*policyv1.PodDisruptionBudget
	index   drain.Budgets
	// counted are the budgets that expect as many pods as they have.
	counted   map[*policyv1.PodDisruptionBudget]bool
	disrupted map[types.NamespacedName]time.Time
	ending    map[string]bool
	facts     drain.Facts

	// attempts are the actions of the upgrade, answers those of them that are to be forgotten, in
	// that order.
	attempts map[string]nodegroup.Attempt
	answers  []answer
	record   upgrade.Record
	notes    upgrade.Notes
	evicted  int
	// news is set by every change that an upgrade might act on; a budget's is one only if it is
	// heeded.
	news    bool
	heeded  map[types.NamespacedName]bool
	heedAll bool
	events  queue
	serial  int
}

// New copies the Spec into a cluster that stands still until Advance.
func New(spec Spec) *Cluster {
	c := &Cluster{
		now: spec.Now, times: spec.Times, group: spec.Group, outdated: spec.Outdated, ending: spec.EndingNamespaces, facts: spec.Facts,
		workloads: spec.Workloads, volumes: volumeSelectors(&spec), model: newModel(sorted(spec.Nodes)),
		members: map[string]*member{}, machines: map[string]*machine{}, tokens: map[string]bool{},
		units: make(map[types.UID]*unit, len(spec.Pods)), waiting: map[types.UID]*unit{},
		shapes: map[types.UID][]*shape{}, shapesIn: map[string][]*shape{}, tallies: map[string]*tally{}, talliesIn: map[string][]*tally{},
		domains: map[string]*domain{}, classes: map[string]*class{}, sets: map[types.UID]map[types.UID]*unit{}, missing: map[types.UID][]*unit{},
		counted: map[*policyv1.PodDisruptionBudget]bool{}, disrupted: map[types.NamespacedName]time.Time{},
		heeded: map[types.NamespacedName]bool{}, attempts: map[string]nodegroup.Attempt{}, record: spec.Record,
	}
	c.addNodes(&spec)
	for _, budget := range spec.Budgets {
		c.budgets = append(c.budgets, budget.DeepCopy())
	}
	c.index = drain.NewBudgets(c.budgets)
	c.addPods(slices.SortedFunc(slices.Values(spec.Pods), byName))
	c.recompute()
	for _, m := range c.sites {
		for _, pod := range m.pods {
			c.goOn(c.units[pod.UID])
		}
	}
	return c
}

func sorted(nodes []*corev1.Node) []*corev1.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
}

func byName(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
}

func (c *Cluster) addNodes(spec *Spec) {
	for _, instance := range spec.Group.Instances {
		c.members[instance.ID] = &member{instance: instance}
	}
	provider := nodegroup.InfoOf(spec.Group.Provider)
	for _, node := range sorted(spec.Nodes) {
		m, ok := c.members[provider.InstanceID(node)]
		if !ok {
			m = &member{}
			c.members[node.Name] = m
		}
		c.setNode(node, m)
	}
	for _, node := range sorted(spec.Others) {
		c.setNode(node, nil)
	}
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		m := c.members[id]
		c.enroll(m) // instances without a node
		switch {
		case m.instance.State == nodegroup.InstanceLeaving, outlived(spec, m):
			c.leave(m)
		case m.instance.State == nodegroup.InstancePending && m.node == nil:
			c.boot(m)
		}
	}
}

// outlived reports whether all that is left of a machine that the upgrade terminates is its Node,
// which goes a little later.
func outlived(spec *Spec, m *member) bool {
	return m.instance.ID == "" && m.node != nil && spec.Record.Nodes[m.node.Name].State == upgrade.NodeRemoving
}

// Now is the cluster's time.
func (c *Cluster) Now() time.Time { return c.now }

// Record is the upgrade's record as it was stored last.
func (c *Cluster) Record() upgrade.Record { return c.record }

// World is what an upgrade sees of the cluster now. Its budgets are the cluster's own: they are to
// be used up before the cluster moves on.
func (c *Cluster) World(req upgrade.Request) upgrade.World {
	w := c.world(req)
	w.Members, w.Open = slices.Clone(w.Members), maps.Clone(w.Open)
	for _, member := range w.Members {
		if member.Instance.ID != "" {
			w.Group.Instances = append(w.Group.Instances, member.Instance)
		}
	}
	return w
}

// world is World without copies, and without the list of instances that is in its members.
func (c *Cluster) world(req upgrade.Request) upgrade.World {
	g := c.group
	g.Observed, g.Instances = c.now, nil
	return upgrade.World{
		Now: c.now, Request: req, Group: g, Members: c.roster, Budgets: c.index, EndingNamespaces: c.ending, Facts: c.facts,
		Disrupted: c.disrupted, Open: c.attempts, Record: c.record, Notes: c.notes,
	}
}

// Unplaced lists the pods that no node takes now, and those of them alone that came to be so in the
// simulation; by name.
func (c *Cluster) Unplaced() []Unplaced {
	var list []Unplaced
	reasons := map[*shape]string{}
	for _, l := range c.lines {
		for _, u := range l.units {
			if c.waiting[u.pod.UID] != u || u.stranger {
				continue
			}
			if _, known := reasons[u.shape]; !known {
				reasons[u.shape] = c.explain(u.shape)
			}
			list = append(list, Unplaced{
				Pod: types.NamespacedName{Namespace: u.pod.Namespace, Name: u.pod.Name}, Owner: ownerName(u.pod),
				Since: u.waits, Reason: reasons[u.shape],
			})
		}
	}
	slices.SortFunc(list, func(a, b Unplaced) int { return strings.Compare(a.Pod.String(), b.Pod.String()) })
	return list
}

// Advance lets the cluster move: to its next event, but not past the time given, which may be zero
// for no limit. It reports whether it moved.
func (c *Cluster) Advance(limit time.Time) bool {
	if len(c.events) > 0 && (limit.IsZero() || !c.events[0].at.After(limit)) {
		c.now = c.events[0].at
		for len(c.events) > 0 && !c.events[0].at.After(c.now) {
			heap.Pop(&c.events).(event).do()
		}
		c.placeWaiting()
		return true
	}
	if limit.After(c.now) {
		c.now = limit
		return true
	}
	return false
}

func (c *Cluster) after(d time.Duration, do func()) {
	c.serial++
	heap.Push(&c.events, event{at: c.now.Add(d), serial: c.serial, do: do})
}

// touch gives the object a new resourceVersion.
func (c *Cluster) touch() string {
	c.serial++
	return strconv.Itoa(c.serial)
}
