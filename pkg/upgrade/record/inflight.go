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

// OpenShrinks counts, by ledger zone, the terminations that are to shrink the group and have not
// landed; with landed, those that have as well.
func (r *Record) OpenShrinks(landed bool) map[string]int {
	var counts map[string]int
	for _, n := range r.Nodes {
		if n.State == NodeRemoving && n.Shrink && (landed || !n.Landed) {
			if counts == nil {
				counts = map[string]int{}
			}
			counts[n.Zone]++
		}
	}
	return counts
}

// IsNewMember reports whether a current member was not there at the start.
func (r *Record) IsNewMember(m *nodegroup.Member) bool {
	return r.Run != "" && !r.Ledger.IsPreexisting(m)
}

// RecordNameOf is the name under which a member was started: its own, its instance's when its node
// joined only afterwards, or its node's when that is gone already. A new node under an old name is
// another.
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

// StartedMembers are the places of the members that one of the records may be about, ascending. A
// record has the name that the member had when it was started, which its instance's is no more once
// its node has joined.
func (r *Record) StartedMembers(members []nodegroup.Member) []int {
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

// FindStarted is the record of a member that was started.
func (r *Record) FindStarted(m *nodegroup.Member) (NodeRecord, bool) {
	name, ok := r.RecordNameOf(m)
	return r.Nodes[name], ok
}

// WasUncordoned reports whether another actor took away a fence of this run.
func (r *Record) WasUncordoned(node *corev1.Node) bool {
	return node.Annotations[nodemark.AnnotationRun] == r.Run && !node.Spec.Unschedulable
}

// StartedNames are the nodes that were started, in order of start.
func (r *Record) StartedNames() []string {
	return slices.SortedFunc(maps.Keys(r.Nodes), func(a, b string) int {
		return cmp.Or(r.Nodes[a].Began.Compare(r.Nodes[b].Began), strings.Compare(a, b))
	})
}

// IsTerminating reports whether the member is on its way out, or was given up.
func (r *Record) IsTerminating(m *nodegroup.Member) bool {
	n, started := r.FindStarted(m)
	return m.Instance.State == nodegroup.InstanceLeaving || (started && IsEnding(n.State))
}

// NoneInState reports whether no node is in any of the states.
func (r *Record) NoneInState(states ...NodeState) bool {
	return CountNodes(r, func(n NodeRecord) bool { return slices.Contains(states, n.State) }) == 0
}

// CountNodes counts the started nodes of which something is true.
func CountNodes(r *Record, is func(NodeRecord) bool) int {
	count := 0
	for _, n := range r.Nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// IsNotEnding reports whether the member was not terminated by us.
func (r *Record) IsNotEnding(m *nodegroup.Member) bool {
	_, ending := r.FindStarted(m)
	return !ending
}

// CountDraining counts the started nodes whose termination is not on the books yet.
func (r *Record) CountDraining() int {
	return CountNodes(r, func(n NodeRecord) bool { return IsInDrain(n.State) })
}

// CountInFlight counts the nodes between Draining and Removing. A termination that the cloud has
// begun counts no more: until its replacement is ready it is charged as a deficit.
func (r *Record) CountInFlight() int {
	return CountNodes(r, func(n NodeRecord) bool { return IsInDrain(n.State) || (n.State == NodeRemoving && !n.Landed) })
}

// CountRemovedInFlight counts the terminations of outdated nodes that busy counts already. A new
// node that is given back is none of those removed.
func (r *Record) CountRemovedInFlight() int {
	return CountNodes(r, func(n NodeRecord) bool { return n.State == NodeRemoving && !n.Landed && !n.Added })
}

// LastChange is since when nodes are waited for: the last change of ours that landed, or the
// phase's beginning after that.
func (r *Record) LastChange() time.Time {
	if changed := r.Ledger.Changed(); changed.After(r.PhaseBegan) {
		return changed
	}
	return r.PhaseBegan // it was stopped meanwhile
}

// NewMembers lists the current members that were not there at the start. An instance on Standby is
// none: it was never counted, and is left alone.
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

// GroupBaseline is the annotation of this run, "" for a group that has no size.
func (r *Record) GroupBaseline() string {
	if r.Sizes.Desired == 0 {
		return ""
	}
	s := r.Sizes
	return nodemark.GroupBaseline{Desired: s.Desired, Min: s.Min, Max: s.Max, Zones: s.Zones, Suspended: r.Suspended}.Text()
}

// WasLaunched reports whether the member was created after the upgrade, or its rollback, began. Instances that
// existed before and had no node do not count.
func (r *Record) WasLaunched(m *nodegroup.Member) bool {
	return !r.Ledger.IsPreexisting(m) && (m.Node == nil || !m.Node.CreationTimestamp.Time.Before(r.Started))
}
