package worlds

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Plan describes a world before it begins: the cluster, the request, the faults, and the other actors.
type Plan struct {
	Seed     uint64
	Provider string
	// Zones is the number of zones that the group may launch in. Zonal is true when a launch names its zone.
	Zones int
	Zonal bool
	// Zoneless is true when the cloud refuses all launches that name a zone. The group can then only grow as a whole.
	Zoneless bool
	// Spot is true when the group's instances are Spot instances.
	Spot bool
	// Room is the number of nodes by which the group's maximum exceeds its size at the start.
	Room int
	// Slack is the number of nodes by which the group's minimum is below its size at the start.
	Slack     int
	Nodes     []Node
	Workloads []Workload
	Budgets   []Budget
	Balancer  Balancer
	Request   record.Request
	Faults    []Fault
	Actors    []Actor
	Denial    Denial
	// Minimal is true when the group's own cloud upgrades it and terminates nodes before it launches new ones. Past is the result of
	// the cloud's operation before the start; "" if there was none.
	Minimal bool
	Past    nodegroup.OperationState
	// Stay is true when a process waits through a long soak instead of exiting until the soak is over.
	Stay bool
	// Outside is true when a node of another group takes pods.
	Outside bool
	// Suspended is true when an admin suspended the cloud's rebalancing before the upgrade.
	Suspended bool
	// Repoint is true when the upgrade must first set the group's revision to the wanted one.
	Repoint bool
	// Elsewhere is when another user runs the command for the same nodes, with another group name or namespace; 0 for never.
	Elsewhere time.Duration
	// Calm is the time since the start at which every obstacle is removed; 0 for never.
	Calm time.Duration
	// Boot is the time from a launch to a Ready node. Leave is the time from a termination to the end of the machine.
	Boot, Leave time.Duration
	// InPlace is true where the nodes of a group without a cloud are renewed in place instead of being replaced.
	InPlace bool
	// Closed is what keeps pods off new nodes at first. ClosedFor is how long, counted from when a node joined.
	Closed    Closing
	ClosedFor time.Duration
	// TaintLag is the time from a change of a node's Ready condition until the control plane changes the not-ready taint. It is 0 if
	// the control plane adds no taint.
	TaintLag time.Duration
	// CloudLag is how old the cloud's readings may be. WatchLag is how late the cluster's events may come.
	CloudLag, WatchLag time.Duration
}

// Node is one member of the group before its upgrade.
type Node struct {
	Zone    int
	Current bool
	// Unlabelled nodes run on current machines and lack a label that the request wants.
	Unlabelled bool
	Marks      Marks
	// Standby is true when the owner has taken the node's instance out of service.
	Standby bool
	// Deviceless is true when the node does not offer the device that a Homeless workload requests.
	Deviceless bool
	// Stray is true when the node has annotations of this program that no run of the world wrote.
	Stray bool
}

// Marks are a node's oddities, one bit each.
type Marks uint

// The oddities of a node.
const (
	MarkCordoned  Marks = 1 << iota // by an admin
	MarkTainted                     // with the user's taint
	MarkFenceLike                   // with the fence's taint, set by an admin
	MarkExcluded                    // from load balancers, by the user
	MarkForeign                     // labels and annotations of others
	MarkSilent                      // NotReady
	MarkNoNode                      // an instance that never became a node

	allMarks = 1<<iota - 1
)

// Kind is the kind of controller that creates a workload's pods.
type Kind string

// The kinds of workloads.
const (
	Deployment  Kind = "ReplicaSet"
	StatefulSet Kind = "StatefulSet"
	DaemonSet   Kind = "DaemonSet"
	Job         Kind = "Job"
	Bare        Kind = "bare"
	Mirror      Kind = "static"
	Finished    Kind = "finished"
	Ending      Kind = "terminating"
)

