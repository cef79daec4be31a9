package record

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// CountShrinks counts, by ledger zone, the terminations that make the group smaller and that the cloud is not known to have
// begun. If includesLanded is true, it counts those that the cloud has begun, too.
func (r *Record) CountShrinks(includesLanded bool) map[string]int {
	var counts map[string]int
	for _, n := range r.Nodes {
		if n.State == NodeRemoving && n.Shrink && (includesLanded || !n.Landed) {
			if counts == nil {
				counts = map[string]int{}
			}
			counts[n.Zone]++
		}
	}
	return counts
}

// IsNewMember reports whether a current member did not exist when the upgrade began.
func (r *Record) IsNewMember(m *nodegroup.Member) bool {
	return r.Run != "" && !r.Ledger.IsPreexisting(m)
}

// RecordNameOf returns the name under which a member was started: its node's name, or its instance's ID if its node
// joined later. If the node is gone, it finds the record by the instance. A new node with an old name has a different
// record.
func (r *Record) RecordNameOf(m *nodegroup.Member) (name string, started bool) {
	if m.Node == nil {
		for name, n := range r.Nodes {
			if n.Instance == m.Instance.ID && n.mayBeWithoutNode(m) {
				return name, true
			}
		}
		return "", false
	}
	for _, name := range []string{m.Node.Name, m.Instance.ID} {
		if n, ok := r.Nodes[name]; ok && (n.UID == "" || n.UID == m.Node.UID) {
			return name, true
		}
	}
	return "", false
}

// IndexesOfStarted returns the ascending indexes of the members that the node records may belong to. A record keeps the
// name that the member had when it was started. If a node joins later, that name is still its instance's ID.
func (r *Record) IndexesOfStarted(members []nodegroup.Member) []int {
	var places []int
	for name, n := range r.Nodes {
		i, found := nodegroup.IndexOfMember(members, name)
		if found {
			places = append(places, i)
		}
		if n.Instance == "" || (found && members[i].Instance.ID == n.Instance) {
			continue
		}
		if i, found = nodegroup.IndexOfMember(members, n.Instance); found {
			places = append(places, i)
		} else if name == n.Instance {
			for i := range members {
				if members[i].Instance.ID == name {
					places = append(places, i)
				}
			}
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// StartedRecord returns the record of a member that was started.
func (r *Record) StartedRecord(m *nodegroup.Member) (NodeRecord, bool) {
	name, ok := r.RecordNameOf(m)
	return r.Nodes[name], ok
}

// WasUncordoned reports whether a user removed the cordon of a node that this run fenced.
func (r *Record) WasUncordoned(node *corev1.Node) bool {
	return node.Annotations[nodemark.AnnotationRun] == r.Run && !node.Spec.Unschedulable
}

// StartedNames returns the names of the started nodes, in order of start.
func (r *Record) StartedNames() []string {
	return slices.SortedFunc(maps.Keys(r.Nodes), func(a, b string) int {
		return cmp.Or(r.Nodes[a].Began.Compare(r.Nodes[b].Began), strings.Compare(a, b))
	})
}

// IsTerminating reports whether the member is terminating, quarantined or drained.
func (r *Record) IsTerminating(m *nodegroup.Member) bool {
	n, started := r.StartedRecord(m)
	return m.Instance.State == nodegroup.InstanceLeaving || (started && IsPastDrain(n.State))
}

// NoneInState reports whether no node is in any of the states.
func (r *Record) NoneInState(states ...NodeState) bool {
	return CountNodes(r, func(n NodeRecord) bool { return slices.Contains(states, n.State) }) == 0
}

// CountNodes counts the started nodes that is selects.
func CountNodes(r *Record, is func(NodeRecord) bool) int {
	count := 0
	for _, n := range r.Nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// HasNoNodeRecord reports whether the member has no node record: the upgrade has not started it, and does not give it back.
func (r *Record) HasNoNodeRecord(m *nodegroup.Member) bool {
	_, ending := r.StartedRecord(m)
	return !ending
}

// CountDraining counts the started nodes whose termination is not in the ledger yet.
func (r *Record) CountDraining() int {
	return CountNodes(r, func(n NodeRecord) bool { return IsInDrain(n.State) })
}

// CountInFlight counts the nodes between Draining and Removing. It leaves out terminations that the cloud has begun:
// until the replacement is ready, they count as missing nodes instead.
func (r *Record) CountInFlight() int {
	return CountNodes(r, func(n NodeRecord) bool { return IsInDrain(n.State) || (n.State == NodeRemoving && !n.Landed) })
}

// CountRemovedInFlight counts the terminations of outdated nodes that CountInFlight counts as well. It leaves out new
// nodes that are given back.
func (r *Record) CountRemovedInFlight() int {
	return CountNodes(r, func(n NodeRecord) bool { return n.State == NodeRemoving && !n.Landed && !n.Added })
}

// LastChange returns since when the upgrade waits for nodes: its last change that landed, or the beginning of the phase
// if that is later.
func (r *Record) LastChange() time.Time {
	if changed := r.Ledger.Changed(); changed.After(r.PhaseBegan) {
		return changed
	}
	return r.PhaseBegan // the upgrade was stopped and resumed since
}

// NewMembers lists the current members that did not exist when the upgrade began. It leaves out instances on Standby,
// which were never counted.
func (r *Record) NewMembers(members []nodegroup.Member) []*nodegroup.Member {
	var fresh []*nodegroup.Member
	for i := range members {
		m := &members[i]
		gone := m.Instance.State == nodegroup.InstanceLeaving || m.Instance.State == nodegroup.InstanceStandby
		if !m.Outdated && !gone && r.IsNewMember(m) {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// BaselineText returns the text of this run's annotation about the group before the upgrade; "" for a group without a
// size.
func (r *Record) BaselineText() string {
	if r.Sizes.Desired == 0 {
		return ""
	}
	s := r.Sizes
	return nodemark.GroupBaseline{Desired: s.Desired, Min: s.Min, Max: s.Max, Zones: s.Zones, Suspended: r.Suspended}.Encode()
}

// WasCreatedDuringUpgrade reports whether the member was created after the upgrade, or its rollback, began. Instances that
// existed before and had no node do not count.
func (r *Record) WasCreatedDuringUpgrade(m *nodegroup.Member) bool {
	return !r.Ledger.IsPreexisting(m) && (m.Node == nil || !m.Node.CreationTimestamp.Time.Before(r.Started))
}
