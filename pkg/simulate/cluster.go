package simulate

import (
	"container/heap"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Cluster is a simulated cluster at one moment of its own time.
type Cluster struct {
	now   time.Time
	times Times
	group upgrade.Group
	// members are the group's machines by instance ID, or by node name without a cloud.
	members   map[string]*member
	others    []*corev1.Node
	pods      map[types.UID]*corev1.Pod
	byNode    map[string]map[types.UID]*corev1.Pod
	budgets   []*policyv1.PodDisruptionBudget
	index     drain.Budgets
	disrupted map[types.NamespacedName]time.Time
	// waiting are pods that no node takes.
	waiting  []*corev1.Pod
	outdated func(*corev1.Node) bool
	tokens   map[string]bool
	open     map[string]upgrade.Attempt
	record   upgrade.Record
	notes    upgrade.Notes
	events   queue
	serial   int
}

type member struct {
	node     *corev1.Node
	instance upgrade.Instance
}

// New copies the Spec into a cluster that stands still until Advance.
func New(spec Spec) *Cluster {
	c := &Cluster{
		now: spec.Now, times: spec.Times, group: spec.Group, others: spec.Others, outdated: spec.Outdated,
		members: map[string]*member{}, pods: map[types.UID]*corev1.Pod{}, byNode: map[string]map[types.UID]*corev1.Pod{},
		disrupted: map[types.NamespacedName]time.Time{}, tokens: map[string]bool{},
		open: map[string]upgrade.Attempt{}, record: spec.Record,
	}
	for _, instance := range spec.Group.Instances {
		c.members[instance.ID] = &member{instance: instance}
	}
	for _, node := range spec.Nodes {
		m, ok := c.members[path.Base(node.Spec.ProviderID)]
		if !ok {
			m = &member{}
			c.members[node.Name] = m
		}
		m.node = node.DeepCopy()
	}
	for _, budget := range spec.Budgets {
		c.budgets = append(c.budgets, budget.DeepCopy())
	}
	c.index = drain.NewBudgets(c.budgets)
	for _, pod := range spec.Pods {
		c.bind(pod.DeepCopy(), pod.Spec.NodeName)
	}
	return c
}

// Now is the cluster's time.
func (c *Cluster) Now() time.Time { return c.now }

// Record is the upgrade's record as it was stored last.
func (c *Cluster) Record() upgrade.Record { return c.record }

// World is what an upgrade sees of the cluster now. It shares memory with the
// cluster and is to be used up before the cluster moves on.
func (c *Cluster) World(req upgrade.Request) upgrade.World {
	g := c.group
	g.Observed = c.now
	g.Instances = nil
	var nodes []*corev1.Node
	for _, m := range c.members {
		if m.instance.ID != "" {
			g.Instances = append(g.Instances, m.instance)
		}
		if m.node != nil {
			nodes = append(nodes, m.node)
		}
	}
	members := upgrade.Join(g, nodes, c.outdated)
	for i := range members {
		if members[i].Node != nil {
			members[i].Pods = slices.SortedFunc(maps.Values(c.byNode[members[i].Node.Name]), func(a, b *corev1.Pod) int {
				return strings.Compare(string(a.UID), string(b.UID))
			})
		}
	}
	return upgrade.World{
		Now: c.now, Request: req, Group: g, Members: members, Budgets: c.index,
		Disrupted: c.disrupted, Open: c.open, Record: c.record, Notes: c.notes,
	}
}

// Do carries out a step: it stores the record and does every action at once.
func (c *Cluster) Do(step upgrade.Step) {
	c.record, c.notes = step.Record, step.Notes
	for _, action := range step.Actions {
		outcome, detail := c.act(action)
		attempt := c.open[action.Key()]
		c.open[action.Key()] = upgrade.Attempt{
			Action: action, Begun: c.now, Ended: c.now, Outcome: outcome, Detail: detail, Tries: attempt.Tries + 1,
			NotBefore: c.now.Add(lookAgain(outcome)),
		}
	}
}

// lookAgain is how long after an answer the action may be tried anew.
func lookAgain(outcome upgrade.Outcome) time.Duration {
	if outcome == upgrade.OutcomeDone {
		return 0
	}
	return 30 * time.Second
}

// Advance lets the cluster move: to its next event, but not past the time given, which may be zero for
// no limit. It reports whether it moved.
func (c *Cluster) Advance(limit time.Time) bool {
	if len(c.events) > 0 && (limit.IsZero() || !c.events[0].at.After(limit)) {
		c.now = c.events[0].at
		for len(c.events) > 0 && !c.events[0].at.After(c.now) {
			heap.Pop(&c.events).(event).do()
		}
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

func (c *Cluster) act(action upgrade.Action) (upgrade.Outcome, string) {
	switch a := action.(type) {
	case upgrade.Fence:
		return c.change(a.Node, a.UID, func(n *corev1.Node) error { return upgrade.MarkFenced(n, c.record.Run, c.group.Provider) })
	case upgrade.Unfence:
		outcome, detail := c.change(a.Node, a.UID, func(n *corev1.Node) error { return upgrade.MarkUnfenced(n, c.group.Provider) })
		c.placeWaiting()
		return outcome, detail
	case upgrade.StartDrain:
		return c.change(a.Node, a.UID, func(n *corev1.Node) error { upgrade.MarkDraining(n, a.Deadline); return nil })
	case upgrade.DeleteNode:
		return c.change(a.Node, a.UID, func(*corev1.Node) error { c.forget(a.Node); return nil })
	case upgrade.Evict:
		return c.evict(a)
	case upgrade.Delete:
		return c.delete(a)
	default:
		return c.actCloud(action)
	}
}

func (c *Cluster) change(name string, uid types.UID, f func(*corev1.Node) error) (upgrade.Outcome, string) {
	for _, m := range c.members {
		if m.node == nil || m.node.Name != name || m.node.UID != uid {
			continue
		}
		node := m.node.DeepCopy()
		if err := f(node); err != nil {
			return upgrade.OutcomeFatal, err.Error()
		}
		node.ResourceVersion = c.touch()
		m.node = node
		return upgrade.OutcomeDone, ""
	}
	return upgrade.OutcomeMoved, fmt.Sprintf("node %q is gone", name)
}

// forget removes a node and everything on it.
func (c *Cluster) forget(name string) {
	for uid := range c.byNode[name] {
		c.end(uid)
	}
	delete(c.byNode, name)
	for id, m := range c.members {
		if m.node != nil && m.node.Name == name {
			m.node = nil
			if m.instance.ID == "" {
				delete(c.members, id)
			}
		}
	}
}

// nodeName names a new node after its group and the last part of its zone.
func nodeName(group, zone string, serial int) string {
	short := zone[strings.LastIndex(zone, "-")+1:]
	return fmt.Sprintf("%s-new-%s-%d", group, short, serial)
}
