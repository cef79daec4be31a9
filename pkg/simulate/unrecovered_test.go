package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// An upgrade succeeds although a workload that it ignores loses ready pods. The forecast says which one, as the status after
// the upgrade does. A workload that only becomes ready late has lost none.
func TestForecastListsIgnoredWorkloadsThatLosePods(t *testing.T) {
	const web = "shop/ReplicaSet/web"
	cases := map[string]struct {
		ignored []string
		// ready is how long new pods of web take; negative for ever.
		ready   time.Duration
		refused string
		result  record.Result
		want    []simulate.Unrecovered
	}{
		"its new pods are refused":           {ignored: []string{web}, refused: "exceeded quota", result: record.Succeeded, want: []simulate.Unrecovered{{Workload: web, Ready: 0, Before: 3, Why: "exceeded quota"}}},
		"its new pods never become ready":    {ignored: []string{record.AllWorkloads}, ready: -1, result: record.Succeeded, want: []simulate.Unrecovered{{Workload: web, Ready: 0, Before: 3}}},
		"its new pods take half an hour":     {ignored: []string{web}, ready: 30 * time.Minute, result: record.Succeeded},
		"another workload is ignored":        {ignored: []string{"shop/ReplicaSet/cache"}, ready: -1, result: record.WorkloadUnhealthy},
		"its new pods become ready as usual": {ignored: []string{web}, ready: 20 * time.Second, result: record.Succeeded},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := shop()
			spec.Times.ReadyOf = func(pod *corev1.Pod) time.Duration {
				if pod.Labels["app"] == "web" {
					return c.ready
				}
				return 5 * time.Second
			}
			spec.Refused = func(pod *corev1.Pod, _ bool) string {
				if pod.Labels["app"] == "web" {
					return c.refused
				}
				return ""
			}
			spec.Times, _ = simulate.Estimate(&spec)
			req := request()
			req.IgnoreUnready = c.ignored
			f, err := simulate.Predict(t.Context(), spec, req)
			if err != nil {
				t.Fatal(err)
			}
			if f.Slow.Result != c.result || !slices.Equal(f.Unrecovered, c.want) {
				t.Errorf("it ends %+v, with %+v", f.Slow, f.Unrecovered)
			}
		})
	}
}

// The last ready pod of an ignored workload behind a Service waits for twice the time that its pods usually take, so it does
// not leave while others start as fast as usual.
func TestLastReadyPodOfIgnoredWorkloadWaitsForItsUsualTime(t *testing.T) {
	spec := shop()
	spec.Facts = drain.Webhooks{}.FactsOf([]*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}})
	for i, pod := range spec.Pods {
		if pod.Labels["app"] == "web" {
			spec.Pods[i] = pod.DeepCopy()
			started(start.Add(-time.Hour), 6*time.Minute)(spec.Pods[i])
		}
	}
	spec.Times, _ = simulate.Estimate(&spec)
	req := request()
	req.IgnoreUnready = []string{"shop/ReplicaSet/web"}
	f, err := simulate.Predict(t.Context(), spec, req)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(f.Fast.Result, " with an outage of ", f.Outage), "succeeded with an outage of 0s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
