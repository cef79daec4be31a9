package simulate

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Do carries out a step: it stores the record and does every action at once.
func (c *Cluster) Do(step upgrade.Step) {
	c.record, c.notes = step.Record, step.Notes
	for _, action := range step.Actions {
		outcome, detail := c.act(action)
		tries := c.attempts[action.Key()].Tries
		c.attempts[action.Key()] = nodegroup.Attempt{
			Action: action, Begun: c.now, Ended: c.now, Outcome: outcome, Detail: detail, Tries: tries + 1,
			NotBefore: c.now.Add(lookAgain(outcome)),
		}
	}
	c.placeWaiting()
}

// lookAgain is how long after an answer the action may be tried anew.
func lookAgain(outcome nodegroup.Outcome) time.Duration {
	if outcome == nodegroup.OutcomeDone {
		return 0
	}
	return 30 * time.Second
}

func (c *Cluster) act(action nodegroup.Action) (nodegroup.Outcome, string) {
	switch a := action.(type) {
	case upgrade.NodeAction:
		if _, opens := action.(upgrade.Unfence); opens {
			c.roomAnywhere = true
		}
		return c.change(a)
	case upgrade.DeleteNode:
		return c.deleteNode(a)
	case upgrade.Evict:
		return c.evict(a)
	case upgrade.Delete:
		return c.delete(a)
	default:
		return c.actCloud(action)
	}
}

// find is the group's node of the name, nil when it is gone or is another by now.
func (c *Cluster) find(name string, uid types.UID) *machine {
	if m, ok := c.machines[name]; ok && m.member != nil && m.node.UID == uid {
		return m
	}
	return nil
}

func (c *Cluster) change(a upgrade.NodeAction) (nodegroup.Outcome, string) {
	target := a.Target()
	m := c.find(target.Node, target.UID)
	if m == nil {
		return nodegroup.OutcomeMoved, fmt.Sprintf("node %q is gone", target.Node)
	}
	node := m.node.DeepCopy()
	if err := a.Apply(node, c.record.Run, nodegroup.FenceTaint(c.group.Provider)); err != nil {
		return nodegroup.OutcomeFatal, err.Error()
	}
	node.ResourceVersion = c.touch()
	c.setNode(node, m.member)
	return nodegroup.OutcomeDone, ""
}

func (c *Cluster) deleteNode(a upgrade.DeleteNode) (nodegroup.Outcome, string) {
	if c.find(a.Node, a.UID) == nil {
		return nodegroup.OutcomeMoved, fmt.Sprintf("node %q is gone", a.Node)
	}
	c.forget(a.Node)
	return nodegroup.OutcomeDone, ""
}

// forget removes a node and everything on it.
func (c *Cluster) forget(name string) {
	m := c.machines[name]
	c.unrank(m)
	m.closed = true
	c.dropNode(m)
	for _, pod := range m.pods {
		c.lose(c.units[pod.UID])
	}
	owner := m.member
	owner.node = nil
	if owner.instance.ID == "" {
		delete(c.members, name)
		c.expel(owner)
		return
	}
	c.enroll(owner)
}

// nodeName names a new node after its group and the last part of its zone.
func nodeName(group, zone string, serial int) string {
	short := zone[strings.LastIndex(zone, "-")+1:]
	return fmt.Sprintf("%s-new-%s-%d", group, short, serial)
}
