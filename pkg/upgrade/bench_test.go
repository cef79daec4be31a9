package upgrade_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// largeWorld returns a group of outdated nodes in the middle of its upgrade. inFlight nodes are in flight, each node
// has that many pods, and there is one budget per hundred nodes.
func largeWorld(tb testing.TB, nodes, inFlight, pods int) upgrade.World {
	tb.Helper()
	members := make([]nodegroup.Member, 0, nodes)
	for i := range nodes {
		name := fmt.Sprintf("old-%c-%04d", 'a'+rune(i%3), i)
		m := old(name)
		for j := range pods {
			app := fmt.Sprintf("app%d", (i+j)%(nodes/100))
			m.Pods = append(m.Pods, build.Pod(fmt.Sprintf("%s-%d-%d", app, i, j), build.App(app), build.On(name)))
		}
		if err := nodemark.SetFence(m.Node, "r1", nodegroup.FenceTaint("aws")); err != nil {
			tb.Fatal(err)
		}
		members = append(members, m)
	}
	s := newScene(nil, members...)
	s.Request.MaxUnavailable, s.Request.Window = inFlight, inFlight
	var budgets []*policyv1.PodDisruptionBudget
	for i := range nodes / 100 {
		budgets = append(budgets, build.Budget(fmt.Sprintf("app%d", i), build.Counts(3000, 3000, 2990)))
	}
	s.Budgets = drain.NewBudgets(budgets)
	s.Record = record.Record{
		Version: record.Version, Run: "r1", Request: s.Request, Started: start, Phase: record.PhaseUpgrade, PhaseBegan: start,
		Target: s.Group.Wanted, Total: nodes, Ledger: ledger.FromBooks(ledger.Books{Zonal: true, Zones: map[string]ledger.Zone{"a": {}, "b": {}, "c": {}}}),
		Nodes: map[string]record.NodeRecord{}, Begun: inFlight,
	}
	for i := range inFlight {
		m := &s.Members[i]
		deadline := start.Add(15 * time.Minute)
		nodemark.SetDraining(m.Node, deadline)
		s.Record.Nodes[m.Name()] = record.NodeRecord{
			UID: m.Node.UID, Instance: m.Instance.ID, Zone: m.Zone(), State: record.NodeDraining, Batch: 1, Began: start, Deadline: deadline,
		}
	}
	return s.World
}

// BenchmarkNext measures one step of a large upgrade. In full the whole window is in flight. In refill the window has
// room, so the next nodes are chosen too.
func BenchmarkNext(b *testing.B) {
	for name, inFlight := range map[string]int{"full": 20, "refill": 19} {
		b.Run(name, func(b *testing.B) {
			w := largeWorld(b, 1000, inFlight, 30)
			w.Record.Request.MaxUnavailable, w.Record.Request.Window = 20, 20
			for i := range w.Members { // as the runner does
				w.Members[i].CacheTraits(&w.Group)
			}
			w.Memo = &upgrade.Memo{}
			b.ReportAllocs()
			for b.Loop() {
				if step := upgrade.Next(w); len(step.Actions) == 0 {
					b.Fatal("nothing to do")
				}
			}
		})
	}
}

// Next does not change the world.
func TestNextDoesNotChangeTheWorld(t *testing.T) {
	w, untouched := largeWorld(t, 200, 5, 3), largeWorld(t, 200, 5, 3)
	w.Record.Request.Window, untouched.Record.Request.Window = 9, 9
	w.Record.Request.MaxUnavailable, untouched.Record.Request.MaxUnavailable = 9, 9
	w.Members[6].Pods = append(w.Members[6].Pods, &corev1.Pod{})
	untouched.Members[6].Pods = append(untouched.Members[6].Pods, &corev1.Pod{})
	if step := upgrade.Next(w); len(step.Record.Nodes) <= 5 || len(step.Actions) == 0 {
		t.Fatalf("%d nodes started and %d actions: it had nothing to do", len(step.Record.Nodes)-5, len(step.Actions))
	}
	if !reflect.DeepEqual(w, untouched) {
		t.Error("the world is another one after a step")
	}
}
