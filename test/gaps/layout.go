package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const second = time.Second

// layout is a drawn initial state of the cluster: a pool of nodes, its workloads, and the node of each pod.
type layout struct {
	seed      uint64
	nodes     int
	workloads []fixture.Workload
	// places contains, by workload, the numbers of the nodes on which its pods start.
	places map[string][]int
}

// drawLayout draws a layout from a seed. Every sixth workload is a Deployment with one replica, and every twelfth a StatefulSet with
// one replica. The others have two to five replicas. A third of the workloads have no budget, and the budgets of the others allow
// evictions. Unless spread is true, about every fourth workload has all its pods on one node, as when the other nodes were full.
func drawLayout(seed uint64, nodes, workloads int, spread bool) layout {
	random := rand.New(rand.NewPCG(seed, 0))
	l := layout{seed: seed, nodes: nodes, places: map[string][]int{}}
	bare := map[int]bool{}
	for _, i := range random.Perm(workloads)[:workloads/3] {
		bare[i] = true
	}
	for i := range workloads {
		w := drawWorkload(random, i)
		if !bare[i] {
			drawBudget(random, &w)
		}
		l.workloads = append(l.workloads, w)
		l.places[w.Name] = drawPlaces(random, nodes, int(w.Replicas))
		if together := random.IntN(4) == 0; together && !spread {
			l.places[w.Name] = slices.Repeat(l.places[w.Name][:1], int(w.Replicas))
		}
	}
	return l
}

func drawWorkload(random *rand.Rand, i int) fixture.Workload {
	w := fixture.Workload{Kind: "Deployment", Replicas: int32(2 + random.IntN(4)), Service: true}
	w.Ready, w.Gone = pick(random, second/2, second, 2*second, 5*second), pick(random, second/2, second, 3*second)
	switch {
	case i%6 == 0:
		w.Replicas = 1
	case i%12 == 3:
		w.Replicas, w.Kind = 1, "StatefulSet"
	case i%3 == 2:
		w.Kind = "StatefulSet"
	}
	if w.Kind == "StatefulSet" {
		w.Ordered = random.IntN(2) == 0
		// The disruption controller identifies pods by their names. If the new pod exists before the controller notices the end of the
		// evicted one, it counts the new pod as disrupted for two minutes (disruption.go, buildDisruptedPodMap).
		w.Gone = pick(random, 2*second, 3*second)
	}
	w.Name = fmt.Sprintf("%s-%02d", map[string]string{"Deployment": "web", "StatefulSet": "db"}[w.Kind], i)
	return w
}

func drawBudget(random *rand.Rand, w *fixture.Workload) {
	switch {
	case w.Replicas == 1: // with a smaller value, the budget would never allow an eviction
		w.MaxUnavailable = "1"
	case random.IntN(3) == 0:
		w.MaxUnavailable = "1"
	default:
		w.MinAvailable = pick(random, strconv.Itoa(int(w.Replicas-1)), "50%")
	}
}

// drawPlaces draws the node of each pod. No two pods are on one node while other nodes have none.
func drawPlaces(random *rand.Rand, nodes, pods int) []int {
	places := random.Perm(nodes)[:min(nodes, pods)]
	all := make([]int, pods)
	for i := range all {
		all[i] = places[i%len(places)]
	}
	return all
}

func pick[T any](random *rand.Rand, choice ...T) T { return choice[random.IntN(len(choice))] }

// kind is the column of the table in which a workload's gaps are counted.
type kind int

// The kinds: workloads with several replicas, Deployments with one replica, which can surge, and other workloads with one replica.
const (
	several kind = iota
	aloneSurging
	aloneFixed
	kinds
)

func kindOf(w *fixture.Workload) kind {
	switch {
	case w.Replicas > 1:
		return several
	case w.Kind == "Deployment":
		return aloneSurging
	default:
		return aloneFixed
	}
}

// countKind counts the workloads of a kind.
func (l *layout) countKind(k kind) int {
	n := 0
	for i := range l.workloads {
		if kindOf(&l.workloads[i]) == k {
			n++
		}
	}
	return n
}

// countPods counts the pods.
func (l *layout) countPods() int {
	n := 0
	for i := range l.workloads {
		n += int(l.workloads[i].Replicas)
	}
	return n
}
