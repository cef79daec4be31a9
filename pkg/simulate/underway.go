package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// processLaunch is the process of a group that launches instances. While it is suspended, no instance is launched.
const processLaunch = "Launch"

// isYoung reports whether the node joined so recently that it may still be starting.
func isYoung(node *corev1.Node, now time.Time) bool {
	return now.Sub(node.CreationTimestamp.Time) < firstBoot
}

// resumeMachines schedules the machines that are starting or terminating when the simulation begins. The record may
// be newer than the data about the group. So machines that were terminated or launched according to the record
// terminate or start, even if the group does not show that yet.
func (c *cloud) resumeMachines(spec *Spec) {
	records := map[string]record.NodeRecord{} // nodes that are being removed, by instance
	for _, n := range spec.Record.Nodes {
		if n.State == record.NodeRemoving && n.Instance != "" {
			records[n.Instance] = n
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.group.members)) {
		m := c.group.members[id]
		removed, isRemoved := records[m.instance.ID]
		if m.instance.ID == "" && m.node != nil {
			removed = spec.Record.Nodes[m.node.node.Name]
			isRemoved = removed.State == record.NodeRemoving
		}
		switch {
		case m.instance.State == nodegroup.InstanceLeaving, isRemoved && m.instance.ID == "":
			c.scheduleInstanceEnd(m, c.remainingTime(c.times.Leave, removed.Terminated))
		case isRemoved && (removed.Landed || !spec.Group.IsFreshAfter(removed.Terminated)):
			c.terminateRecorded(m, removed)
		default:
			c.resumeBoot(spec, m)
		}
	}
	c.launchMissing(spec)
}

// remainingTime returns what is left of the usual duration of something that began at the time. It returns the whole
// duration if the beginning is not known.
func (c *cloud) remainingTime(usual time.Duration, began time.Time) time.Duration {
	if began.IsZero() {
		return usual
	}
	return max(0, usual-c.clock.now.Sub(began))
}

// terminateRecorded terminates a machine whose termination began after the group was read.
func (c *cloud) terminateRecorded(m *member, removed record.NodeRecord) {
	m.instance.State = nodegroup.InstanceLeaving
	c.nodes.updateInstance(m)
	if removed.Shrink {
		c.group.Desired--
	}
	c.scheduleInstanceEnd(m, c.remainingTime(c.times.Leave, removed.Terminated))
}

// resumeBoot schedules the readiness of a machine that was launched recently, at the usual boot time after its
// launch.
func (c *cloud) resumeBoot(spec *Spec, m *member) {
	launched := spec.Launched[m.instance.ID]
	if changed := spec.Record.Ledger.Changed(); launched.IsZero() && m.instance.ID != "" && c.isLaunchedByUpgrade(spec, m) {
		launched = changed
	}
	isRecent := !launched.IsZero() && c.clock.now.Sub(launched) < firstBoot
	switch pending := m.instance.State == nodegroup.InstancePending; {
	case m.node == nil && (pending || isRecent && m.instance.State == nodegroup.InstanceInService):
		c.scheduleBoot(m, c.remainingTime(c.times.Boot, launched))
	case m.node != nil && isYoung(m.node.node, c.clock.now):
		rest := c.remainingTime(c.times.Boot, earliest(launched, m.node.node.CreationTimestamp.Time))
		if pending || !nodegroup.IsNodeReady(m.node.node) || rest > 0 && len(c.startupTaints(m.node.node)) > 0 {
			c.scheduleNodeReady(m, rest)
		}
	}
}

// isLaunchedByUpgrade reports whether the recorded upgrade probably launched the machine.
func (c *cloud) isLaunchedByUpgrade(spec *Spec, m *member) bool {
	return spec.Record.Run != "" && !m.instance.Outdated && !spec.Record.Ledger.IsPreexisting(&nodegroup.Member{Instance: m.instance})
}

// earliest returns the earlier of two times. A zero time means not known.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// scheduleNodeReady makes a starting node Ready after a time, and removes its startup taints then.
func (c *cloud) scheduleNodeReady(m *member, after time.Duration) {
	c.clock.scheduleAfter(after, func() {
		if m.node == nil || m.instance.State == nodegroup.InstanceLeaving {
			return
		}
		if m.instance.State == nodegroup.InstancePending {
			m.instance.State = nodegroup.InstanceInService
		}
		node := m.node.node.DeepCopy()
		node.ResourceVersion = c.clock.nextVersion()
		startup := c.startupTaints(node)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(startup, t) })
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: c.clock.now},
		})
		c.nodes.joinNode(node, m)
	})
}

