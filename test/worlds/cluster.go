package worlds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
)

const (
	namespace  = "shop"
	groupLabel = "example.com/group"
	imageLabel = "example.com/image"
	// flavorLabel is a label that some requests want on current nodes (--current).
	flavorLabel = "example.com/flavor"
)

func worldStart() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// cluster is the true state of the cluster and its cloud. A change replaces the object, so that views of the old object stay valid.
type cluster struct {
	clock
	plan *Plan
	rng  *rand.Rand
	// calm is true after removeObstacles.
	calm        bool
	nodes       map[string]*corev1.Node
	pods        map[types.UID]*corev1.Pod
	budgets     map[string]*policyv1.PodDisruptionBudget
	controllers map[string]*controller
	cloud       cloud
	// namespaceEnding is true while the namespace of all pods is being deleted.
	namespaceEnding bool
	version         int
	// shadow contains the nodes as they would be without the upgrade: their first state with the changes of other actors.
	shadow map[string]*corev1.Node
	// stale is true for a budget whose status the disruption controller must still compute.
	stale map[string]bool
	// onChange is called for every change.
	onChange func(change)
	// closed contains the new nodes that are closed to pods at first.
	closed map[string]bool
	// deviceless contains the nodes that do not offer the device until it is repaired on all nodes.
	deviceless map[string]bool
	// devicesRepairedAt is when the device was repaired on all nodes, zero before.
	devicesRepairedAt time.Time
	// onNodeClosed is called for each new node that is closed to pods.
	onNodeClosed func(Closing)
	// onPodWaitsForTaint is called when a DaemonSet's pod waits for a Ready node whose not-ready taint is not yet removed.
	onPodWaitsForTaint func()
	// onFault is called for every fault that happens.
	onFault func(FaultKind)
	// onUnplacedPod is called when a pod waits for a node. scaling is true while an autoscaler is about to add nodes.
	onUnplacedPod func()
	scaling       bool
	// onRestart is called for each restart request that reached a Deployment, with its result. onPodBound is called for each pod that
	// is bound to a node. onPodGone is called for each pod that is deleted or ends.
	onRestart             func(*controller, schedule.Restart, string)
	onPodBound, onPodGone func(*corev1.Pod)
	// chargedAt is, by pod name, when a budget was last charged for an eviction of the pod.
	chargedAt map[string]time.Time
	// deregisteredAt is when each target was taken out of its load balancer, by target ID.
	deregisteredAt map[string]time.Time
	// excludedSince is, for each machine, the time since when its node's label takes it out of load balancers.
	excludedSince map[string]time.Time
	// deletedByUpgrade contains the pods that the upgrade deleted.
	deletedByUpgrade map[types.UID]bool
	// fellSilent contains the nodes whose kubelet an actor stopped.
	fellSilent map[types.UID]bool
	// becameUnready contains the UIDs of pods that became unready after they had been ready.
	becameUnready map[types.UID]bool
	// brieflyUnready contains the pods that are unready at the moment because of addBriefUnreadiness.
	brieflyUnready map[types.UID]bool
	// emptied is, by node, when the last pod ended for which a drain waits.
	emptied map[string]time.Time
	// binding is true while a run of the scheduler is scheduled.
	binding bool
}

// change is one event of a watch. Exactly one of the objects is set. gone is true if the object was deleted.
type change struct {
	node   *corev1.Node
	pod    *corev1.Pod
	budget *policyv1.PodDisruptionBudget
	gone   bool
}

