package worlds

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Plan is a whole world before it begins: the cluster, what is asked for, what goes wrong and who interferes.
type Plan struct {
	Seed     uint64
	Provider string
	// Zones are how many zones the group may launch in; Zonal that launches name one.
	Zones int
	Zonal bool
	// Zoneless is true when the cloud refuses such launches for good: the group can grow as a whole alone.
	Zoneless bool
	// Spot is true when the group's instances are Spot instances.
	Spot bool
	// Room is how many nodes the group's maximum leaves beyond its size at the start.
	Room int
	// Slack is how far the group's minimum is below its size at the start.
	Slack     int
	Nodes     []Node
	Workloads []Workload
	Budgets   []Budget
	Balancer  Balancer
	Request   record.Request
	Faults    []Fault
	Actors    []Actor
	Denial    Denial
	// Minimal is true when the group's own cloud upgrades it by terminating first, Past how its operation before the start ended.
	Minimal bool
	Past    nodegroup.OperationState
	// Stay is true when a process waits through a long soak, instead of leaving until it is over.
	Stay bool
	// Outside is true when there is a node of another group that takes pods.
	Outside bool
	// Suspended is true when another actor has suspended the cloud's rebalancing before us.
	Suspended bool
	// Repoint is true when the group must be pointed at the wanted revision first.
	Repoint bool
	// Elsewhere is when another actor runs the command under another name, for the same nodes; 0 for never.
	Elsewhere time.Duration
	// Calm is when everything that stands in the way is put right, since the start; 0 for never.
	Calm time.Duration
	// Boot is from a launch to a Ready node, Leave from a termination to the machine's end.
	Boot, Leave time.Duration
	// InPlace is true where the nodes of a group without a cloud are renewed in place, instead of being replaced.
	InPlace bool
	// Closed is what keeps pods from new nodes, for as long as ClosedFor after they have joined.
	Closed    Closing
	ClosedFor time.Duration
	// TaintLag is how long after a node's Ready condition the control plane changes the taint of that condition; 0 where it adds none.
	TaintLag time.Duration
	// CloudLag is how old the cloud's readings may be, WatchLag how late the cluster's events may come.
	CloudLag, WatchLag time.Duration
}

// Node is one member of the group before its upgrade.
type Node struct {
	Zone    int
	Current bool
	// Unlabelled nodes are current by their machine, and lack a label that the request wants.
	Unlabelled bool
	Marks      Marks
	// Standby is true when its owner has taken its instance out of service.
	Standby bool
	// Stray is true when it has annotations of ours from an earlier run, or that its kubelet made up.
	Stray bool
}

// Marks are what is odd about a node, bit by bit.
type Marks uint

// The oddities of a node.
const (
	MarkCordoned  Marks = 1 << iota // by an admin
	MarkTainted                     // with a taint of the user's
	MarkFenceLike                   // with the fence's own taint, by another actor
	MarkExcluded                    // from load balancers, by the user
	MarkForeign                     // labels and annotations of others
	MarkSilent                      // NotReady
	MarkNoNode                      // an instance that never became a node

	allMarks = 1<<iota - 1
)

// Kind is what makes the pods of a workload.
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

