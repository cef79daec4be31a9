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

// Input is the input of a decision. A decision does not change it.
type Input struct {
	Now time.Time
	// Snapshot is the cluster. Its Budgets are the budgets to respect, which may be stricter than the cluster's own.
	drain.Snapshot
	// Bound are the pods of the whole group. They show how long pods take to become ready.
	Bound iter.Seq[*corev1.Pod]
	// Movable has the workloads that are moved by a restart. It is the zero value unless the user asked for that.
	Movable drain.Movable
	// Draining are the nodes in drain, in order of their start.
	Draining []Node
	// Open has the actions that were begun, by Action.Key. A decision uses only its evictions and restarts.
	Open map[string]nodegroup.Attempt
	// Waited is, by pod UID, since when pods have been blocked. LastReadySince is the same for pods that wait as the
	// last ready pods of their workloads.
	Waited, LastReadySince map[string]time.Time
	// RecoveryOf returns the state of a workload whose pods left nodes, and false for other workloads. It is nil if
	// there are none. AnyUnhealthy is true while any workload is unhealthy. If Guarded is true, the last ready pod of
	// a workload stays whatever its budget allows. All pods of a workload stay if none of its new pods is known to
	// become ready.
	RecoveryOf   func(drain.Workload) (Recovery, bool)
	AnyUnhealthy bool
	Guarded      bool
	// Window is how many nodes are drained at a time.
	Window int
	// AtOnce limits how many evictions may be in flight, 0 for any number.
	AtOnce int
	// Settle is how long a node waits after it is empty. DrainTimeout is how long its drain may take.
	Settle, DrainTimeout time.Duration
	Policy               drain.Policy
	// Memory is the Memory of the previous decision.
	Memory Memory
}

// Node is a node with the pods that must leave it.
type Node struct {
	Name string
	drain.Leavers
	// Stage, Began and Deadline belong to its drain. They are zero for a node that is not started.
	Stage           Stage
	Began, Deadline time.Time
}

// Stage is what this tool does with the pods of a node in drain.
type Stage int

const (
	// Apart is a node whose pods the upgrade does not move now: it is not started, another process terminates it, or its
	// fence was removed.
	Apart Stage = iota
	// Resting is a node whose pods are not evicted now: it has none, they are deleted, or other outdated nodes are not
	// fenced yet.
	Resting
	// Evicting is a node whose pods are evicted.
	Evicting
)

// Eviction asks the eviction API to remove one pod. It is a nodegroup.Action.
type Eviction struct {
	Namespace, Pod string
	UID            types.UID
	Node           string
	// BudgetVersion is the resourceVersion of the budget on which the prediction was based.
	BudgetVersion string
	// Budget is the budget that the eviction uses; empty if it uses none.
	Budget types.NamespacedName
	// Workload is the pod's workload; zero for none. LastReady is how long the pod waited as the last ready pod without
	// another one; 0 for any other pod.
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

// lastAttempt returns the last attempt of the pod's eviction, or the zero Attempt.
func (in *Input) lastAttempt(pod *corev1.Pod) nodegroup.Attempt {
	return in.Open[Eviction{UID: pod.UID}.Key()]
}

// Decision is what must be done with the pods of the nodes in drain.
type Decision struct {
	// Evict has the evictions to send now, the most urgent first.
	Evict []Eviction
	// Restarts has the Deployments to restart now.
	Restarts []Restart
	// Yielding has the nodes that only wait for budgets that nodes started before them have spent.
	Yielding []string
	// Again is when to decide again if nothing happens before; zero if no such time is known.
	Again time.Time
	// Memory goes into the next Input.
	Memory Memory
}

// Plan is an unfinished decision. The evictions that could be sent now have reserved places in their budgets.
type Plan struct {
	in     Input
	memory Memory
	// spent counts, by budget, the evictions that its status does not show yet and the reserved evictions. flights
	// counts the evictions without an answer and the reserved evictions.
	spent   drain.Spending
	flights map[types.NamespacedName]flight
	// spacing is the time that must pass between two evictions of one budget. inFlight counts evictions in flight.
	spacing  time.Duration
	inFlight int
	// candidates are the reserved evictions, in the order of their nodes.
	candidates []candidate
	// waits has the places of the nodes in drain with a blocked pod.
	waits    map[int]bool
	blocked  []drain.Blocked
	restarts []Restart
	yielding []string
	again    time.Time
	// leaving counts, by budget, the pods of nodes in drain that are being deleted; see roomOfBudget.
	leaving map[types.NamespacedName]int32
	// ofPeers has the budgets of pods on the first peers nodes in drain; see budgetsOfPeers.
	ofPeers map[types.NamespacedName]bool
	peers   int
	// unsettled has the ready pods that may fail again, and for each the time at which it counts as settled.
	unsettled map[*corev1.Pod]time.Time
	// guards caches guardOf.
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

// AddNode adds a node that was just started, as the last one in drain.
func (p *Plan) AddNode(node Node) {
	p.in.Draining = append(p.in.Draining, node)
	p.reserveForNode(len(p.in.Draining) - 1)
}

// Blocked returns what blocks pods of nodes that are Evicting, in the order of the nodes.
func (p *Plan) Blocked() []drain.Blocked { return p.blocked }

// Decide returns which of the reserved evictions are sent now. It must be called once, after all other methods.
func (p *Plan) Decide() Decision {
	evict := p.selectEvictions()
	return Decision{Evict: evict, Restarts: p.restarts, Yielding: p.yielding, Again: p.again, Memory: p.memory}
}
