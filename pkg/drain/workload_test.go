package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestWorkloadIsFoundFromOwnerOfPod(t *testing.T) {
	template := build.Pod("web-5d4f8-x7k2p", build.OwnedBy("ReplicaSet", "web-5d4f8"))
	template.Labels = map[string]string{"pod-template-hash": "5d4f8"}
	for want, pod := range map[string]*corev1.Pod{
		"shop/Deployment/web":  template,
		"shop/ReplicaSet/solo": build.Pod("solo-x", build.OwnedBy("ReplicaSet", "solo")),
		"shop/StatefulSet/db":  build.Pod("db-0", build.OwnedBy("StatefulSet", "db")),
		"//":                   build.Pod("agent-x", build.OwnedBy("DaemonSet", "agent")),
	} {
		if got := drain.WorkloadOf(pod).String(); got != want {
			t.Errorf("%s is of %s, want %s", pod.Name, got, want)
		}
	}
	for _, none := range []*corev1.Pod{build.Pod("bare", build.Bare), build.Pod("once", build.OwnedBy("Job", "once")), build.Pod("static", build.OwnedBy("Node", "n1"))} {
		if got := drain.WorkloadOf(none); got != (drain.Workload{}) {
			t.Errorf("%s is of %s, want none", none.Name, got)
		}
	}
}

// TestPodOfForeignJobIsRecognized decides by the pod's restart policy and its controller.
func TestPodOfForeignJobIsRecognized(t *testing.T) {
	owned := func(version, kind string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			build.OwnedBy(kind, "one")(pod)
			pod.OwnerReferences[0].APIVersion = version
		}
	}
	ends := func(policy corev1.RestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a CI runner":                     {build.Pod("p", owned("actions.github.com/v1alpha1", "EphemeralRunner"), ends(corev1.RestartPolicyNever)), true},
		"one that is started again":       {build.Pod("p", owned("sparkoperator.k8s.io/v1beta2", "SparkApplication"), ends(corev1.RestartPolicyOnFailure)), true},
		"a Job of another group":          {build.Pod("p", owned("batch.volcano.sh/v1alpha1", "Job"), ends(corev1.RestartPolicyNever)), true},
		"one of another pod":              {build.Pod("p", owned("v1", "Pod"), ends(corev1.RestartPolicyNever)), true},
		"a Job of Kubernetes":             {build.Pod("p", owned("batch/v1", "Job"), ends(corev1.RestartPolicyNever)), false},
		"one that never ends":             {build.Pod("p", owned("postgresql.cnpg.io/v1", "Cluster"), ends(corev1.RestartPolicyAlways)), false},
		"one whose end is not known":      {build.Pod("p", owned("postgresql.cnpg.io/v1", "Cluster")), false},
		"one without a controller (bare)": {build.Pod("p", build.Bare, ends(corev1.RestartPolicyNever)), false},
	} {
		if got := drain.IsForeignJob(c.pod); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if c.want && drain.WorkloadOf(c.pod) != (drain.Workload{}) {
			t.Errorf("%s is of %s, which is waited for", name, drain.WorkloadOf(c.pod))
		}
	}
}

func TestWorkloadIsParsedFromItsText(t *testing.T) {
	want := drain.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}
	if got, err := drain.ParseWorkload(want.String()); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "web", "shop/web", "shop/Deployment/", "shop/Deployment/web/x"} {
		if got, err := drain.ParseWorkload(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

// behind returns the facts of a cluster with a Service for the app web.
func behind() drain.Facts {
	return drain.Webhooks{}.FactsOf([]*corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}})
}

// TestLastReadyPodBehindServiceStays checks pods without a budget (kubernetes#31487). All other pods of the workload may leave.
func TestLastReadyPodBehindServiceStays(t *testing.T) {
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
	unready, failed := build.Unready, build.Phase(corev1.PodFailed)
	for name, c := range map[string]struct {
		facts   drain.Facts
		pods    [][]func(*corev1.Pod)
		budgets []*policyv1.PodDisruptionBudget
		want    drain.ObstacleKind
	}{
		"two are ready":                 {facts: behind(), pods: [][]func(*corev1.Pod){{}, {}}},
		"the other is not ready":        {facts: behind(), pods: [][]func(*corev1.Pod){{}, {unready}}, want: drain.LastReady},
		"the other is leaving":          {facts: behind(), pods: [][]func(*corev1.Pod){{}, {deleted}, {unready}}, want: drain.LastReady},
		"the other has failed":          {facts: behind(), pods: [][]func(*corev1.Pod){{}, {failed, unready}, {unready}}, want: drain.LastReady},
		"the others have failed":        {facts: behind(), pods: [][]func(*corev1.Pod){{}, {failed, unready}}},
		"it is not ready itself":        {facts: behind(), pods: [][]func(*corev1.Pod){{unready}, {unready}}},
		"it is the only one":            {facts: behind(), pods: [][]func(*corev1.Pod){{}}},
		"no Service sends to it":        {pods: [][]func(*corev1.Pod){{}, {unready}}},
		"a budget of its own covers it": {facts: behind(), pods: [][]func(*corev1.Pod){{}, {unready}}, budgets: []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(2, 2, 1))}},
	} {
		t.Run(name, func(t *testing.T) {
			index := drain.NewWorkloadIndex(c.facts)
			var first *corev1.Pod
			for i, with := range c.pods {
				pod := build.Pod(string(rune('a'+i)), with...)
				if index.Store(pod); first == nil {
					first = pod
				}
			}
			budgets := drain.NewBudgets(c.budgets).WithLastReady(index.Current())
			if got := drain.Predict(first, budgets, nil, false); got.Kind != c.want {
				t.Errorf("%q (%s), want %q", got.Kind, got.Obstacle, c.want)
			}
		})
	}
}

