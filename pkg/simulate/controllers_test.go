package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestSimulatedEvictionAnswersFollowBudgets(t *testing.T) {
	web := func(with ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		return build.Budget("web", with...)
	}
	second := func(b *policyv1.PodDisruptionBudget) { b.Name = "web-too" }
	stale := func(b *policyv1.PodDisruptionBudget) { b.Generation++ }
	crowded := func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptedPods = map[string]metav1.Time{}
		for i := range 2001 {
			b.Status.DisruptedPods[fmt.Sprintf("gone-%d", i)] = metav1.Time{Time: start}
		}
	}
	type budgets = []*policyv1.PodDisruptionBudget
	cases := map[string]struct {
		pod     []func(*corev1.Pod)
		budgets budgets
		ending  bool
		want    string
	}{
		"no budget":                       {nil, nil, false, "done"},
		"a budget with room":              {nil, budgets{web()}, false, "done"},
		"a budget without":                {nil, budgets{web(build.Counts(3, 2, 2))}, false, "refused: the disruption budget web needs 2 healthy pods and has 2 currently"},
		"a budget that was just spent":    {nil, budgets{web(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 0 })}, false, "refused: the disruption budget web does not allow"},
		"a budget without, pod pending":   {[]func(*corev1.Pod){build.Phase(corev1.PodPending)}, budgets{web(build.Counts(3, 2, 2))}, false, "done"},
		"a budget without, pod finished":  {[]func(*corev1.Pod){build.Phase(corev1.PodFailed)}, budgets{web(build.Counts(3, 2, 2))}, false, "done"},
		"a budget without, pod ending":    {[]func(*corev1.Pod){build.Ending(start.Add(time.Minute))}, budgets{web(build.Counts(3, 2, 2))}, false, "done"},
		"two budgets":                     {nil, budgets{web(), web(second)}, false, "unclear: this pod has more than one PodDisruptionBudget"},
		"two budgets, pod pending":        {[]func(*corev1.Pod){build.Phase(corev1.PodPending)}, budgets{web(), web(second)}, false, "done"},
		"a budget not processed yet":      {nil, budgets{web(stale)}, false, "refused: the disruption budget web is still being processed by the server"},
		"an unready pod, enough healthy":  {[]func(*corev1.Pod){build.Unready}, budgets{web(build.Counts(3, 2, 2))}, false, "done"},
		"an unready pod, too few healthy": {[]func(*corev1.Pod){build.Unready}, budgets{web(build.Counts(3, 1, 2))}, false, "refused: the disruption budget web needs 2 healthy pods and has 1 currently"},
		"an unready pod, always allowed":  {[]func(*corev1.Pod){build.Unready}, budgets{web(build.Counts(3, 1, 2), build.AlwaysAllow)}, false, "done"},
		"an unready pod, none needed":     {[]func(*corev1.Pod){build.Unready}, budgets{web(build.Counts(3, 0, 0))}, false, "refused: the disruption budget web needs 0 healthy pods and has 0 currently"},
		"too many disrupted pods":         {nil, budgets{web(crowded)}, false, "later: DisruptedPods map too big"},
		"a namespace that ends":           {nil, nil, true, "later: namespace shop is being terminated"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := twoNodes(build.Pod("web-0", c.pod...))
			spec.Budgets, spec.EndingNamespaces = c.budgets, map[string]bool{build.Namespace: c.ending}
			a := execute(simulate.New(spec), evict("web-0"))
			if got := strings.TrimSuffix(fmt.Sprintf("%s: %s", a.Outcome, a.Detail), ": "); !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// budgetStatus returns the status that the disruption controller computes for a budget over three ready pods, one
// unready pod and one pod that is being deleted.
func budgetStatus(spec policyv1.PodDisruptionBudgetSpec, workloads map[types.UID]simulate.Workload) string {
	pods := []*corev1.Pod{build.Pod("web-0"), build.Pod("web-1"), build.Pod("web-2"), build.Pod("web-3", build.Unready), build.Pod("web-4", build.Ending(start.Add(time.Minute)))}
	s := twoNodes(pods...)
	budget := build.Budget("web", build.Counts(9, 9, 9))
	spec.Selector = budget.Spec.Selector
	budget.Spec = spec
	s.Budgets, s.Workloads = []*policyv1.PodDisruptionBudget{budget}, workloads
	st := simulate.New(s).World(request()).Budgets.Covering(pods[0])[0].Status
	return fmt.Sprintf("%d of %d healthy, %d needed, %d allowed", st.CurrentHealthy, st.ExpectedPods, st.DesiredHealthy, st.DisruptionsAllowed)
}

func TestBudgetStatusFollowsFromItsSpec(t *testing.T) {
	number, percent := intstr.FromInt32, intstr.FromString
	known := map[types.UID]simulate.Workload{"ReplicaSet/web": {Replicas: 4}}
	least := func(v intstr.IntOrString) policyv1.PodDisruptionBudgetSpec {
		return policyv1.PodDisruptionBudgetSpec{MinAvailable: &v}
	}
	most := func(v intstr.IntOrString) policyv1.PodDisruptionBudgetSpec {
		return policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &v}
	}
	cases := map[string]struct {
		spec      policyv1.PodDisruptionBudgetSpec
		workloads map[types.UID]simulate.Workload
		want      string
	}{
		"minAvailable as a number counts pods": {least(number(2)), known, "3 of 5 healthy, 2 needed, 1 allowed"},
		"minAvailable in percent, rounded up":  {least(percent("51%")), known, "3 of 4 healthy, 3 needed, 0 allowed"},
		"maxUnavailable as a number":           {most(number(2)), known, "3 of 4 healthy, 2 needed, 1 allowed"},
		"maxUnavailable in percent, too":       {most(percent("26%")), known, "3 of 4 healthy, 2 needed, 1 allowed"},
		"the scale of a Deployment":            {most(number(2)), map[types.UID]simulate.Workload{"ReplicaSet/web": {Replicas: 5, Of: "web"}}, "3 of 5 healthy, 3 needed, 0 allowed"},
		"more than there are":                  {most(number(7)), known, "3 of 4 healthy, 0 needed, 3 allowed"},
		"an unknown workload":                  {most(number(2)), map[types.UID]simulate.Workload{}, "9 of 9 healthy, 9 needed, 0 allowed"},
		"nothing known at all":                 {least(number(2)), nil, "9 of 9 healthy, 9 needed, 0 allowed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := budgetStatus(c.spec, c.workloads); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestOrderedStatefulSetComesBackInOrder(t *testing.T) {
	set := build.OwnedBy("StatefulSet", "db")
	cases := map[string]struct {
		ordered bool
		want    string
	}{
		"in order": {true, "db-0 db-1 "},
		"parallel": {false, "db-0 db-1 db-2 "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := twoNodes(build.Pod("db-0", set), build.Pod("db-1", set), build.Pod("db-2", set))
			spec.Workloads = map[types.UID]simulate.Workload{"StatefulSet/db": {Replicas: 3, Ordered: c.ordered}}
			cluster := simulate.New(spec)
			fence(cluster, "old-a-1")
			for _, pod := range []string{"db-2", "db-1"} {
				execute(cluster, evict(pod))
			}
			advanceBy(cluster, 6*time.Second) // both are gone, and no successor is ready
			if got := names(cluster); got != c.want {
				t.Errorf("at first %q, want %q", got, c.want)
			}
			advanceBy(cluster, 20*time.Second)
			if got := names(cluster); got != "db-0 db-1 db-2 " {
				t.Errorf("in the end %q", got)
			}
		})
	}
}

// names returns the pods of all members, in order.
func names(c *simulate.Cluster) (text string) {
	for _, name := range []string{"db-0", "db-1", "db-2"} {
		for _, m := range c.World(request()).Members {
			for _, pod := range m.Pods {
				if pod.Name == name {
					text += name + " "
				}
			}
		}
	}
	return text
}

func TestDaemonSetsRunOnNewNodes(t *testing.T) {
	agent := []func(*corev1.Pod){build.OwnedBy("DaemonSet", "agent")}
	cases := map[string]struct {
		with []func(*corev1.Pod)
		want int
	}{
		"one that runs anywhere":       {agent, 1},
		"one that asks for other ones": {append(agent, selecting("gpu", "yes")), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := simulate.New(twoNodes(build.Pod("agent-0", c.with...)))
			execute(cluster, nodegroup.AddCapacity{Zone: "a", N: 1, Token: "t"})
			advanceBy(cluster, 3*time.Minute)
			for _, m := range cluster.World(request()).Members {
				if strings.Contains(m.Name(), "new") && len(m.Pods) != c.want {
					t.Errorf("%d pods on the new node, want %d", len(m.Pods), c.want)
				}
			}
		})
	}
}

func TestPodsOfTerminatedMachineAreReplacedElsewhere(t *testing.T) {
	cluster := simulate.New(twoNodes(build.Pod("web-0"), build.Pod("bare", build.Bare)))
	fence(cluster, "old-a-1")
	execute(cluster, nodegroup.Terminate{Instance: "i-old-a-1", Shrink: true})
	advanceBy(cluster, time.Minute)
	if got := podsOf(cluster, "cur-b-1"); strings.Count(got, "another") != 1 || strings.Contains(got, "bare") {
		t.Errorf("on the other node: %q", got)
	}
}
