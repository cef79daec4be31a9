package worlds

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// remainingWorlds is the number of worlds in which the test asks for the remaining time. maxQuestions is how often it asks in each.
const (
	remainingWorlds = 120
	maxQuestions    = 12
)

// undisturbedPlan returns the seed's plan without faults, other actors and oddities, which a forecast cannot know.
func undisturbedPlan(seed uint64) Plan {
	p := Generate(seed)
	p.Faults, p.Actors, p.Calm, p.Denial, p.Closed, p.ClosedFor = nil, nil, 0, Denial{}, "", 0
	p.Balancer = Balancer{}
	for i := range p.Nodes {
		p.Nodes[i].Marks, p.Nodes[i].Standby, p.Nodes[i].Stray, p.Nodes[i].Unlabelled = 0, false, false, false
	}
	p.Workloads = slices.DeleteFunc(p.Workloads, func(w Workload) bool {
		return w.Broken || w.Undead || w.Crashes || w.Slow > 0 || w.Refused || w.Homeless || w.Pinned || w.Flaps > 0 || w.Ends > 0 || w.Rollout != "" || (w.Kind != Deployment && w.Kind != StatefulSet && w.Kind != DaemonSet)
	})
	p.Budgets = slices.DeleteFunc(p.Budgets, func(b Budget) bool {
		return !slices.ContainsFunc(p.Workloads, func(w Workload) bool { return w.Name == b.Workload })
	})
	return p
}

// specOf returns the world as a status command reads it now. group is an earlier reading of the group.
func specOf(c *cluster, record record.Record, group nodegroup.Group) simulate.Spec {
	spec := simulate.Spec{
		Now: c.now, Group: group, Record: record, Facts: c.plan.serviceFacts(), Workloads: map[types.UID]simulate.Workload{},
		Outdated: func(n *corev1.Node) bool { return n.Labels[imageLabel] != c.cloud.wanted },
		Times: simulate.Times{
			Boot: c.plan.Boot + c.plan.Boot/8 + 10*time.Second, Leave: c.plan.Leave,
			ReadyOf: func(pod *corev1.Pod) time.Duration { return c.controllers[pod.Labels["app"]].Ready },
			Gone:    func(pod *corev1.Pod) time.Duration { return c.controllers[pod.Labels["app"]].Gone },
		},
	}
	for _, node := range c.nodes {
		if node.Labels[groupLabel] == "" {
			spec.Others = append(spec.Others, node)
		} else {
			spec.Nodes = append(spec.Nodes, node)
		}
	}
	for _, pod := range c.pods {
		started := *pod
		if pod.Spec.NodeName != "" && pod.Status.StartTime == nil {
			started.Status.StartTime = &metav1.Time{Time: pod.CreationTimestamp.Time} // as a kubelet does
		}
		spec.Pods = append(spec.Pods, &started)
	}
	for _, budget := range c.budgets {
		spec.Budgets = append(spec.Budgets, budget)
	}
	for name, m := range c.controllers {
		spec.Workloads[types.UID("owner-"+name)] = simulate.Workload{
			Replicas: int32(m.Replicas), Pods: &simulate.PodSet{Kind: string(m.Kind), Namespace: namespace, Name: name, Count: m.Replicas},
		}
	}
	return spec
}

// question is a forecast of the time until the upgrade ends.
type question struct {
	at, said time.Duration
	result   record.Result
}

// askRemainingTime runs the world and forecasts the remaining time at random moments, with readings that are up to 30 s old. It
// returns no forecasts for an upgrade that does not end in one run.
func askRemainingTime(t *testing.T, plan Plan) (asked []question, ended time.Duration) {
	t.Helper()
	c := newCluster(&plan)
	u := &user{c: c, rules: newRules(c, nil), stored: &storedState{}, renewing: map[types.UID]bool{}}
	dice := rand.New(rand.NewPCG(plan.Seed, 7))
	u.runCommand()
	var readings []nodegroup.Group
	next := c.now
	for !u.done && u.runs == 1 && u.rules.broken == "" && c.runNextEvent() && c.elapsed() < 24*time.Hour {
		if len(readings) == 0 || c.now.Sub(readings[len(readings)-1].Observed) >= time.Second {
			readings = append(readings, c.readGroup())
		}
		record := u.stored.record
		if c.now.Before(next) || !record.IsRunning() || len(asked) == maxQuestions {
			continue
		}
		next = c.now.Add(time.Duration(dice.Int64N(int64(3 * time.Minute))))
		from := c.now.Add(-time.Duration(dice.Int64N(int64(30 * time.Second))))
		read := readings[0]
		for _, r := range readings {
			if !r.Observed.After(from) {
				read = r
			}
		}
		f, err := simulate.Predict(t.Context(), specOf(c, record, read), record.Request)
		if err != nil {
			t.Fatalf("seed %d: %v", plan.Seed, err)
		}
		asked = append(asked, question{at: c.elapsed(), said: f.Duration.Latest.Duration, result: f.Fast.Result})
	}
	if u.runs != 1 || u.stored.record.Result != record.Succeeded {
		return nil, 0
	}
	return asked, c.elapsed()
}

// TestRemainingTimeIsRightInSimulatedClusters checks that nine of ten forecasts of the remaining time are right: within a quarter of the true
// time, or within half a minute. The worlds simulate the cluster independently of the forecast.
func TestRemainingTimeIsRightInSimulatedClusters(t *testing.T) {
	all, right := 0, 0
	for seed := uint64(1); seed <= remainingWorlds; seed++ {
		plan := undisturbedPlan(seed)
		if plan.Provider != "aws" || plan.Request.Strategy != record.Surge && plan.Request.Strategy != record.BlueGreen {
			continue
		}
		asked, ended := askRemainingTime(t, plan)
		for _, q := range asked {
			all++
			is := ended - q.at
			if (q.said - is).Abs() <= max(is/4, 30*time.Second) {
				right++
				continue
			}
			t.Logf("seed %d, after %s of %s: says %q in %s, and it was %s", seed, q.at, ended, q.result, q.said, is)
		}
	}
	t.Logf("%d of %d answers are right", right, all)
	if all < 100 || right*10 < all*9 {
		t.Errorf("%d of %d answers are right", right, all)
	}
}
