package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// cloud simulates the group's provider: it launches and terminates instances.
type cloud struct {
	clock   *clock
	times   Times
	group   *simGroup
	nodes   *nodeLifecycle
	actions *actionLog
	// model is the template of new nodes. tokens are the tokens of all launches so far.
	model  model
	tokens map[string]bool
	// cloudSurge is how many nodes a cloud that upgrades the group itself adds beyond the requested nodes.
	cloudSurge int
}

// actOnCloud carries out an action on the group or one of its instances.
func (c *cloud) actOnCloud(action nodegroup.Action) (nodegroup.Outcome, string) {
	c.clock.changed = true
	switch a := action.(type) {
	case nodegroup.SetRevision:
		c.changeSettings(func() { c.group.Pointed = a.To })
	case nodegroup.Quiesce:
		c.changeSettings(func() { c.group.Suspended = append(slices.Clone(c.group.Suspended), a.Processes...) })
	case nodegroup.Resume:
		c.changeSettings(func() {
			c.group.Suspended = slices.DeleteFunc(slices.Clone(c.group.Suspended), func(p string) bool { return slices.Contains(a.Processes, p) })
		})
	case nodegroup.RaiseMax:
		c.changeSettings(func() { c.group.Max = a.Max })
	case nodegroup.LowerMax:
		c.changeSettings(func() { c.group.Max = max(a.Max, c.group.Desired) })
	case nodegroup.AddCapacity:
		return c.addCapacity(a)
	case nodegroup.Terminate:
		return c.terminateInstance(a)
	default:
		return nodegroup.OutcomeFatal, fmt.Sprintf("the simulated cloud cannot %s", action)
	}
	return nodegroup.OutcomeDone, ""
}

// changeSettings applies a change of the group's settings. The upgrade sees it after Times.Seen.
func (c *cloud) changeSettings(change func()) {
	if c.times.Seen == 0 {
		change()
		return
	}
	c.clock.scheduleAfter(c.times.Seen, func() {
		change()
		c.clock.changed = true
	})
}

func (c *cloud) addCapacity(a nodegroup.AddCapacity) (nodegroup.Outcome, string) {
	if c.tokens[a.Token] {
		return nodegroup.OutcomeDone, ""
	}
	if a.Zone == "" {
		c.group.Max += a.N
	}
	if c.group.Desired+a.N > c.group.Max {
		return nodegroup.OutcomeExhausted, fmt.Sprintf("desired size %d would be over max %d", c.group.Desired+a.N, c.group.Max)
	}
	c.tokens[a.Token] = true
	c.launchInstances(a.N, a.Zone)
	own := c.cloudSurge
	c.cloudSurge = 0
	c.group.Max += own
	c.launchInstances(own, "")
	return nodegroup.OutcomeDone, ""
}

// launchInstances grows the group by n instances, in its smallest zones unless one is given.
func (c *cloud) launchInstances(n int, zone string) {
	if c.group.Can.Resize {
		c.group.Desired += n
	}
	for range n {
		c.launchInstance(cmp.Or(zone, c.group.smallestZone()))
	}
}

// launchInstance launches an instance with the group's current revision. Its node is Ready after the boot time.
func (c *cloud) launchInstance(zone string) { c.scheduleBoot(c.addInstance(zone), c.times.Boot) }

// addInstance adds an instance without a node.
func (c *cloud) addInstance(zone string) *member {
	serial := c.clock.nextSerial()
	m := &member{instance: nodegroup.Instance{
		ID: "i-" + newNodeName(c.group.Name, zone, serial), Zone: zone, State: nodegroup.InstancePending, Revision: c.group.Pointed,
		Outdated: c.group.Pointed.ID != c.group.Wanted.ID,
	}}
	c.group.members[m.instance.ID] = m
	c.group.updateInRoster(m)
	return m
}

// scheduleBoot makes the instance's node Ready after a time.
func (c *cloud) scheduleBoot(m *member, after time.Duration) {
	name := strings.TrimPrefix(m.instance.ID, "i-")
	c.clock.scheduleAfter(after, func() {
		if m.instance.State == nodegroup.InstanceLeaving {
			return
		}
		m.instance.State = nodegroup.InstanceInService
		c.nodes.index.attachable[name] = c.model.attachable
		c.nodes.joinNode(c.newNodeObject(name, m.instance), m)
	})
}