// startupTaints returns the taints that are probably removed when the node has started: those that no node of the
// group has that has been Ready for long. A cordon and a fence are not startup taints.
func (c *cloud) startupTaints(node *corev1.Node) []corev1.Taint {
	lasting := []corev1.Taint{nodemark.CordonTaint(), nodegroup.FenceTaint(c.group.Provider)}
	grown := false
	for _, m := range c.group.members {
		if m.node != nil && nodegroup.IsNodeReady(m.node.node) && !isYoung(m.node.node, c.clock.now) {
			grown = true
			lasting = append(lasting, m.node.node.Spec.Taints...)
		}
	}
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return !grown || slices.ContainsFunc(lasting, func(l corev1.Taint) bool { return l.MatchTaint(&t) })
	})
}

// launchMissing launches the machines that the group should have but does not show. These are machines that the cloud
// is launching to reach the group's size, and launches in the record that are newer than the data about the group.
func (c *cloud) launchMissing(spec *Spec) {
	group, changed := &spec.Group, spec.Record.Ledger.Changed()
	if books := spec.Record.Ledger.Books(); !group.Observed.After(books.MaxSeenAt) {
		c.group.Max = max(c.group.Max, books.MaxSeen)
	}
	if !group.Can.Resize || slices.Contains(group.Suspended, processLaunch) || group.LaunchFailure.Message != "" && group.LaunchFailure.At.After(changed) {
		return
	}
	want := wantedSizes(spec)
	if size := sumSizes(want); spec.Record.Sizes.Desired > 0 && !spec.Autoscaled {
		c.recordKnownLaunches(spec, want, c.group.Desired-size)
		if !group.IsFreshAfter(changed) && size > c.group.Desired {
			c.group.Desired, c.group.Max = size, max(size, c.group.Max)
		}
	}
	missing := c.group.Desired - sumSizes(c.group.zoneSizes())
	if changed.IsZero() || c.clock.now.Sub(changed) > firstBoot {
		changed = c.clock.now
	}
	for range missing {
		c.scheduleBoot(c.addInstance(c.zoneLackingMost(want)), c.remainingTime(c.times.Boot, changed))
	}
}

// wantedSizes returns how many machines each zone should have according to the record. The key "" is the whole group,
// if the record does not distinguish zones. Launches that may not have been accepted are not included.
func wantedSizes(spec *Spec) map[string]int {
	books := spec.Record.Ledger.Books()
	want := map[string]int{}
	if books.Zonal {
		maps.Copy(want, spec.Record.Sizes.Zones)
	} else {
		want[""] = spec.Record.Sizes.Desired
	}
	for name, zone := range books.Zones {
		want[name] += zone.Contribution()
		for _, launch := range zone.Open {
			want[name] -= launch.N
		}
	}
	return want
}

func sumSizes(sizes map[string]int) (sum int) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}

// zoneLackingMost returns the zone of the group that lacks the most machines.
func (c *cloud) zoneLackingMost(want map[string]int) string {
	size := c.group.zoneSizes()
	zones := slices.SortedStableFunc(slices.Values(c.group.Zones), func(a, b string) int {
		return cmp.Compare(want[b]-size[b], want[a]-size[a])
	})
	if len(zones) == 0 {
		return ""
	}
	return zones[0]
}

// recordKnownLaunches records the tokens of launches without a known answer whose machines the group already shows.
// landed is the number of machines that the launches brought. Zones with the largest surplus are considered first.
func (c *cloud) recordKnownLaunches(spec *Spec, want map[string]int, landed int) {
	books, size := spec.Record.Ledger.Books(), c.group.zoneSizes()
	zones := slices.SortedFunc(maps.Keys(books.Zones), func(a, b string) int {
		return cmp.Or(cmp.Compare(size[b]-want[b], size[a]-want[a]), cmp.Compare(a, b))
	})
	for _, zone := range zones {
		for _, launch := range books.Zones[zone].Open {
			if landed >= launch.N && launch.N > 0 {
				landed -= launch.N
				c.tokens[ledger.Token(spec.Record.Run, zone, launch.Serial)] = true
			}
		}
	}
}