func newCluster(p *Plan) *cluster {
	c := &cluster{
		clock: clock{now: worldStart()}, plan: p, rng: rand.New(rand.NewPCG(p.Seed, 0x776f726c)),
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{}, budgets: map[string]*policyv1.PodDisruptionBudget{},
		controllers: map[string]*controller{}, shadow: map[string]*corev1.Node{}, stale: map[string]bool{}, onChange: func(change) {},
		onFault: func(FaultKind) {}, onNodeClosed: func(Closing) {}, closed: map[string]bool{}, deviceless: map[string]bool{}, onUnplacedPod: func() {}, emptied: map[string]time.Time{},
		onRestart: func(*controller, schedule.Restart, string) {}, onPodBound: func(*corev1.Pod) {}, onPodGone: func(*corev1.Pod) {}, deletedByUpgrade: map[types.UID]bool{}, becameUnready: map[types.UID]bool{}, fellSilent: map[types.UID]bool{}, brieflyUnready: map[types.UID]bool{},
		chargedAt: map[string]time.Time{}, deregisteredAt: map[string]time.Time{}, excludedSince: map[string]time.Time{},
	}
	c.cloud = newCloud(p)
	for i, n := range p.Nodes {
		c.createNode(i, n)
	}
	if p.Outside {
		c.addOutsideNode("outside")
	}
	for i := range p.Workloads {
		c.createFirstPods(&p.Workloads[i])
	}
	for i, b := range p.Budgets {
		c.putBudget(newBudget(i, b))
		c.syncBudget(budgetName(i, b))
	}
	return c
}

// elapsed returns the time since the world began.
func (c *cluster) elapsed() time.Duration { return c.now.Sub(worldStart()) }

func (c *cluster) nextVersion() string {
	c.version++
	return strconv.Itoa(c.version)
}

func (c *cluster) drawUpTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(c.rng.Int64N(int64(limit)))
}

func (c *cluster) chance(percent int) bool { return c.rng.IntN(100) < percent }

// createNode creates a node of the plan and its instance.
func (c *cluster) createNode(i int, n Node) {
	zone, name, revision := zoneName(n.Zone), nodeName(n, i), "1"
	if n.Current {
		revision = "2"
	}
	if c.plan.listsMachines() {
		c.cloud.addInstance(&instance{id: "i-" + name, zone: zone, inService: !n.Standby, standby: n.Standby, revision: revision})
	}
	if n.Marks&MarkNoNode != 0 {
		return
	}
	node := newNode(name, zone, revision, c.now.Add(-24*time.Hour))
	if n.Unlabelled {
		node.Labels[flavorLabel] = flavorOf("1")
	}
	applyMarks(node, n.Marks, c.plan.Provider)
	if n.Stray {
		writeStrayMarks(node)
	}
	c.deviceless[name] = n.Deviceless
	c.putNode(node)
	c.shadow[name] = node
}

// nodeName returns the name of a node of the plan. i is its index.
func nodeName(n Node, i int) string {
	if n.Current {
		return fmt.Sprintf("cur-%s-%02d", zoneName(n.Zone), i)
	}
	return fmt.Sprintf("old-%s-%02d", zoneName(n.Zone), i)
}

// flavorOf returns the label value that new nodes of the revision have.
func flavorOf(revision string) string {
	if revision == "1" {
		return "old"
	}
	return "new"
}

func zoneName(i int) string { return string(rune('a' + i)) }

func newNode(name, zone, revision string, at time.Time) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), CreationTimestamp: metav1.Time{Time: at},
			Labels: map[string]string{corev1.LabelTopologyZone: zone, groupLabel: "workers", imageLabel: revision, flavorLabel: flavorOf(revision)},
		},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///" + zone + "/i-" + name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{readyCondition(true, at)}},
	}
}

func readyCondition(ready bool, at time.Time) corev1.NodeCondition {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Time{Time: at}}
}

func fenceTaint(provider string) corev1.Taint {
	if provider == "aws" {
		return corev1.Taint{Key: "eks.amazonaws.com/nodegroup", Value: "unschedulable", Effect: corev1.TaintEffectNoSchedule}
	}
	return corev1.Taint{Key: "kubectl-nodeupgrade/outdated", Effect: corev1.TaintEffectNoSchedule}
}

