package simulate_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// While no pod of a webhook's Service is ready, the API server refuses what the webhook is called for. Pods that were refused
// are created when it answers again.
func TestForecastFollowsWebhooksThatDoNotAnswer(t *testing.T) {
	hookPod := func(name, node string, with ...func(*corev1.Pod)) *corev1.Pod {
		return build.Pod(name, append([]func(*corev1.Pod){build.App("hook"), build.On(node), requests("100m", "100Mi"), started(start.Add(-time.Hour), 20*time.Second)}, with...)...)
	}
	isOfHook := func(pod *corev1.Pod) bool { return pod.Labels["app"] == "hook" }
	isOfOthers := func(pod *corev1.Pod) bool { return !isOfHook(pod) }
	all, none := func(*corev1.Pod) bool { return true }, func(*corev1.Pod) bool { return false }
	starting := func(pod *corev1.Pod) {
		build.Unready(pod)
		pod.Status.StartTime.Time = start
	}
	cases := map[string]struct {
		pods            []*corev1.Pod
		creates, evicts func(*corev1.Pod) bool
		fast, slow      record.Result
		why             string
		evictions       int
	}{
		"it has no pod, and admits evictions": {
			creates: none, evicts: isOfOthers, fast: record.PodEvictionFailure, slow: record.PodEvictionFailure,
			why: `failed calling webhook "pods.example.com": no pod of its Service is ready`, evictions: 0,
		},
		"it has no pod, and admits pods": {
			creates: isOfOthers, evicts: none, fast: record.WorkloadUnhealthy, slow: record.WorkloadUnhealthy,
			why: `1 pod is not created: failed calling webhook "pods.example.com": no pod of its Service is ready`, evictions: 2,
		},
		"it admits nothing that the upgrade does": {creates: isOfHook, evicts: isOfHook, fast: record.Succeeded, slow: record.Succeeded, evictions: 6},
		"its pod is starting":                     {pods: []*corev1.Pod{hookPod("hook-0", "old-1", starting)}, creates: isOfOthers, evicts: isOfOthers, fast: record.Succeeded, slow: record.Succeeded, evictions: 7},
		"its only pod moves, and it admits others": {
			pods: []*corev1.Pod{hookPod("hook-0", "old-0")}, creates: isOfOthers, evicts: isOfOthers, fast: record.Succeeded, slow: record.Succeeded, evictions: 7,
		},
		"its only pod moves, and it admits its own": { // the old pod may answer until it has ended
			pods: []*corev1.Pod{hookPod("hook-0", "old-0")}, creates: all, evicts: none, fast: record.Succeeded, slow: record.WorkloadUnhealthy,
			why: `shop/ReplicaSet/hook (0 of 1 ready): 1 pod is not created: failed calling webhook`, evictions: 7,
		},
		"its two pods move one after the other": {
			pods: []*corev1.Pod{hookPod("hook-0", "old-0"), hookPod("hook-1", "old-1")}, creates: all, evicts: all, fast: record.Succeeded, slow: record.Succeeded, evictions: 8,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := shop()
			spec.Pods = append(spec.Pods, c.pods...)
			spec.Webhooks = []simulate.Webhook{{Name: "pods.example.com", Serves: isOfHook, AdmitsPod: c.creates, AdmitsEviction: c.evicts}}
			spec.Times, _ = simulate.Estimate(&spec)
			f, err := simulate.Predict(t.Context(), spec, request())
			if err != nil {
				t.Fatal(err)
			}
			if f.Fast.Result != c.fast || f.Slow.Result != c.slow || !strings.Contains(f.Slow.Why, c.why) || f.Evictions != c.evictions {
				t.Errorf("it ends %+v after %d evictions, in the slow case %+v", f.Fast, f.Evictions, f.Slow)
			}
			if f.Fast.Result == record.Succeeded && f.Outage > 10*time.Minute {
				t.Errorf("workloads are out for %s: refused pods are not created later", f.Outage)
			}
		})
	}
}
