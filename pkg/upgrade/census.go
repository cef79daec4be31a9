package upgrade

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// census counts the members of the group once a turn.
type census struct {
	// byName are the members that were started, by the name they are recorded under.
	byName map[string]*Member
	// pending are outdated members that were not started, by name.
	pending []*Member
	// fresh are current members that were not there at the start; usable are those of them fit for pods.
	fresh  []*Member
	usable int
	// usableIn counts usable fresh members by ledger zone.
	usableIn map[string]int
	// known are current members from before; unready counts those of them that are not usable.
	known   []*Member
	unready int
	// left counts, by ledger zone, outdated members that are still to be terminated; zones counts all members by their own zone.
	left  map[string]int
	zones map[string]int
	// instances counts those that are not on their way out.
	instances int
	// pendingIn counts pending members by their own zone.
	pendingIn map[string]int
	// ready counts members of any revision that are fit for pods, or were but for our fence, and are not being removed.
	ready int
}

// takeCensus sorts the members by what the upgrade has to do with them.
func takeCensus(w *World, rec *Record) census {
	c := census{
		byName: map[string]*Member{}, usableIn: map[string]int{},
		left: map[string]int{}, zones: map[string]int{}, pendingIn: map[string]int{},
	}
	for i := range w.Members {
		m := &w.Members[i]
		name, started := rec.nameOf(m)
		if started {
			c.byName[name] = m
		}
		if m.Instance.State == InstanceLeaving {
			continue
		}
		c.zones[m.Zone()]++
		if m.Instance.ID != "" {
			c.instances++
		}
		fit := m.Node != nil && nodeReady(m.Node) && (m.Outdated || m.Usable(w.Group.WantedLabels))
		if fit && rec.Nodes[name].State != NodeRemoving {
			c.ready++
		}
		if m.Outdated {
			c.addOutdated(m, rec)
		} else {
			c.addCurrent(m, rec, w)
		}
	}
	return c
}

func (c *census) addOutdated(m *Member, rec *Record) {
	started, known := rec.started(m)
	if !known {
		c.pending = append(c.pending, m)
		c.pendingIn[m.Zone()]++
		c.left[rec.Ledger.zone(m)]++
		return
	}
	switch started.State {
	case NodeRemoving, NodeQuarantined, NodeDrained:
	default:
		c.left[rec.Ledger.zone(m)]++
	}
}

func (c *census) addCurrent(m *Member, rec *Record, w *World) {
	usable := m.Usable(w.Group.WantedLabels)
	if rec.Run == "" || rec.Ledger.knows(m) {
		c.known = append(c.known, m)
		if !usable {
			c.unready++
		}
		return
	}
	c.fresh = append(c.fresh, m)
	if usable {
		c.usable++
		c.usableIn[rec.Ledger.zone(m)]++
	}
}

func (c *census) currentNames() []string {
	names := make([]string, 0, len(c.known))
	for _, m := range c.known {
		names = append(names, m.Name())
	}
	return names // sorted, as the members are
}

// nameOf is the name under which a member was started: its own, its instance's when its node joined only
// afterwards, or its node's when that is gone already. A new node under an old name is another.
func (r *Record) nameOf(m *Member) (name string, started bool) {
	if m.Node == nil {
		for name, n := range r.Nodes {
			if n.Instance == m.Instance.ID {
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

// started is the record of a member that was started.
func (r *Record) started(m *Member) (NodeRecord, bool) {
	name, ok := r.nameOf(m)
	return r.Nodes[name], ok
}

// knows reports whether the member was there before us, as a node or as an instance still without one.
func (l *Ledger) knows(m *Member) bool {
	if _, known := slices.BinarySearch(l.Known, m.Name()); known {
		return true
	}
	_, known := slices.BinarySearch(l.Known, m.Instance.ID)
	return known
}

// zone is the ledger's zone of a member: its own, or "" when the whole group is one.
func (l *Ledger) zone(m *Member) string {
	if l.Zonal {
		return m.Zone()
	}
	return ""
}

// Usable reports whether the member takes ordinary pods: its instance is in service, its node is
// Ready, carries the labels wanted, and no start-up taint keeps pods away (EKS E25–E27).
func (m *Member) Usable(labels map[string]string) bool {
	if m.Node == nil || m.Instance.State == InstancePending || m.Instance.State == InstanceLeaving {
		return false
	}
	for key, value := range labels {
		if m.Node.Labels[key] != value {
			return false
		}
	}
	return nodeReady(m.Node) && !slices.ContainsFunc(m.Node.Spec.Taints, startupTaint)
}

// startupTaint recognises taints that say a node is not ready for pods yet though its kubelet is.
func startupTaint(taint corev1.Taint) bool {
	return taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" ||
		strings.HasPrefix(taint.Key, "readiness.k8s.io/") ||
		strings.HasPrefix(taint.Key, "node.cilium.io/") ||
		strings.HasSuffix(taint.Key, "/agent-not-ready")
}

func nodeCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// nodeReady is the Ready condition being True; Unknown and absent are not.
func nodeReady(node *corev1.Node) bool {
	c := nodeCondition(node)
	return c != nil && c.Status == corev1.ConditionTrue
}

// nodeLost reports whether the node has been other than Ready for drain.LostAfter.
func nodeLost(node *corev1.Node, now time.Time) bool {
	c := nodeCondition(node)
	return c != nil && c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) >= drain.LostAfter
}