func (c *cloud) newNodeObject(name string, instance nodegroup.Instance) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), ResourceVersion: c.clock.nextVersion(), CreationTimestamp: metav1.Time{Time: c.clock.now},
			Labels: maps.Clone(c.model.labels),
		},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("sim:///%s/%s", instance.Zone, instance.ID)},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: c.clock.now}}},
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: c.group.Pointed.Kubernetes},
			Allocatable: c.model.allocatable,
		},
	}
	node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelHostname] = instance.Zone, name
	maps.Copy(node.Labels, c.group.WantedLabels)
	return node
}

func (c *cloud) terminateInstance(a nodegroup.Terminate) (nodegroup.Outcome, string) {
	m, ok := c.group.members[a.Instance]
	if !ok || m.instance.State == nodegroup.InstanceLeaving {
		return nodegroup.OutcomeMoved, "the instance is gone"
	}
	if a.Shrink && c.group.Desired <= c.group.Min {
		return nodegroup.OutcomeExhausted, fmt.Sprintf("the desired size equals the minimum of %d", c.group.Min)
	}
	m.instance.State = nodegroup.InstanceLeaving
	c.nodes.updateInstance(m)
	switch {
	case a.Shrink:
		c.group.Desired--
	case c.group.Can.Resize:
		c.launchInstance(c.group.smallestZone())
	}
	c.scheduleInstanceEnd(m, c.times.Leave)
	return nodegroup.OutcomeDone, ""
}

// scheduleInstanceEnd removes a terminating instance and its node after a time.
func (c *cloud) scheduleInstanceEnd(m *member, after time.Duration) {
	c.clock.scheduleAfter(after, func() {
		if m.node != nil {
			c.nodes.removeNode(m.node)
		}
		c.group.removeInstance(m)
		c.actions.dropInstance(m.instance.ID)
	})
}

// newNodeName returns a node name with the group and the last part of the zone.
func newNodeName(group, zone string, serial int) string {
	return fmt.Sprintf("%s-new-%s-%d", group, shortZone(zone), serial)
}

// shortZone returns the last part of the zone's name.
func shortZone(zone string) string { return zone[strings.LastIndex(zone, "-")+1:] }

// model is the template of new nodes of the group: the labels that all existing nodes share, and the resources of the
// node with the median size.
type model struct {
	labels      map[string]string
	allocatable corev1.ResourceList
	// attachable is how many volumes each CSI driver may attach.
	attachable map[string]int64
}

// newModel computes the model from the group's nodes. It leaves taints out. The pods that will move already tolerate
// the group's own taints, and taints that another process added to nodes do not belong to the group.
func newModel(nodes []*corev1.Node, unreported []corev1.ResourceName, attachable map[string]map[string]int64) model {
	m := model{labels: map[string]string{}}
	if len(nodes) == 0 {
		return m
	}
	for key, value := range nodes[0].Labels {
		shared := !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { v, ok := n.Labels[key]; return !ok || v != value })
		if shared && key != corev1.LabelNodeExcludeBalancers {
			m.labels[key] = value
		}
	}
	bySize := slices.SortedStableFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.Status.Allocatable.Cpu().Cmp(*b.Status.Allocatable.Cpu()), a.Status.Allocatable.Memory().Cmp(*b.Status.Allocatable.Memory()))
	})
	typical := bySize[(len(bySize)-1)/2]
	m.allocatable = maps.Clone(typical.Status.Allocatable)
	for _, name := range unreported {
		delete(m.allocatable, name)
	}
	m.attachable = attachable[typical.Name]
	return m
}

// resourcesMissingOnNewNodes returns the extended resources of the group's nodes that a new node probably does not have. A
// device plugin must report such a resource from a pod on each node, but no DaemonSet pod and no static pod runs on
// these nodes.
func resourcesMissingOnNewNodes(spec *Spec) []corev1.ResourceName {
	own, known := map[string]bool{}, map[corev1.ResourceName]bool{}
	for _, node := range spec.Nodes {
		own[node.Name] = true
		for name := range node.Status.Allocatable {
			if fit.IsExtended(name) {
				known[name] = true
			}
		}
	}
	if slices.ContainsFunc(spec.Pods, func(pod *corev1.Pod) bool {
		kind := drain.OwnerKind(pod)
		return own[pod.Spec.NodeName] && (kind == daemonSet || kind == "Node" || isMirrorPod(pod))
	}) {
		return nil
	}
	return slices.Sorted(maps.Keys(known))
}
