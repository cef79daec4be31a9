package karpenter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"
	"sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
)

// cases is how many random cases each comparison makes.
const cases = 4_000

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// TestAllowanceIsThatOfKarpenter compares how many drifted nodes the budgets of random NodePools allow, and when that changes, with
// Karpenter's own answer at each of these times and a second before.
func TestAllowanceIsThatOfKarpenter(t *testing.T) {
	met := map[int]int{}
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 1))
		ours, theirs := drawBudgets(r)
		nodes := r.IntN(40)
		now := time.Date(2026, time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
		changes := ours.Changes(now, now.Add(10*24*time.Hour), nodes)
		for i, change := range changes {
			want := theirs.MustGetAllowedDisruptions(clock.NewFakeClock(change.At), nodes, v1.DisruptionReasonDrifted)
			if met[min(want, 50)]++; change.Allowed != want {
				t.Fatalf("seed %d: %d nodes at %s: got %d, Karpenter says %d: %+v", seed, nodes, change.At, change.Allowed, want, ours.Spec.Disruption)
			}
			if i == 0 {
				continue
			}
			before := change.At.Add(-time.Second)
			if want := theirs.MustGetAllowedDisruptions(clock.NewFakeClock(before), nodes, v1.DisruptionReasonDrifted); changes[i-1].Allowed != want {
				t.Fatalf("seed %d: %d nodes a second before %s: got %d, Karpenter says %d", seed, nodes, change.At, changes[i-1].Allowed, want)
			}
		}
		at := now.Add(time.Duration(r.IntN(10*24*3600)) * time.Second)
		if got, want := ours.Allowance(at, nodes), theirs.MustGetAllowedDisruptions(clock.NewFakeClock(at), nodes, v1.DisruptionReasonDrifted); got != want {
			t.Fatalf("seed %d: at %s: got %d, Karpenter says %d", seed, at, got, want)
		}
	}
	if len(met) < 20 {
		t.Errorf("only %d different allowances were met: %v", len(met), met)
	}
}

// drawBudgets returns the same random budgets as this tool and as Karpenter read them.
func drawBudgets(r *rand.Rand) (*nodepool.NodePool, *v1.NodePool) {
	ours, theirs := &nodepool.NodePool{}, &v1.NodePool{}
	for range r.IntN(4) {
		b := v1.Budget{Nodes: pick(r, "0", "1", "3", "10%", "25%", "100%", "0%", fmt.Sprint(r.IntN(50)), "x")}
		if r.IntN(20) > 0 && b.Nodes == "x" {
			b.Nodes = "2"
		}
		b.Reasons = pick(r, nil, nil, []v1.DisruptionReason{v1.DisruptionReasonDrifted}, []v1.DisruptionReason{v1.DisruptionReasonEmpty, v1.DisruptionReasonUnderutilized})
		if r.IntN(2) == 0 {
			schedule := pick(r, "@daily", "@weekly", "0 9 * * mon-fri", "*/30 * * * *", "15 3 1 * *", "0 0 29 2 *", "@hourly", "5 4 * * sun")
			if r.IntN(30) == 0 {
				schedule = "0 25 * * *"
			}
			b.Schedule, b.Duration = &schedule, &metav1.Duration{Duration: pick(r, 10*time.Minute, time.Hour, 8*time.Hour, 30*time.Hour, 9*24*time.Hour)}
		}
		theirs.Spec.Disruption.Budgets = append(theirs.Spec.Disruption.Budgets, b)
		own := nodepool.Budget{Nodes: b.Nodes, Schedule: b.Schedule}
		for _, reason := range b.Reasons {
			own.Reasons = append(own.Reasons, string(reason))
		}
		if b.Duration != nil {
			own.Duration = new(b.Duration.Duration.String())
		}
		ours.Spec.Disruption.Budgets = append(ours.Spec.Disruption.Budgets, own)
	}
	return ours, theirs
}

// TestKeepersAreThoseOfKarpenter compares which pods keep Karpenter from their node, for random pods and budgets.
func TestKeepersAreThoseOfKarpenter(t *testing.T) {
	met := map[drain.ObstacleKind]int{}
	for seed := range uint64(cases / 10) {
		r := rand.New(rand.NewPCG(seed, 2))
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		budgets := make([]*policyv1.PodDisruptionBudget, r.IntN(3))
		builder := fake.NewClientBuilder()
		for i := range budgets {
			budgets[i] = drawBudget(r, i)
			builder.WithObjects(budgets[i])
		}
		limits, err := pdb.NewLimits(t.Context(), builder.Build())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			p := drawPod(r, i, now)
			_, evictable := limits.CanEvictPods([]*corev1.Pod{p}, clock.NewFakeClock(now), nil)
			want := !evictable || !pod.IsDisruptable(p, clock.NewFakeClock(now), nil)
			got := drain.FindKeeper(p, drain.NewBudgets(budgets), now)
			if met[got.Kind]++; (got.Kind != drain.NoObstacle) != want {
				t.Fatalf("seed %d: got %q, Karpenter says that it keeps its node: %t\n%+v\n%+v", seed, got, want, p, budgets)
			}
		}
	}
	for _, kind := range []drain.ObstacleKind{drain.NoObstacle, drain.Keeps, drain.TwoBudgets, drain.BudgetSpent, drain.BudgetUnhealthy} {
		if met[kind] == 0 {
			t.Errorf("no pod was kept by %q", kind)
		}
	}
}

// drawBudget returns a random budget of the pods of an app.
func drawBudget(r *rand.Rand, i int) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("b%d", i), Namespace: pick(r, "shop", "other")}}
	b.Spec.Selector = pick(r, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "web", "api")}})
	b.Spec.MaxUnavailable = new(pick(r, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("0%"), intstr.FromString("30%")))
	b.Spec.UnhealthyPodEvictionPolicy = pick(r, nil, new(policyv1.AlwaysAllow), new(policyv1.IfHealthyBudget))
	b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(r.IntN(2)), CurrentHealthy: int32(r.IntN(4)), DesiredHealthy: int32(r.IntN(4)), ExpectedPods: 3}
	return b
}

// drawPod returns a random pod.
func drawPod(r *rand.Rand, i int, now time.Time) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("p%d", i), Namespace: pick(r, "shop", "other"), Labels: map[string]string{"app": pick(r, "web", "api", "db")}, Annotations: map[string]string{},
	}}
	kind := pick(r, "ReplicaSet", "StatefulSet", "DaemonSet", "Node", "Job")
	version := map[string]string{"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Node": "v1", "Job": "batch/v1"}[kind]
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	if kind == "Node" {
		p.Annotations[corev1.MirrorPodAnnotationKey] = "mirror"
	}
	if r.IntN(3) == 0 {
		p.Annotations[nodepool.Keep] = pick(r, "true", "false", "1h", "30m", "-1h", "x", "True")
	}
	p.Status.Phase = pick(r, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: pick(r, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)}}
	if r.IntN(8) > 0 {
		p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Duration(r.IntN(7200)) * time.Second)}
	}
	if r.IntN(10) == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Minute)}
	}
	p.Spec.Tolerations = pick(r, nil, nil, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []corev1.Toleration{{Key: "karpenter.sh/disrupted", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}})
	return p
}