// Workload is a set of pods with one controller.
type Workload struct {
	Name     string
	Kind     Kind
	Replicas int
	// Ready is how long a pod takes from its start until it is ready. Gone is how long a deleted pod takes to disappear.
	Ready, Gone time.Duration
	// Grace is the grace period of its pods; 0 for half a minute.
	Grace time.Duration
	// Until Calm, Broken pods are never ready, Undead pods never end, and Tolerant pods tolerate every taint.
	Broken, Undead, Tolerant bool
	// Crashes is true when its pods crash on nodes of the wanted revision. Slow is how long they take to become ready there; 0 for as
	// long as elsewhere. Both last until the owner fixes the workload, or until Calm.
	Crashes bool
	Slow    time.Duration
	// Cured is true when the crashing pods crash only on nodes of the second revision.
	Cured bool
	// Refused is true when the API server refuses its new pods. Homeless is true when only nodes of the first revision fit its pods.
	// Flaps is how long its pods stay ready on new nodes before they crash; 0 if they do not crash. All three last until the owner
	// fixes the workload, or until Calm.
	Refused, Homeless bool
	Flaps             time.Duration
	// Spare is the number of new pods of a Refused workload that are created before the API server refuses more. A Stranded workload
	// has only one pod with a node. Its other pods are unschedulable until the owner fixes the workload, or until Calm.
	Spare    int
	Stranded bool
	// Pinned is true when its new pods select nodes of the first revision. It lasts until the owner fixes the workload, or until Calm.
	Pinned bool
	// Sick is the number of its first pods that are not ready. If the group has current nodes, these pods are on them.
	Sick int
	// Falls is when the first of its first pods becomes unready; 0 for never. FallsFor is how long it stays unready. FallsEach is the
	// time until the next pod becomes unready. Restarts is true when the pods become unready because a container exited.
	Falls, FallsFor, FallsEach time.Duration
	Restarts                   bool
	// At Down, its owner scales it down to Low pods; never if Down is 0. At Up, the owner scales it up again. If Shut is true, the API
	// server refuses its new pods after Up.
	Low      int
	Down, Up time.Duration
	Shut     bool
	// Rejected is how soon its new pods end on new nodes, before they are ready; 0 for never. New pods replace them. It lasts until
	// the owner fixes the workload, or until Calm.
	Rejected time.Duration
	// Tells is true when the status of its first pods shows how long they took to become ready after their start.
	Tells bool
	// Ends is how soon its pods end by themselves; 0 for never.
	Ends time.Duration
	// Served is true when a Service sends to its pods.
	Served bool
	// Ordered is true for a StatefulSet that creates a pod only when all pods with lower ordinals are ready.
	Ordered bool
	// Claims is true when its pods have volumes, which detach after the pods end.
	Claims bool
	Role   Role
	// Rollout is how its Deployment creates new pods; "" if it has none.
	Rollout Rollout
}

// Shape is the way in which a budget counts pods.
type Shape string

// The shapes of budgets.
const (
	MaxUnavailable Shape = "maxUnavailable"
	MinAvailable   Shape = "minAvailable"
	// Everything is a selector that covers the namespace. Nothing is no selector. Invalid is a selector that cannot be parsed.
	Everything Shape = "everything"
	Nothing    Shape = "nothing"
	Invalid    Shape = "invalid"
)

// Budget is a PodDisruptionBudget over one workload.
type Budget struct {
	Workload string
	Shape    Shape
	// N is the budget's number, of pods or in percent.
	N           int
	Percent     bool
	AlwaysAllow bool
}

// Fault is something that goes wrong with a share of requests while it lasts.
type Fault struct {
	Kind     FaultKind
	From, To time.Duration
	// Percent is the share of requests that the fault may strike.
	Percent int
}

// Actor is one action that the upgrade does not do itself.
type Actor struct {
	Kind ActorKind
	At   time.Duration
	// Pick chooses the object of the action.
	Pick int
}

// countOutdated counts the nodes that must be replaced.
func (p *Plan) countOutdated() int {
	n := 0
	for _, node := range p.Nodes {
		if (!node.Current || node.Unlabelled) && !node.Standby {
			n++
		}
	}
	return n
}

// namesZones reports whether launches may name a zone.
func (p *Plan) namesZones() bool { return p.Zonal && !p.Zoneless }

// isUndisturbed reports whether the plan has no faults, no other actors and no lags.
func (p *Plan) isUndisturbed() bool {
	return p.Denial.Kind == "" && len(p.Faults) == 0 && len(p.Actors) == 0 && p.WatchLag == 0 && p.CloudLag == 0
}

// capabilities returns what the group's cloud can do.
func (p *Plan) capabilities() nodegroup.Capabilities {
	switch {
	case p.isPodScaled():
		return nodegroup.Capabilities{ListInstances: true, Terminate: true, Refill: nodegroup.RefillByPods}
	case !p.listsMachines():
		return nodegroup.Capabilities{}
	}
	can := nodegroup.FullControl()
	can.NameZone = p.Zonal
	return can
}

// listsMachines reports whether the group's provider lists its machines. sized reports whether the provider also keeps the group at a
// size.
func (p *Plan) listsMachines() bool { return p.Provider != "manual" }

func (p *Plan) hasSize() bool { return p.listsMachines() && !p.isPodScaled() }

func (p *Plan) hasFault(kinds ...FaultKind) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return slices.Contains(kinds, f.Kind) })
}

func (p *Plan) hasActor(kinds ...ActorKind) bool {
	return slices.ContainsFunc(p.Actors, func(a Actor) bool { return slices.Contains(kinds, a.Kind) })
}

func (p *Plan) hasWorkload(is func(*Workload) bool) bool {
	return slices.ContainsFunc(p.Workloads, func(w Workload) bool { return is(&w) })
}
