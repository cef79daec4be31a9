package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// TestPodsKeepTheirNodeFromKarpenter has one case for each of Karpenter's rules. test/karpenter compares random ones with Karpenter.
func TestPodsKeepTheirNodeFromKarpenter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	budget := func(name string, allowed int32, policy *policyv1.UnhealthyPodEvictionPolicyType) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		b.Spec.Selector, b.Spec.UnhealthyPodEvictionPolicy = &metav1.LabelSelector{}, policy
		b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 2, DesiredHealthy: 2, ExpectedPods: 3}
		return b
	}
	closed, open := budget("closed", 0, nil), budget("open", 1, nil)
	type change func(*corev1.Pod)
	asks := func(value string) change {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{drain.AnnotationDoNotDisrupt: value} }
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	cases := map[string]struct {
		changes []change
		budgets []*policyv1.PodDisruptionBudget
		want    drain.ObstacleKind
		detail  string
	}{
		"nothing":                       {},
		"true":                          {changes: []change{asks("true")}, want: drain.Keeps},
		"a time that is not over":       {changes: []change{asks("2h")}, want: drain.Keeps, detail: "2026-11-30 13:00:00 UTC"},
		"a time that is over":           {changes: []change{asks("1h")}},
		"another value":                 {changes: []change{asks("yes")}},
		"a time without a start":        {changes: []change{asks("1h"), func(p *corev1.Pod) { p.Status.StartTime = nil }}, want: drain.Keeps},
		"a pod that has ended":          {changes: []change{asks("true"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }}},
		"a pod that is being deleted":   {changes: []change{asks("true"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }}},
		"a pod of a DaemonSet":          {changes: []change{func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }}, budgets: []*policyv1.PodDisruptionBudget{closed}, want: drain.BudgetSpent},
		"a static pod":                  {changes: []change{func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }}, budgets: []*policyv1.PodDisruptionBudget{closed}},
		"a pod that is not evicted":     {changes: []change{func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }}, budgets: []*policyv1.PodDisruptionBudget{closed}},
		"a closed budget":               {budgets: []*policyv1.PodDisruptionBudget{closed}, want: drain.BudgetSpent},
		"an open budget":                {budgets: []*policyv1.PodDisruptionBudget{open}},
		"two budgets":                   {budgets: []*policyv1.PodDisruptionBudget{open, closed}, want: drain.TwoBudgets},
		"unready, and always let go":    {changes: []change{unready}, budgets: []*policyv1.PodDisruptionBudget{budget("always", 0, new(policyv1.AlwaysAllow))}},
		"unready, and let go if enough": {changes: []change{unready}, budgets: []*policyv1.PodDisruptionBudget{closed}, want: drain.BudgetSpent},
	}
	for name, c := range cases {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}}}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: now.Add(-time.Hour)}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		for _, change := range c.changes {
			change(pod)
		}
		if got := drain.FindKeeper(pod, drain.NewBudgets(c.budgets), now); got.Kind != c.want || c.want == drain.Keeps && got.Detail != c.detail {
			t.Errorf("%s: got %q %q, want %q %q", name, got.Kind, got.Detail, c.want, c.detail)
		}
	}
}

func TestKeeperSaysHowLongItKeepsItsNode(t *testing.T) {
	b := drain.Blocked{Node: "a", Passed: true, Obstacle: drain.Obstacle{Kind: drain.Keeps}}
	if got := b.String(); got != "its annotation karpenter.sh/do-not-disrupt keeps it" {
		t.Errorf("a node: %q", got)
	}
	b.Pod.Name, b.Pod.Namespace, b.Detail = "web-1", "shop", "2026-11-30 13:00:00 UTC"
	if got := b.String(); got != "pod shop/web-1: its annotation karpenter.sh/do-not-disrupt keeps its node until 2026-11-30 13:00:00 UTC" {
		t.Errorf("a pod: %q", got)
	}
	b.Obstacle = drain.Obstacle{Kind: drain.BudgetSpent}
	if got := b.Remedy(); got != "wait until its pods are ready, raise its replicas" {
		t.Errorf("Karpenter takes no --on-timeout: %q", got)
	}
}
