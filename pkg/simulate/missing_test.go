package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// podsAfter lists the pods with their claims after that time: those that are not ready are in parentheses.
func podsAfter(spec Spec, passed time.Duration) string {
	c := New(spec)
	for end := spec.Now.Add(passed); c.clock.now.Before(end); {
		c.Advance(end)
	}
	var all []string
	for _, n := range c.index.nodes.sorted {
		for _, pod := range n.pods {
			name := baseName(pod.Name)
			for _, v := range pod.Spec.Volumes {
				name += "+" + v.PersistentVolumeClaim.ClaimName
			}
			if pod.DeletionTimestamp != nil {
				name += " leaving"
			}
			if !isReadyPod(pod) {
				name = "(" + name + ")"
			}
			all = append(all, name)
		}
	}
	for _, g := range c.scheduler.pending {
		for _, u := range g.pods {
			all = append(all, u.pod.Name+" waits")
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func isReadyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// scaled returns a ReplicaSet web and a StatefulSet db as the API server has them.
func scaled(replicas int32) (*appsv1.ReplicaSet, *appsv1.StatefulSet) {
	template := func(app string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: app}}},
		}
	}
	web := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web", UID: "ReplicaSet/web"}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: template("web")},
	}
	db := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "db", UID: "StatefulSet/db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Template: template("db"), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		},
	}
	return web, db
}

