package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func (c *Cluster) actCloud(action nodegroup.Action) (nodegroup.Outcome, string) {
	c.news = true
	switch a := action.(type) {
	case nodegroup.SetRevision:
		c.show(func() { c.group.Pointed = a.To })
	case nodegroup.Quiesce:
		c.show(func() { c.group.Suspended = append(slices.Clone(c.group.Suspended), a.Processes...) })
	case nodegroup.Resume:
		c.show(func() {
			c.group.Suspended = slices.DeleteFunc(slices.Clone(c.group.Suspended), func(p string) bool { return slices.Contains(a.Processes, p) })
		})
	case nodegroup.RaiseMax:
		c.show(func() { c.group.Max = a.Max })
	case nodegroup.LowerMax:
		c.show(func() { c.group.Max = max(a.Max, c.group.Desired) })
	case nodegroup.AddCapacity:
		return c.add(a)
	case nodegroup.Terminate:
		return c.terminate(a)
	default:
		return nodegroup.OutcomeFatal, fmt.Sprintf("the simulated cloud cannot %s", action)
	}
	return nodegroup.OutcomeDone, ""
}

// show has a change of the group's settings take place, and be seen with the next question to the
// cloud.
func (c *Cluster) show(change func()) {
	if c.times.Seen == 0 {
		change()
		return
	}
	c.after(c.times.Seen, func() {
		change()
		c.news = true
	})
}

func (c *Cluster) add(a nodegroup.AddCapacity) (nodegroup.Outcome, string) {
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
	c.group.Desired += a.N
	for range a.N {
		zone := a.Zone
		if zone == "" {
			zone = c.smallestZone()
		}
		c.launch(zone)
	}
	return nodegroup.OutcomeDone, ""
}

// smallestZone is where a group that launches by itself does so.
func (c *Cluster) smallestZone() string {
	size := c.sizes()
	zones := slices.Clone(c.group.Zones)
	slices.SortStableFunc(zones, func(a, b string) int { return size[a] - size[b] })
	if len(zones) == 0 {
		return ""
	}
	return zones[0]
}

// sizes counts the instances in service or on their way, by zone.
func (c *Cluster) sizes() map[string]int {
	size := map[string]int{}
	for _, m := range c.members {
		if m.instance.ID != "" && m.instance.State != nodegroup.InstanceLeaving {
			size[m.instance.Zone]++
		}
	}
	return size
}

// launch brings up an instance of the revision the group points at; its node is Ready after the
// boot time.
func (c *Cluster) launch(zone string) {
	c.serial++
	m := &member{instance: nodegroup.Instance{
		ID: "i-" + nodeName(c.group.Name, zone, c.serial), Zone: zone, State: nodegroup.InstancePending, Revision: c.group.Pointed,
		Outdated: c.group.Pointed.ID != c.group.Wanted.ID,
	}}
	c.members[m.instance.ID] = m
	c.enroll(m)
	c.boot(m)
}

// boot brings the node of a pending instance up in time.
func (c *Cluster) boot(m *member) {
	name := strings.TrimPrefix(m.instance.ID, "i-")
	c.after(c.times.Boot, func() {
		if m.instance.State != nodegroup.InstancePending {
			return
		}
		m.instance.State = nodegroup.InstanceInService
		site := c.setNode(c.newNode(name, m.instance), m)
		c.startDaemons(site)
		c.roomOn(site)
	})
}

func (c *Cluster) newNode(name string, instance nodegroup.Instance) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), ResourceVersion: c.touch(), CreationTimestamp: metav1.Time{Time: c.now},
			Labels: maps.Clone(c.model.labels),
		},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("sim:///%s/%s", instance.Zone, instance.ID)},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: c.now}}},
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: c.group.Pointed.Kubernetes},
			Allocatable: c.model.allocatable,
		},
	}
	node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelHostname] = instance.Zone, name
	maps.Copy(node.Labels, c.group.WantedLabels)
	return node
}

func (c *Cluster) terminate(a nodegroup.Terminate) (nodegroup.Outcome, string) {
	m, ok := c.members[a.Instance]
	if !ok || m.instance.State == nodegroup.InstanceLeaving {
		return nodegroup.OutcomeMoved, "the instance is gone"
	}
	if a.Shrink && c.group.Desired <= c.group.Min {
		return nodegroup.OutcomeExhausted, fmt.Sprintf("the desired size equals the minimum of %d", c.group.Min)
	}
	m.instance.State = nodegroup.InstanceLeaving
	c.setInstance(m)
	if a.Shrink {
		c.group.Desired--
	} else {
		c.launch(c.smallestZone())
	}
	c.leave(m)
	return nodegroup.OutcomeDone, ""
}

// leave takes a terminating machine and its node away in time.
func (c *Cluster) leave(m *member) {
	c.after(c.times.Leave, func() {
		if m.node != nil {
			c.forget(m.node.Name)
		}
		delete(c.members, m.instance.ID)
		delete(c.attempts, nodegroup.Terminate{Instance: m.instance.ID}.Key())
		c.expel(m)
	})
}

// ZoneSizes counts the instances in service or on their way, by the last part of the zone's name:
// "a:3 b:2".
func (c *Cluster) ZoneSizes() string {
	size := c.sizes()
	var parts []string
	for _, zone := range c.group.Zones {
		parts = append(parts, fmt.Sprintf("%s:%d", zone[strings.LastIndex(zone, "-")+1:], size[zone]))
	}
	return strings.Join(parts, " ")
}
