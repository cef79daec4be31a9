package upgrade

import (
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// census counts the members of the group once a turn.
type census struct {
	// byName are the members that were started, by the name they are recorded under.
	byName map[string]*nodegroup.Member
	// pending are outdated members that were not started, by name.
	pending []*nodegroup.Member
	// fresh counts current members that were not there at the start, usable those of them fit for
	// pods.
	fresh  int
	usable int
	// usableIn counts usable fresh members by ledger zone.
	usableIn map[string]int
	// known are the current members before the start; unready counts those of them that are not
	// usable, at any time.
	known   []*nodegroup.Member
	unready int
	// left counts, by ledger zone, outdated members that are still to be terminated; zones counts
	// all members by their own zone.
	left  map[string]int
	zones map[string]int
	// instances counts those that are not on their way out.
	instances int
	// pendingIn counts pending members by their own zone.
	pendingIn map[string]int
	// ready counts members of any revision that are fit for pods, or were but for our fence, and
	// are not being removed.
	ready int
	// serving counts the members that take pods, or would but for our fence or for what is not our
	// doing: all but those being removed and new ones that are not usable yet.
	serving int
}

// takeCensus sorts the members by what the upgrade has to do with them. It is done in every step
// for the whole group, so that it looks at as little of a member as it can.
func takeCensus(w *World, rec *Record) census {
	c := census{
		pending: make([]*nodegroup.Member, 0, max(0, rec.Total-rec.Begun)), byName: map[string]*nodegroup.Member{}, usableIn: map[string]int{},
		left: map[string]int{}, zones: map[string]int{}, pendingIn: map[string]int{},
	}
	var counts zoneCounts
	begun := rec.begun(w.Members)
	for i := range w.Members {
		m := &w.Members[i]
		var started *NodeRecord
		if len(begun) > 0 && begun[0] == i {
			begun = begun[1:]
			started = c.find(m, rec)
		}
		if m.Instance.State != nodegroup.InstanceLeaving {
			c.add(m, started, counts.of(m.Zone()), w, rec)
		}
	}
	c.sum(counts, &rec.Ledger)
	return c
}

// find is the record of the member, which is noted under that name; nil when it was not started.
func (c *census) find(m *nodegroup.Member, rec *Record) *NodeRecord {
	name, started := rec.nameOf(m)
	if !started {
		return nil
	}
	c.byName[name] = m
	n := rec.Nodes[name]
	return &n
}

func (c *census) add(m *nodegroup.Member, started *NodeRecord, zone *zoneCount, w *World, rec *Record) {
	if m.Instance.ID != "" {
		c.instances++
	}
	if m.Instance.ID != "" || !w.Group.Sized {
		zone.all++ // a Node object that outlives its machine is none of the group's
	}
	removing := started != nil && started.State == NodeRemoving
	if !removing {
		c.countServing(m, m.IsReady() && (m.Outdated || w.Group.IsUsable(m)))
	}
	if m.Outdated {
		c.addOutdated(m, started, zone)
	} else {
		c.addCurrent(m, rec, zone, w.Group.IsUsable(m) && (!removing || !rec.fresh(m)))
	}
}

func (c *census) addOutdated(m *nodegroup.Member, started *NodeRecord, zone *zoneCount) {
	if started == nil {
		c.pending = append(c.pending, m)
		zone.pending++
	}
	if started == nil || !ending(started.State) {
		zone.left++
	}
}

// ending reports whether a node in the state is no longer to be terminated.
func ending(s NodeState) bool { return s == NodeRemoving || s == NodeQuarantined || s == NodeDrained }

func (c *census) countServing(m *nodegroup.Member, fit bool) {
	if fit {
		c.ready++
	}
	if m.Outdated {
		c.serving++
	}
}

func (c *census) addCurrent(m *nodegroup.Member, rec *Record, zone *zoneCount, usable bool) {
	switch {
	case !rec.fresh(m):
		if rec.Run == "" {
			c.known = append(c.known, m)
		}
		c.serving++
		if !usable {
			c.unready++
		}
	case usable:
		c.usable++
		c.serving++
		zone.usable++
		fallthrough
	default:
		c.fresh++
	}
}

// fresh lists the current members that were not there at the start.
func (t *draft) fresh() []*nodegroup.Member {
	var fresh []*nodegroup.Member
	for i := range t.w.Members {
		if m := &t.w.Members[i]; !m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && t.rec.fresh(m) {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// zoneCounts counts members by their own zone. A group has few zones: they are looked through
// faster than a map.
type zoneCounts []zoneCount

type zoneCount struct {
	zone                       string
	all, pending, left, usable int
}

// of is the zone's count, which must be used before the next is asked for.
func (z *zoneCounts) of(zone string) *zoneCount {
	for i := range *z {
		if (*z)[i].zone == zone {
			return &(*z)[i]
		}
	}
	*z = append(*z, zoneCount{zone: zone})
	return &(*z)[len(*z)-1]
}

// sum takes the counts over, those that are by ledger zone as the ledger has zones. Nothing stands
// for none.
func (c *census) sum(counts zoneCounts, ledger *Ledger) {
	add := func(to map[string]int, zone string, n int) {
		if n > 0 {
			to[zone] += n
		}
	}
	for _, z := range counts {
		booked := z.zone
		if !ledger.Zonal {
			booked = ""
		}
		add(c.zones, z.zone, z.all)
		add(c.pendingIn, z.zone, z.pending)
		add(c.left, booked, z.left)
		add(c.usableIn, booked, z.usable)
	}
}

func (c *census) currentNames() []string {
	names := make([]string, 0, len(c.known))
	for _, m := range c.known {
		names = append(names, m.Name())
	}
	return names // sorted, as the members are
}

// seat finds a member by its name.
func seat(members []nodegroup.Member, name string) (int, bool) {
	i := sort.Search(len(members), func(i int) bool { return members[i].Name() >= name })
	return i, i < len(members) && members[i].Name() == name
}

// nodeLost reports whether the node has been other than Ready for drain.LostAfter.
func nodeLost(node *corev1.Node, now time.Time) bool {
	c := nodegroup.ReadyCondition(node)
	return c != nil && c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) >= drain.LostAfter
}