// At the beginning, controllers, the scheduler or the kubelets have not finished starting or ending some pods.
func TestSimulationCompletesPodChangesInProgress(t *testing.T) {
	web := func(i int, with ...func(*corev1.Pod)) *corev1.Pod {
		return build.Pod(fmt.Sprintf("web-%d", i), append([]func(*corev1.Pod){build.On("old-0")}, with...)...)
	}
	claimed := func(pod *corev1.Pod) {
		build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + pod.Name}})(pod)
	}
	db := func(i int, with ...func(*corev1.Pod)) *corev1.Pod {
		return build.Pod(fmt.Sprintf("db-%d", i), append([]func(*corev1.Pod){build.App("db"), build.OwnedBy("StatefulSet", "db"), build.On("old-0"), claimed}, with...)...)
	}
	failing := func(set *appsv1.ReplicaSet, _ *appsv1.StatefulSet) {
		set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}
	}
	bare := func(set *appsv1.ReplicaSet, stateful *appsv1.StatefulSet) {
		set.Spec.Template, stateful.Spec.Template = corev1.PodTemplateSpec{}, corev1.PodTemplateSpec{}
	}
	parallel := func(_ *appsv1.ReplicaSet, set *appsv1.StatefulSet) {
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	scheduled := func(status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: status, LastTransitionTime: metav1.Time{Time: midnight}})
		}
	}
	pending := build.Phase(corev1.PodPending)
	ending := build.Ending(midnight.Add(5 * time.Second))
	cases := map[string]struct {
		pods    []*corev1.Pod
		change  func(*appsv1.ReplicaSet, *appsv1.StatefulSet)
		passed  time.Duration
		unknown bool
		want    string
	}{
		"a pod of a ReplicaSet is missing":                    {pods: []*corev1.Pod{web(0)}, want: "web-0 web-0"},
		"it is there at once and ready later":                 {pods: []*corev1.Pod{web(0)}, passed: time.Second, want: "(web-0) web-0"},
		"all of them are missing":                             {want: "web web"},
		"all are, and no template is known":                   {change: bare, want: ""},
		"one leaves already":                                  {pods: []*corev1.Pod{web(0), web(1, ending)}, want: "web-0 web-0"},
		"one has failed":                                      {pods: []*corev1.Pod{web(0), web(1, build.Phase(corev1.PodFailed))}, want: "(web-1) web-0 web-0"},
		"its controller fails to create it":                   {pods: []*corev1.Pod{web(0)}, change: failing, want: "web-0"},
		"the scale was not read":                              {pods: []*corev1.Pod{web(0)}, unknown: true, want: "web-0"},
		"no scheduler has looked at it":                       {pods: []*corev1.Pod{web(0), web(1, build.On(""), pending)}, want: "web-0 web-1"},
		"a scheduler has refused it":                          {pods: []*corev1.Pod{web(0), web(1, build.On(""), pending, scheduled(corev1.ConditionFalse))}, want: "web-0 web-1 waits"},
		"its kubelet has not begun with it":                   {pods: []*corev1.Pod{web(0), web(1, pending, scheduled(corev1.ConditionTrue))}, want: "web-0 web-1"},
		"the first of a StatefulSet is missing":               {pods: []*corev1.Pod{db(1)}, want: "db-0+data-db-0 db-1+data-db-1"},
		"the last of one is missing":                          {pods: []*corev1.Pod{db(0)}, change: bare, want: "db-0+data-db-0 db-1+data-db-1"},
		"all of one are missing, and come in order":           {pods: []*corev1.Pod{db(0, ending)}, passed: 20 * time.Second, want: "(db-1+data-db-1) db-0+data-db-0"},
		"all of one are missing, and come side by side":       {pods: []*corev1.Pod{db(0, ending)}, change: parallel, passed: 16 * time.Second, want: "(db-0+data-db-0) db-1+data-db-1"},
		"one that leaves is beyond the scale of the set":      {pods: []*corev1.Pod{db(0), db(1), db(2, ending)}, want: "db-0+data-db-0 db-1+data-db-1"},
		"none of a StatefulSet is there, but its template is": {change: parallel, want: "db-0+data-db-0 db-1+data-db-1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := busyGroup()
			spec.Nodes, spec.Group.Instances, spec.Group.Desired, spec.Budgets, spec.Pods = spec.Nodes[:1], spec.Group.Instances[:1], 1, nil, c.pods
			set, stateful := scaled(2)
			if c.change != nil {
				c.change(set, stateful)
			}
			if spec.Workloads = nil; !c.unknown {
				sets, statefulSets := []*appsv1.ReplicaSet{set}, []*appsv1.StatefulSet{stateful}
				if strings.HasPrefix(c.want, "db") || strings.HasPrefix(c.want, "(db") {
					sets = nil
				} else {
					statefulSets = nil
				}
				spec.Workloads = WorkloadsOf(nil, sets, statefulSets)
			}
			if c.passed == 0 {
				c.passed = 2 * time.Minute
			}
			if got := podsAfter(spec, c.passed); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A node that joined just before the simulation begins gets its missing DaemonSet pods. On an older node, the
// simulation creates no missing DaemonSet pod.
func TestOnlyYoungNodeGetsItsMissingDaemonSetPods(t *testing.T) {
	for age, want := range map[time.Duration]int{time.Minute: 1, time.Hour: 0} {
		spec := busyGroup()
		spec.Nodes[5].CreationTimestamp = metav1.Time{Time: midnight.Add(-age)}
		spec.Pods = slices.DeleteFunc(spec.Pods, func(pod *corev1.Pod) bool { return pod.Name == "agent-5" })
		c := New(spec)
		for end := midnight.Add(time.Minute); c.clock.now.Before(end); {
			c.Advance(end)
		}
		agents := 0
		for _, pod := range c.index.nodes.byName["old-5"].pods {
			if metav1.GetControllerOf(pod).Kind == daemonSet {
				agents++
			}
		}
		if agents != want {
			t.Errorf("a node of %s has %d pods of the DaemonSet, want %d", age, agents, want)
		}
	}
}

// A StatefulSet that is being scaled down still has a pod that it will not create again.
func TestPodsBeyondScaleAreNotReplaced(t *testing.T) {
	spec := busyGroup()
	db := spec.Workloads["StatefulSet/db"]
	db.Replicas, db.Pods = 2, &PodSet{Kind: statefulSet, Namespace: build.Namespace, Name: "db", Count: 2}
	spec.Workloads["StatefulSet/db"] = db
	forecast, err := Predict(t.Context(), spec, underWayRequests()["one at a time"])
	if err != nil || forecast.Fast.Result != record.Succeeded {
		t.Errorf("it ends with %q (%s), error %v", forecast.Fast.Result, forecast.Fast.Why, err)
	}
}