// If one of a workload's two pods is missing for now, the other one is not treated as a single replica. It waits.
func TestPodWaitsWhileOtherOfTwoPodsIsMissing(t *testing.T) {
	index := drain.NewWorkloadIndex(behind())
	a, b := build.Pod("a"), build.Pod("b")
	index.Store(a)
	index.Store(b)
	before := index.Snapshot()
	index.Remove(b)
	if got := drain.Predict(a, drain.Budgets{}.WithLastReady(index.Current()), nil, false); got.Kind != drain.LastReady {
		t.Errorf("%q, want %q", got.Kind, drain.LastReady)
	}
	if r := before.Of(a); r == nil || r.Ready != 2 {
		t.Errorf("the snapshot changed: %+v", r)
	}
}

// A process that starts while one of a StatefulSet's two pods is being deleted knows that the set has two.
func TestTerminatingStatefulSetPodCountsAsReplica(t *testing.T) {
	for kind, want := range map[string]drain.ObstacleKind{"StatefulSet": drain.LastReady, "ReplicaSet": drain.NoObstacle} {
		index := drain.NewWorkloadIndex(behind())
		a, b := build.Pod("a", build.OwnedBy(kind, "web")), build.Pod("b", build.OwnedBy(kind, "web"))
		b.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
		index.Store(a)
		index.Store(b)
		if got := drain.Predict(a, drain.Budgets{}.WithLastReady(index.Current()), nil, false); got.Kind != want {
			t.Errorf("%s: %q, want %q", kind, got.Kind, want)
		}
	}
}

// TestLeavingPodDoesNotCountAsReady: a pod counts as ready until it is seen leaving.
func TestLeavingPodDoesNotCountAsReady(t *testing.T) {
	index := drain.NewWorkloadIndex(behind())
	a, b := build.Pod("a"), build.Pod("b")
	index.Store(a)
	index.Store(b)
	web := drain.Workload{Namespace: build.Namespace, Kind: "ReplicaSet", Name: "web"}
	if !(drain.Budgets{}).WithLastReady(index.Current()).CountsReady(web, "a") {
		t.Error("a ready pod is not counted")
	}
	gone := a.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	index.Store(gone)
	if (drain.Budgets{}).WithLastReady(index.Current()).CountsReady(web, "a") {
		t.Error("a pod that leaves is counted")
	}
}

func TestPodStartIsLateAfterItsTimeLimit(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	bound := func(pod *corev1.Pod) {
		pod.Spec.NodeName = "n1"
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: created.Add(time.Minute)}})
	}
	waits := func(reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	for name, c := range map[string]struct {
		with  []func(*corev1.Pod)
		usual time.Duration
		why   string
		after time.Duration
	}{
		"it crashes":                 {with: []func(*corev1.Pod){bound, waits("CrashLoopBackOff")}, why: "container app is in CrashLoopBackOff after 3 restarts"},
		"its image cannot be pulled": {with: []func(*corev1.Pod){bound, waits("ImagePullBackOff")}, why: "container app is in ImagePullBackOff after 3 restarts"},
		"it is being created":        {with: []func(*corev1.Pod){bound, waits("ContainerCreating")}, why: "it is not ready after 30s", after: 90 * time.Second},
		"it is usually slow":         {with: []func(*corev1.Pod){bound}, usual: time.Minute, why: "it is not ready after 2m0s", after: 3 * time.Minute},
		"no node takes it": {with: []func(*corev1.Pod){func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"})
		}}, why: "no node takes it: 0/3 nodes are available", after: 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			pod := build.Pod("web-1", append([]func(*corev1.Pod){build.Unready}, c.with...)...)
			pod.CreationTimestamp = metav1.Time{Time: created}
			late := created.Add(c.after)
			if why := drain.WhyLate(pod, c.usual, 20*time.Minute, late); why != c.why {
				t.Errorf("%q, want %q", why, c.why)
			}
			if why := drain.WhyLate(pod, c.usual, 20*time.Minute, late.Add(-time.Second)); c.after > 0 && why != "" {
				t.Errorf("%q too early", why)
			}
		})
	}
}
