package schedule

import (
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Input is what a decision rests on. Nothing in it is changed.
type Input struct {
	Now time.Time
	// Snapshot is the cluster. Its Budgets are those to keep to, which may be stricter than the cluster's own.
	drain.Snapshot
	// Bound are the pods of the whole group, which tell how long pods take to become ready.
	Bound iter.Seq[*corev1.Pod]
	// Movable tells which workloads are moved by a restart: none, if that was not asked for.
	Movable drain.Movable
	// Draining are the nodes in drain, in order of their start.
	Draining []Node
	// Open holds, by Action.Key, the actions that were begun; it is the evictions that matter.
	Open map[string]nodegroup.Attempt
	// Waited tells, by their UIDs, since when pods are blocked that were so before, LastReadySince
	// those that wait as the last ready ones of their workloads.
	Waited, LastReadySince map[string]time.Time
	// RecoveryOf tells how a workload fares whose pods left nodes, and false for any other; nil if there is none.
	// AnyUnhealthy is true while any workload is. Guarded has the last ready pod of a workload kept whatever its
	// budget says, and all pods of one of which no new pod is known to become ready.
	RecoveryOf   func(drain.Workload) (Recovery, bool)
	AnyUnhealthy bool
	Guarded      bool
	// Window is how many nodes are drained at a time.
	Window int
	// AtOnce is how many evictions may be in flight, 0 for any number.
	AtOnce int
	// Settle is how long a node rests when it is empty, DrainTimeout how long its drain may take.
	Settle, DrainTimeout time.Duration
	Policy               drain.Policy
	// Memory is that of the decision before.
	Memory Memory
}

// Node is a node with the pods that have to leave it.
type Node struct {
	Name string
	drain.Leavers
	// Stage, Began and Deadline are those of its drain; zero for a node that waits.
	Stage           Stage
	Began, Deadline time.Time
}

// Stage is what is done about the pods of a node in drain.
type Stage int

const (
	// Apart is a node that others have a say in: it waits to be started, its machine goes down
	// without us, or its fence was taken away.
	Apart Stage = iota
	// Resting is one whose pods are not evicted now: there are none, they are deleted, or nodes
	// that they could land on are not fenced yet.
	Resting
	// Evicting is one whose pods are evicted.
	Evicting
)

// Eviction asks the eviction API to remove one pod. It is a nodegroup.Action.
type Eviction struct {
	Namespace, Pod string
	UID            types.UID
	Node           string
	// BudgetVersion is the resourceVersion of the budget that the prediction rested on.
	BudgetVersion string
	// Budget is the budget the eviction spends from; empty when it spends nothing.
	Budget types.NamespacedName
	// Workload is what the pod is one of; zero for none. LastReady is how long it waited as the last
	// ready one, without another that became so; 0 for any other pod.
	Workload  drain.Workload
	LastReady time.Duration
}

// Key implements nodegroup.Action.
func (e Eviction) Key() string { return "evict/" + string(e.UID) }

// String implements nodegroup.Action.
func (e Eviction) String() string {
	if e.LastReady > 0 {
		return fmt.Sprintf("evict pod %s/%s, the last ready one of %s/%s: no other became ready within %s", e.Namespace, e.Pod, e.Workload.Kind, e.Workload.Name, e.LastReady)
	}
	return fmt.Sprintf("evict pod %s/%s", e.Namespace, e.Pod)
}

// lastAttempt is the last try of the pod's eviction; the zero Attempt if there was none.
func (in *Input) lastAttempt(pod *corev1.Pod) nodegroup.Attempt {
	return in.Open[Eviction{UID: pod.UID}.Key()]
}

// Decision is what to do about the pods of the nodes in drain.
type Decision struct {
	// Evict are the evictions to send now, the most urgent first.
	Evict []Eviction
	// Restarts are the Deployments to restart now.
	Restarts []Restart
	// Yielding are the nodes that wait for nothing but budgets that nodes which were started before
	// them have spent.
	Yielding []string
	// Again is when to decide again should nothing happen before; zero when no such time is known.
	Again time.Time
	// Memory goes into the next Input.
	Memory Memory
}

// Plan is a decision in the making: the evictions that could be sent now have their places in their
// budgets reserved.
type Plan struct {
	in     Input
	memory Memory
	// spent counts, by budget, the evictions that its status does not show yet and those reserved;
	// flights are those without an answer and those reserved.
	spent   drain.Spending
	flights map[types.NamespacedName]flight
	// spacing is how long an eviction has its budget for itself, inFlight how many are under way.
	spacing  time.Duration
	inFlight int
	// candidates are the reserved evictions, in order of their nodes.
	candidates []candidate
	// waits are the places of the nodes in drain with a pod that may not go now.
	waits    map[int]bool
	blocked  []drain.Blocked
	restarts []Restart
	yielding []string
	again    time.Time
	// leaving counts, by budget, the pods of nodes in drain that are being deleted; see roomOf.
	leaving map[types.NamespacedName]int32
	// ofPeers are the budgets of pods on the first so many nodes in drain; see budgetsOfPeers.
	ofPeers map[types.NamespacedName]bool
	peers   int
	// unsettled has the ready pods that may fail again, and for each the time at which it counts as settled.
	unsettled map[*corev1.Pod]time.Time
	// guards are the workloads whose ready pods were counted.
	guards map[drain.Workload]*guard
}

// NewPlan reserves the evictions that could be sent now, in order of the nodes in drain.
func NewPlan(in Input) *Plan {
	p := &Plan{in: in, memory: in.Memory, spent: drain.Spending{}, flights: map[types.NamespacedName]flight{}, waits: map[int]bool{}, ofPeers: map[types.NamespacedName]bool{}, guards: map[drain.Workload]*guard{}}
	if in.Guarded {
		p.unsettled = in.Workloads.Unsettled(in.usualOf, in.Now)
	}
	p.memory.learnTerminationTimes(&in)
	p.countSpending()
	for place := range in.Draining {
		p.reserveForNode(place)
	}
	return p
}

// AddNode adds a node that was started in this moment: the last in drain.
func (p *Plan) AddNode(node Node) {
	p.in.Draining = append(p.in.Draining, node)
	p.reserveForNode(len(p.in.Draining) - 1)
}

// Blocked is what is in the way of pods of nodes that are Evicting, in order of the nodes.
func (p *Plan) Blocked() []drain.Blocked { return p.blocked }

// Decide says which of the reserved evictions are sent now. It is asked last, and once.
func (p *Plan) Decide() Decision {
	evict := p.selectEvictions()
	return Decision{Evict: evict, Restarts: p.restarts, Yielding: p.yielding, Again: p.again, Memory: p.memory}
}
