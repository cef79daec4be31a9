package preflight_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// unreadyFor makes a pod unready for this duration.
func unreadyFor(d time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		build.Unready(pod)
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: start.Add(-d)}
	}
}

// waiting sets the reason why the first container of an unready pod waits.
func waiting(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		unreadyFor(time.Second)(pod)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
}

// refused makes a pod that the scheduler has just tried to place without success.
func refused(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.CreationTimestamp = "", metav1.Time{Time: start}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available: 2 Insufficient cpu."},
	}}
}

// needing sets a minAvailable that is a number.
func needing(pods int32) func(*policyv1.PodDisruptionBudget) {
	return func(budget *policyv1.PodDisruptionBudget) {
		least := intstr.FromInt32(pods)
		budget.Spec.MinAvailable, budget.Spec.MaxUnavailable = &least, nil
	}
}

// TestClosedBudgetFindingsDependOnUnreadyPods uses a ready pod on the outdated node, and other pods of its budget elsewhere in the cluster. The state of
// these pods decides whether the budget opens by itself (PDB001, PDB006, PDB007).
func TestClosedBudgetFindingsDependOnUnreadyPods(t *testing.T) {
	type change = func(*corev1.Pod)
	spent := build.Counts(3, 2, 2)
	cases := map[string]struct {
		others  [][]change
		budget  []func(*policyv1.PodDisruptionBudget)
		scale   int
		counted int
		ofGroup bool // only pods of the group were read
		want    string
		says    string
	}{
		"all of its pods are ready":                  {others: [][]change{{}, {}}, budget: []func(*policyv1.PodDisruptionBudget){spent}},
		"one cannot pull its image":                  {others: [][]change{{}, {waiting("ImagePullBackOff")}}, want: "block", says: "pod shop/other-1 is not ready, because container web is in ImagePullBackOff"},
		"one crashes":                                {others: [][]change{{}, {waiting("CrashLoopBackOff")}}, want: "block", says: "pod shop/other-1 is not ready, because container web is in CrashLoopBackOff"},
		"one has just been started":                  {others: [][]change{{}, {waiting("ContainerCreating")}}, want: "info", says: "pod shop/other-1 has not been ready for 1s"},
		"no node takes one":                          {others: [][]change{{}, {refused}}, want: "block", says: "pod shop/other-1 is not ready, because no node takes it: 0/2 nodes are available"},
		"one is unready for five minutes":            {others: [][]change{{}, {unreadyFor(5 * time.Minute)}}, want: "info", says: "has not been ready for 5m:"},
		"one is unready for longer":                  {others: [][]change{{}, {unreadyFor(5*time.Minute + time.Second)}}, want: "block", says: "repair pod shop/other-1"},
		"a faulty one comes before an older one":     {others: [][]change{{unreadyFor(time.Minute)}, {waiting("ErrImagePull")}}, budget: []func(*policyv1.PodDisruptionBudget){build.Counts(3, 1, 2)}, want: "block", says: "pod shop/other-1 is not ready, because container web is in ErrImagePull; 2 of its pods are not ready"},
		"an unready one that leaves":                 {others: [][]change{{}, {}, {unreadyFor(time.Hour), build.Ending(start)}}},
		"an unready one of another app":              {others: [][]change{{}, {}, {unreadyFor(time.Hour), build.App("api")}}},
		"one is about to be made":                    {others: [][]change{{}}, scale: 3, want: "info", says: "its controllers have still to create 1 pod"},
		"one is about to be made, as the budget has": {others: [][]change{{}}, want: "info", says: "its controllers have still to create 1 pod"},
		"PDB001 it needs all but one that is to be made": {
			others: [][]change{{}}, scale: 3, budget: []func(*policyv1.PodDisruptionBudget){needing(2), build.Counts(2, 2, 2)}, want: "info", says: "its controllers have still to create 1 pod",
		},
		"PDB001 it needs the one that is to be made, too": {
			others: [][]change{{}}, scale: 3, budget: []func(*policyv1.PodDisruptionBudget){needing(3), build.Counts(2, 2, 3)}, want: "block", says: "can never allow a disruption",
		},
		"it needs all of them": {
			others: [][]change{{}}, scale: 2, budget: []func(*policyv1.PodDisruptionBudget){needing(2), build.Counts(2, 2, 2)}, want: "block", says: "can never allow a disruption",
		},
		"it counts one that ends":    {others: [][]change{{}}, scale: 2, budget: []func(*policyv1.PodDisruptionBudget){needing(2), build.Counts(3, 2, 2)}},
		"the dump lacks a ready one": {others: [][]change{{}}, scale: 3, counted: 3, budget: []func(*policyv1.PodDisruptionBudget){build.Counts(3, 3, 3)}, want: "block", says: "can never allow"},
		"the dump lacks one":         {others: [][]change{{}}, scale: 3, counted: 3, want: "block", says: "its controllers report 1 pod that the dump lacks"},
		"others were not read":       {others: [][]change{{}, {waiting("ImagePullBackOff")}}, budget: []func(*policyv1.PodDisruptionBudget){build.Counts(3, 1, 2)}, ofGroup: true, want: "warning", says: "which of its pods are not ready is unknown"},
		"its status is behind":       {others: [][]change{{}, {}}, budget: []func(*policyv1.PodDisruptionBudget){build.Counts(3, 1, 2)}, want: "info", says: "its status will change soon"},
		"none is needed or healthy":  {others: [][]change{{unreadyFor(time.Second)}}, budget: []func(*policyv1.PodDisruptionBudget){build.Counts(2, 0, 0)}, want: "info", says: "needs no healthy pod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.budget == nil {
				c.budget = []func(*policyv1.PodDisruptionBudget){spent}
			}
			w := on(group("aws"), "old", build.Pod("web-0"))
			if c.says == "needs no healthy pod" {
				unreadyFor(time.Second)(w.Members[1].Pods[0])
			}
			w.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", c.budget...)})
			pods := slices.Clone(w.Members[1].Pods)
			for i, with := range c.others {
				pods = append(pods, build.Pod("other-"+string(rune('0'+i)), append([]func(*corev1.Pod){build.On("elsewhere")}, with...)...))
			}
			owner := w.Members[1].Pods[0].OwnerReferences[0].UID
			facts := preflight.Facts{Pods: slices.Values(pods), Scales: map[types.UID]int{}, ReportedPods: map[types.UID]int{owner: c.counted}}
			if c.scale > 0 {
				facts.Scales[owner] = c.scale
			}
			if c.ofGroup {
				facts.Pods = nil
			}
			var got []string
			var said string
			for _, f := range preflight.CheckUpgrade(w, facts) {
				got, said = append(got, string(f.Severity)), f.String()
			}
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if !slices.Equal(got, want) || !strings.Contains(said, c.says) {
				t.Errorf("got %v: %s\nwant %v that says %q", got, said, want, c.says)
			}
		})
	}
}