// Workload is a set of pods with one maker.
type Workload struct {
	Name     string
	Kind     Kind
	Replicas int
	// Ready is from a pod's start to its readiness, Gone from its deletion to its end.
	Ready, Gone time.Duration
	// Grace is how long its pods may take to end by themselves; 0 for half a minute.
	Grace time.Duration
	// Broken pods are never ready, Undead ones never end, Tolerant ones tolerate every taint; until Calm.
	Broken, Undead, Tolerant bool
	// Crashes is true when its pods crash on nodes of the wanted revision, Slow how long they take there to become ready otherwise, 0 for
	// as long as elsewhere; until another actor mends it, or Calm.
	Crashes bool
	Slow    time.Duration
	// Cured is true if the pods that crash do so on nodes of the second revision only.
	Cured bool
	// Refused is true when no new pods of it are created, Homeless when no node of another revision than the first takes them, and Flaps how
	// long they stay ready there until they crash, 0 for ever; until another actor mends it, or Calm.
	Refused, Homeless bool
	Flaps             time.Duration
	// Spare is how many new pods of a Refused workload are created before the others are not. Of one that is Stranded all first pods but one
	// have been without a node for long, since no node takes them, until another actor mends it, or Calm.
	Spare    int
	Stranded bool
	// Sick is how many of its first pods are not ready. They are on nodes that stay, if there are any.
	Sick int
	// Falls is when the first of its first pods is not ready for a moment, 0 for never, FallsFor for how long, and FallsEach how much later the
	// next one is. Restarts is true when that is since a container ended.
	Falls, FallsFor, FallsEach time.Duration
	Restarts                   bool
	// Low is to how many pods its owner scales it down at Down, 0 for never. At Up the owner scales it up again, and no new pods of it
	// are created from then on if it is Shut.
	Low      int
	Down, Up time.Duration
	Shut     bool
	// Rejected is within how long its new pods end on nodes of another revision than the first, before they are ready, and others take their
	// place, 0 for never; until another actor mends it, or Calm.
	Rejected time.Duration
	// Tells is true when its pods tell how long they took to become ready.
	Tells bool
	// Ends is within how long its pods end by themselves, 0 for never.
	Ends time.Duration
	// Served is true when a Service sends to its pods.
	Served bool
	// Ordered is true for a StatefulSet that creates a pod only when all pods with lower ordinals are ready.
	Ordered bool
	// Claims is true when its pods have volumes that detach after them.
	Claims bool
	Role   Role
	// Rollout is how its Deployment brings up new pods, "" where it has none.
	Rollout Rollout
}

// Shape is how a budget counts.
type Shape string

// The shapes of budgets.
const (
	MaxUnavailable Shape = "maxUnavailable"
	MinAvailable   Shape = "minAvailable"
	// Everything is a selector that covers the namespace, Nothing none at all, Invalid one that cannot be parsed.
	Everything Shape = "everything"
	Nothing    Shape = "nothing"
	Invalid    Shape = "invalid"
)

// Budget is a PodDisruptionBudget over one workload.
type Budget struct {
	Workload string
	Shape    Shape
	// N is its number, of pods or in percent.
	N           int
	Percent     bool
	AlwaysAllow bool
}

// Fault is something that goes wrong with a share of requests while it lasts.
type Fault struct {
	Kind     FaultKind
	From, To time.Duration
	// Percent of the requests that it may befall.
	Percent int
}

// Actor is another actor who does one thing at one time.
type Actor struct {
	Kind ActorKind
	At   time.Duration
	// Pick chooses among what the action may be done to.
	Pick int
}

// outdated counts the nodes that are to be replaced.
func (p *Plan) outdated() int {
	n := 0
	for _, node := range p.Nodes {
		if (!node.Current || node.Unlabelled) && !node.Standby {
			n++
		}
	}
	return n
}

// inZones reports whether launches may name a zone.
func (p *Plan) inZones() bool { return p.Zonal && !p.Zoneless }

// quiet reports whether there are no faults, actors or lags.
func (p *Plan) quiet() bool {
	return p.Denial.Kind == "" && len(p.Faults) == 0 && len(p.Actors) == 0 && p.WatchLag == 0 && p.CloudLag == 0
}

// capabilities are what the group's cloud can be asked.
func (p *Plan) capabilities() nodegroup.Capabilities {
	switch {
	case p.podScaled():
		return nodegroup.Capabilities{ListInstances: true, Terminate: true, Refill: nodegroup.RefillByPods}
	case !p.listed():
		return nodegroup.Capabilities{}
	}
	can := nodegroup.FullControl()
	can.NameZone = p.Zonal
	return can
}

// listed reports whether the group's provider lists its machines, sized whether it keeps the group at a size.
func (p *Plan) listed() bool { return p.Provider != "manual" }

func (p *Plan) sized() bool { return p.listed() && !p.podScaled() }

func (p *Plan) hasFault(kinds ...FaultKind) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return slices.Contains(kinds, f.Kind) })
}

func (p *Plan) hasActor(kinds ...ActorKind) bool {
	return slices.ContainsFunc(p.Actors, func(a Actor) bool { return slices.Contains(kinds, a.Kind) })
}

func (p *Plan) hasWorkload(is func(*Workload) bool) bool {
	return slices.ContainsFunc(p.Workloads, func(w Workload) bool { return is(&w) })
}
