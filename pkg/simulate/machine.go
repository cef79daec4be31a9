package simulate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// amount is what a pod asks for or a node has: thousandths of a CPU, and bytes.
type amount struct{ cpu, memory int64 }

func (a amount) plus(b amount) amount  { return amount{a.cpu + b.cpu, a.memory + b.memory} }
func (a amount) minus(b amount) amount { return amount{a.cpu - b.cpu, a.memory - b.memory} }

// member is a machine of the group: an instance, its node, or both.
type member struct {
	node     *corev1.Node
	instance nodegroup.Instance
	// shown is the name it has in the roster.
	shown string
}

// machine is a node with its pods and the sums that placing pods needs.
type machine struct {
	// number is its own among all machines that were ever there.
	number int32
	node   *corev1.Node
	// member is nil for a node outside the group.
	member *member
	// pods are sorted by UID. The slice is replaced, never changed: a World may show it.
	pods []*corev1.Pod
	used amount
	// scored is used, with the scheduler's guess for pods that ask for nothing.
	scored amount
	limits limits
	// taints keep pods away that do not tolerate them; the cordon is one.
	taints  []corev1.Taint
	cordon  bool
	closed  bool
	rank    rank
	ordered bool
}

// limits are a node's allocatable resources; what it does not tell is not limited.
type limits struct {
	amount
	pods int
}

// rank orders nodes for the scheduler: the one with the least of it allocated first, then by pods,
// then by name.
type rank struct {
	load int64
	pods int
	name string
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.load, o.load), cmp.Compare(r.pods, o.pods), strings.Compare(r.name, o.name))
}

// loadScale is the load of a node that is full.
const loadScale = 10_000

func (m *machine) rankNow() rank {
	r := rank{pods: len(m.pods), name: m.node.Name}
	if m.limits.cpu > 0 {
		r.load += m.scored.cpu * loadScale / m.limits.cpu
	}
	if m.limits.memory > 0 {
		r.load += m.scored.memory * loadScale / m.limits.memory
	}
	return r
}

// observe takes over what the scheduler reads off the node object.
func (m *machine) observe(node *corev1.Node) {
	m.node, m.cordon, m.taints = node, node.Spec.Unschedulable, nil
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			m.taints = append(m.taints, taint)
		}
	}
	allocatable := node.Status.Allocatable
	m.limits = limits{amount: amount{allocatable.Cpu().MilliValue(), allocatable.Memory().Value()}, pods: int(allocatable.Pods().Value())}
	m.closed = !ready(node) || (m.member != nil && m.member.instance.State == nodegroup.InstanceLeaving)
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func byUID(pod *corev1.Pod, uid types.UID) int { return strings.Compare(string(pod.UID), string(uid)) }

// show puts the pod into the node's list, in the place of the one it replaces.
func (m *machine) show(pod *corev1.Pod) {
	i, known := slices.BinarySearchFunc(m.pods, pod.UID, byUID)
	pods := make([]*corev1.Pod, 0, len(m.pods)+1)
	pods = append(append(pods, m.pods[:i]...), pod)
	if known {
		i++
	}
	m.pods = append(pods, m.pods[i:]...)
}

func (m *machine) hide(uid types.UID) {
	if i, known := slices.BinarySearchFunc(m.pods, uid, byUID); known {
		m.pods = slices.Concat(m.pods[:i], m.pods[i+1:])
	}
}

// queueOf is the list of nodes that the scheduler looks through for pods that tolerate a cordon or
// do not.
func (c *Cluster) queueOf(m *machine) *ranking {
	if m.cordon {
		return &c.cordoned
	}
	return &c.open
}

// unrank takes the node out of the scheduler's lists, to be changed and ranked again.
func (c *Cluster) unrank(m *machine) {
	if m.ordered {
		c.queueOf(m).remove(m)
		m.ordered = false
	}
}

func (c *Cluster) rerank(m *machine) {
	if m.closed {
		return
	}
	m.rank, m.ordered = m.rankNow(), true
	c.queueOf(m).insert(m)
}

// setNode takes a new version of a node, or a new node, into account.
func (c *Cluster) setNode(node *corev1.Node, owner *member) *machine {
	m, known := c.machines[node.Name]
	if !known {
		m = &machine{number: c.numbers, member: owner, node: node}
		c.numbers++
		c.machines[node.Name] = m
		i, _ := slices.BinarySearchFunc(c.sites, node.Name, func(o *machine, name string) int { return strings.Compare(o.node.Name, name) })
		c.sites = slices.Insert(c.sites, i, m)
	}
	c.unrank(m)
	before := m.node
	m.observe(node)
	c.survey(m, before, node)
	c.reconsider(m)
	c.rerank(m)
	if owner != nil {
		owner.node = node
		c.enroll(owner)
	}
	return m
}

// dropNode forgets a node that carries nothing any more.
func (c *Cluster) dropNode(m *machine) {
	c.unrank(m)
	c.survey(m, m.node, nil)
	delete(c.machines, m.node.Name)
	if i, ok := slices.BinarySearchFunc(c.sites, m.node.Name, func(o *machine, name string) int { return strings.Compare(o.node.Name, name) }); ok {
		c.sites = slices.Delete(c.sites, i, i+1)
	}
	for _, kind := range []string{"fence/", "unfence/", "start-drain/", "delete-node/"} {
		delete(c.attempts, kind+string(m.node.UID))
	}
}

// enroll brings the roster up to date with a member: the group's members as an upgrade sees them,
// sorted by name.
func (c *Cluster) enroll(m *member) {
	c.news = true
	shown := nodegroup.Member{Node: m.node, Instance: m.instance, Outdated: m.instance.Outdated}
	if m.instance.ID == "" && m.node != nil {
		shown.Outdated = c.outdated(m.node)
	}
	if m.node != nil {
		if site, ok := c.machines[m.node.Name]; ok {
			shown.Pods = site.pods
		}
	}
	shown.Read(&c.group)
	name := shown.Name()
	if m.shown != name {
		c.expel(m)
		i, _ := c.seat(name)
		c.roster = slices.Insert(c.roster, i, shown)
		m.shown = name
		return
	}
	if i, ok := c.seat(name); ok {
		c.roster[i] = shown
	}
}

// expel takes a member off the roster.
func (c *Cluster) expel(m *member) {
	if i, ok := c.seat(m.shown); ok && m.shown != "" {
		c.roster = slices.Delete(c.roster, i, i+1)
	}
	m.shown = ""
	c.news = true
}

func (c *Cluster) seat(name string) (int, bool) {
	return slices.BinarySearchFunc(c.roster, name, func(m nodegroup.Member, name string) int { return strings.Compare(m.Name(), name) })
}

// setInstance takes a change of a member's instance into account, and with it whether its node
// takes pods.
func (c *Cluster) setInstance(m *member) {
	if m.node != nil {
		c.setNode(m.node, m)
		return
	}
	c.enroll(m)
}
