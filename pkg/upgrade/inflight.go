package upgrade

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// openShrinks counts, by ledger zone, the terminations that are to shrink the group and have not
// landed; with landed, those that have as well.
func (r *Record) openShrinks(landed bool) map[string]int {
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

// isNewMember reports whether a current member was not there at the start.
func (r *Record) isNewMember(m *nodegroup.Member) bool {
	return r.Run != "" && !r.Ledger.IsPreexisting(m)
}

// mayBeBooting reports whether a member has no node yet, or one that joined since the upgrade began
// or so shortly before that it may still have been booting then.
func mayBeBooting(r *Record, m *nodegroup.Member) bool {
	return m.Node == nil || m.Node.CreationTimestamp.After(r.Started.Add(-r.Request.BootTimeout.Duration))
}

// recordNameOf is the name under which a member was started: its own, its instance's when its node
// joined only afterwards, or its node's when that is gone already. A new node under an old name is
// another.
func (r *Record) recordNameOf(m *nodegroup.Member) (name string, started bool) {
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

// startedMembers are the places of the members that one of the records may be about, ascending. A
// record has the name that the member had when it was started, which its instance's is no more once
// its node has joined.
func (r *Record) startedMembers(members []nodegroup.Member) []int {
	var places []int
	for name, n := range r.Nodes {
		i, found := indexOfMember(members, name)
		if found {
			places = append(places, i)
		}
		if n.Instance == "" || (found && members[i].Instance.ID == n.Instance) {
			continue
		}
		if i, found = indexOfMember(members, n.Instance); found {
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

// findStarted is the record of a member that was started.
func (r *Record) findStarted(m *nodegroup.Member) (NodeRecord, bool) {
	name, ok := r.recordNameOf(m)
	return r.Nodes[name], ok
}

// wasUncordoned reports whether another actor took away a fence of this run.
func (r *Record) wasUncordoned(node *corev1.Node) bool {
	return node.Annotations[nodemark.AnnotationRun] == r.Run && !node.Spec.Unschedulable
}

// startedNames are the nodes that were started, in order of start.
func (r *Record) startedNames() []string {
	return slices.SortedFunc(maps.Keys(r.Nodes), func(a, b string) int {
		return cmp.Or(r.Nodes[a].Began.Compare(r.Nodes[b].Began), strings.Compare(a, b))
	})
}

// isTerminating reports whether the member is on its way out, or was given up.
func (r *Record) isTerminating(m *nodegroup.Member) bool {
	n, started := r.findStarted(m)
	return m.Instance.State == nodegroup.InstanceLeaving || (started && isEnding(n.State))
}

// describeRollback says that the way back is at its end.
func describeRollback(r *Record) string {
	if !r.Back {
		return ""
	}
	return "rolled back to " + r.Target.Name
}

// noneInState reports whether no node is in any of the states.
func (r *Record) noneInState(states ...NodeState) bool {
	return countNodes(r, func(n NodeRecord) bool { return slices.Contains(states, n.State) }) == 0
}

// countNodes counts the started nodes of which something is true.
func countNodes(r *Record, is func(NodeRecord) bool) int {
	count := 0
	for _, n := range r.Nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// isNotEnding reports whether the member was not terminated by us.
func (r *Record) isNotEnding(m *nodegroup.Member) bool {
	_, ending := r.findStarted(m)
	return !ending
}

// CountDraining counts the started nodes whose termination is not on the books yet.
func (r *Record) CountDraining() int {
	return countNodes(r, func(n NodeRecord) bool { return isInDrain(n.State) })
}

// countInFlight counts the nodes between Draining and Removing. A termination that the cloud has
// begun counts no more: until its replacement is ready it is charged as a deficit.
func (r *Record) countInFlight() int {
	return countNodes(r, func(n NodeRecord) bool { return isInDrain(n.State) || (n.State == NodeRemoving && !n.Landed) })
}

// countRemovedInFlight counts the terminations of outdated nodes that busy counts already. A new
// node that is given back is none of those removed.
func (r *Record) countRemovedInFlight() int {
	return countNodes(r, func(n NodeRecord) bool { return n.State == NodeRemoving && !n.Landed && !n.Added })
}

// lastChange is since when nodes are waited for: the last change of ours that landed, or the
// phase's beginning after that.
func (r *Record) lastChange() time.Time {
	if changed := r.Ledger.Changed(); changed.After(r.PhaseBegan) {
		return changed
	}
	return r.PhaseBegan // it was stopped meanwhile
}

// newMembers lists the current members that were not there at the start. An instance on Standby is
// none: it was never counted, and is left alone.
func (r *Record) newMembers(members []nodegroup.Member) []*nodegroup.Member {
	var fresh []*nodegroup.Member
	for i := range members {
		m := &members[i]
		gone := m.Instance.State == nodegroup.InstanceLeaving || m.Instance.State == nodegroup.InstanceStandby
		if !m.Outdated && !gone && r.isNewMember(m) {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// indexOfMember finds a member by its name.
func indexOfMember(members []nodegroup.Member, name string) (int, bool) {
	i := sort.Search(len(members), func(i int) bool { return members[i].Name() >= name })
	return i, i < len(members) && members[i].Name() == name
}