// applyMarks gives a node the oddities of its marks.
func applyMarks(node *corev1.Node, marks Marks, provider string) {
	if marks&MarkCordoned != 0 {
		node.Spec.Unschedulable = true
	}
	if marks&MarkTainted != 0 {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule})
	}
	if marks&MarkFenceLike != 0 {
		node.Spec.Taints = append(node.Spec.Taints, fenceTaint(provider))
	}
	if marks&MarkExcluded != 0 {
		node.Labels[corev1.LabelNodeExcludeBalancers] = "yes"
	}
	if marks&MarkForeign != 0 {
		node.Labels["team"] = "payments"
		node.Annotations = map[string]string{"example.com/note": "mine"}
	}
	if marks&MarkSilent != 0 {
		node.Status.Conditions = []corev1.NodeCondition{readyCondition(false, node.CreationTimestamp.Add(time.Hour))}
	}
}

// addOutsideNode adds a node of another group.
func (c *cluster) addOutsideNode(name string) {
	node := newNode(name, "a", "1", c.now)
	delete(node.Labels, groupLabel)
	node.Spec.ProviderID = "aws:///a/i-elsewhere-" + name
	c.putNode(node)
	c.scheduleBinding()
}

func (c *cluster) putNode(node *corev1.Node) {
	c.addDevices(node)
	node.ResourceVersion = c.nextVersion()
	c.nodes[node.Name] = node
	c.followExclusion(node)
	c.onChange(change{node: node})
}

// changeNode replaces a node by a changed copy of it.
func (c *cluster) changeNode(name string, by func(*corev1.Node)) {
	old, ok := c.nodes[name]
	if !ok {
		return
	}
	node := old.DeepCopy()
	by(node)
	c.putNode(node)
	c.scheduleBinding()
}

// changeNodeAsOther changes a node on behalf of an actor, not of the upgrade. It also changes the node's shadow.
func (c *cluster) changeNodeAsOther(name string, by func(*corev1.Node)) {
	c.changeNode(name, by)
	if shadow, ok := c.shadow[name]; ok {
		shadow = shadow.DeepCopy()
		by(shadow)
		c.shadow[name] = shadow
	}
}

// deleteNode deletes the Node object, and the pods on the node, as garbage collection does.
func (c *cluster) deleteNode(name string) {
	node, ok := c.nodes[name]
	if !ok {
		return
	}
	delete(c.nodes, name)
	delete(c.shadow, name)
	c.onChange(change{node: node, gone: true})
	for _, pod := range c.podsOn(name) {
		c.removePod(pod.UID)
	}
	for _, uid := range sortedKeys(c.pods) {
		if pod := c.pods[uid]; pod.Spec.NodeName == "" && daemonNodeOf(pod) == name {
			c.removePod(uid)
		}
	}
}

// podsOn returns the pods that are bound to a node, by UID.
func (c *cluster) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range c.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}

func (c *cluster) nodeNames() []string { return slices.Sorted(maps.Keys(c.nodes)) }

func isNodeReady(node *corev1.Node) bool {
	return len(node.Status.Conditions) > 0 && node.Status.Conditions[0].Status == corev1.ConditionTrue
}

// setNodeReady changes the node's Ready condition. The control plane changes the not-ready taint after TaintLag.
func (c *cluster) setNodeReady(name string, ready bool) {
	c.changeNodeAsOther(name, func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{readyCondition(ready, c.now)} })
	if c.plan.TaintLag > 0 {
		c.after(c.plan.TaintLag, func() { c.taintByCondition(name) })
	}
}

// notReadyTaint returns the taint that the control plane sets on nodes that are not Ready.
func notReadyTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
}

// taintByCondition simulates the control plane: it adds or removes the not-ready taint according to the node's Ready condition.
func (c *cluster) taintByCondition(name string) {
	node := c.nodes[name]
	if node == nil || isNodeReady(node) != slices.Contains(node.Spec.Taints, notReadyTaint()) {
		return
	}
	c.changeNodeAsOther(name, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t == notReadyTaint() })
		if !isNodeReady(node) {
			n.Spec.Taints = append(n.Spec.Taints, notReadyTaint())
		}
	})
}
