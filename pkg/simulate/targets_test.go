package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
)

// behind adds targets to a target group with this delay.
func behind(delay time.Duration, bound bool, ids ...string) func(*simulate.Spec) {
	return func(spec *simulate.Spec) {
		group := nodegroup.TargetGroup{ID: "arn:web", Name: "web", Delay: delay, Bound: bound}
		spec.Targets.Groups = []nodegroup.TargetGroup{group}
		for _, id := range ids {
			spec.Targets.List = append(spec.Targets.List, nodegroup.Target{Group: group, ID: id})
		}
	}
}

// In a forecast, an empty node waits until load balancers have drained its targets and those of its pods (L22).
func TestForecastWaitsForLoadBalancers(t *testing.T) {
	cases := map[string]struct {
		change func(*simulate.Spec)
		want   string
	}{
		"none":                        {func(*simulate.Spec) {}, "old-0 start 2m0s-2m0s end 3m31s-4m0s"},
		"drained before it settles":   {behind(30*time.Second, true, "i-old-0"), "old-0 start 2m0s-2m0s end 3m31s-4m0s"},
		"drained later":               {behind(5*time.Minute, true, "i-old-0"), "old-0 start 2m0s-2m0s end 7m30s-7m31s"},
		"of another node":             {behind(5*time.Minute, true, "i-old-9"), "old-0 start 2m0s-2m0s end 3m31s-4m0s"},
		"taken out by Auto Scaling":   {behind(5*time.Minute, false, "i-old-0"), "old-0 start 2m0s-2m0s end 3m31s-4m0s"},
		"of a pod, from when it ends": {behind(5*time.Minute, true, "10.0.0.7"), "old-0 start 2m0s-2m0s end 7m30s-7m31s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec, one := shop(), request()
			one.Surge = 1
			allow(&spec, 1)
			for _, pod := range spec.Pods {
				if pod.Name == "web-0" {
					pod.Status.PodIP = "10.0.0.7"
				}
			}
			c.change(&spec)
			if got := predict(t, spec, one); !strings.Contains(got, c.want) {
				t.Errorf("got\n%swant %s", got, c.want)
			}
		})
	}
}