// TestClaimsAndClosedBudgetsNeedAllObjects: an upgrade with open budgets starts without reading all pods.
func TestClaimsAndClosedBudgetsNeedAllObjects(t *testing.T) {
	claim := build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	directory := build.Volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	for want, volume := range map[bool]func(*corev1.Pod){true: claim, false: directory} {
		if got := preflight.NeedsAllObjects(on(group("aws"), "old", build.Pod("web-0", volume))); got != want {
			t.Errorf("a pod with a claim %t: %t", want, got)
		}
	}
	for name, want := range map[string]bool{"open": false, "spent": true, "unhealthy": true, "never": true} {
		counts := map[string]func(*policyv1.PodDisruptionBudget){
			"open": build.Counts(3, 3, 2), "spent": build.Counts(3, 2, 2), "unhealthy": build.Counts(3, 1, 2), "never": build.Counts(3, 3, 3),
		}
		w := on(group("aws"), "old", build.Pod("web-0"))
		w.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", counts[name])})
		if got := preflight.NeedsAllObjects(w); got != want {
			t.Errorf("a budget that is %s: %t, want %t", name, got, want)
		}
		on(w, "new", w.Members[1].Pods...)
		w.Members[1].Pods = nil
		if preflight.NeedsAllObjects(w) {
			t.Errorf("a budget that is %s of a pod that stays: it needs all pods", name)
		}
	}
}
