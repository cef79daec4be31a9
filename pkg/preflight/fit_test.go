package preflight_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestSuggestedStrategyFitsThePods(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	owned := func(kind string) func(*corev1.Pod) { return build.OwnedBy(kind, "web") }
	grace := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	running := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: now.Add(-d)} }
	}
	protected := func(p *corev1.Pod) { p.Annotations = map[string]string{drain.AnnotationSafeToEvict: "false"} }
	system := func(p *corev1.Pod) { p.Namespace = metav1.NamespaceSystem }
	once := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	cases := map[string]struct {
		pod               []func(*corev1.Pod)
		current, unserved bool
		want              record.Strategy
		says              string
	}{
		"G07 an hour is enough":                                      {pod: []func(*corev1.Pod){owned("ReplicaSet"), grace(3600)}, want: record.Surge, says: "within an hour"},
		"G07 more than an hour":                                      {pod: []func(*corev1.Pod){owned("ReplicaSet"), grace(7200)}, want: record.BlueGreen, says: "pod shop/web may take 120 min"},
		"a pod that does not move":                                   {pod: []func(*corev1.Pod){owned("DaemonSet"), grace(7200)}, want: record.Surge, says: "within an hour"},
		"a pod on a node that is current":                            {pod: []func(*corev1.Pod){owned("ReplicaSet"), grace(7200)}, current: true, want: record.Surge, says: "within an hour"},
		"G07 a job that has run for long":                            {pod: []func(*corev1.Pod){owned("Job"), running(61 * time.Minute)}, want: record.AutoscaledBlueGreen, says: "pod shop/web belongs to a job"},
		"G07 a job that is not to be disturbed":                      {pod: []func(*corev1.Pod){owned("Job"), protected}, want: record.AutoscaledBlueGreen, says: "nodes without work are removed early"},
		"G07 a job of another kind":                                  {pod: []func(*corev1.Pod){owned("PyTorchJob"), once, running(61 * time.Minute)}, want: record.AutoscaledBlueGreen, says: "pod shop/web belongs to a job"},
		"G07 a pod that is not to be disturbed":                      {pod: []func(*corev1.Pod){owned("ReplicaSet"), protected}, want: record.BlueGreen, says: "pod shop/web must not be disrupted (cluster-autoscaler.kubernetes.io/safe-to-evict=false)"},
		"G07 a job not to be disturbed, and nothing that adds nodes": {pod: []func(*corev1.Pod){owned("Job"), protected}, unserved: true, want: record.BlueGreen, says: "--batch=0"},
		"a pod of the cluster's own that is not to be disturbed":     {pod: []func(*corev1.Pod){owned("ReplicaSet"), protected, system}, want: record.Surge, says: "within an hour"},
		"G07 a Workflow":                                             {pod: []func(*corev1.Pod){owned("Workflow"), once, running(61 * time.Minute)}, want: record.AutoscaledBlueGreen, says: "pod shop/web belongs to a job"},
		"a job that has just begun":                                  {pod: []func(*corev1.Pod){owned("Job"), running(time.Hour)}, want: record.Surge, says: "within an hour"},
		"a long job, and nothing that adds nodes":                    {pod: []func(*corev1.Pod){owned("Job"), running(2 * time.Hour)}, unserved: true, want: record.Surge, says: "within an hour"},
		"a pod that is no job's and has run for long":                {pod: []func(*corev1.Pod){owned("ReplicaSet"), running(2 * time.Hour)}, want: record.Surge, says: "within an hour"},
		"G07 a long job on a node that is current now":               {pod: []func(*corev1.Pod){owned("Job"), running(2 * time.Hour)}, current: true, want: record.Surge, says: "within an hour"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			members := []nodegroup.Member{{Outdated: !c.current, Pods: []*corev1.Pod{build.Pod("web", c.pod...)}}}
			group := nodegroup.Group{Autoscaler: nodegroup.Autoscaler{Serves: !c.unserved}}
			got, why := preflight.FitStrategy(&group, members, drain.Policy{}, now)
			if got != c.want || !strings.Contains(why, c.says) {
				t.Errorf("got %s because %s, want %s because %q", got, why, c.want, c.says)
			}
		})
	}
}

// TestPlanNamesBetterStrategy checks that a plan names a better strategy if the requested one does not suit the pods. It
// names none if the group does not support the better one, or if the better one is surge.
func TestPlanNamesBetterStrategy(t *testing.T) {
	twoHours := int64(7200)
	slow := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &twoHours }
	protected := func(p *corev1.Pod) { p.Annotations = map[string]string{drain.AnnotationDoNotDisrupt: "true"} }
	ordinary := func(*corev1.Pod) {}
	job := build.OwnedBy("Job", "web")
	cases := map[string]struct {
		asked  record.Strategy
		pod    []func(*corev1.Pod)
		sized  bool
		served bool
		want   bool
	}{
		"G07 a surge of pods that take two hours":              {asked: record.Surge, pod: []func(*corev1.Pod){slow}, sized: true, want: true},
		"G07 a surge where nothing is said":                    {pod: []func(*corev1.Pod){slow}, sized: true, want: true},
		"the strategy that fits":                               {asked: record.BlueGreen, pod: []func(*corev1.Pod){slow}, sized: true},
		"a group to which no node can be added":                {asked: record.Surge, pod: []func(*corev1.Pod){slow}},
		"a group that its own cloud upgrades":                  {asked: record.Delegated, pod: []func(*corev1.Pod){slow}, sized: true},
		"G75 autoscaled has longer than blue-green":            {asked: record.AutoscaledBlueGreen, pod: []func(*corev1.Pod){slow}, sized: true, served: true},
		"G07 a surge of pods that are not to be disturbed":     {asked: record.Surge, pod: []func(*corev1.Pod){protected}, sized: true, want: true},
		"G07 blue-green for pods that are not to be disturbed": {asked: record.BlueGreen, pod: []func(*corev1.Pod){protected}, sized: true},
		"G72 autoscaled for pods that are not to be disturbed": {asked: record.AutoscaledBlueGreen, pod: []func(*corev1.Pod){protected}, sized: true, served: true},
		"blue-green of jobs where an autoscaler serves":        {asked: record.BlueGreen, pod: []func(*corev1.Pod){job, protected}, sized: true, served: true, want: true},
		"blue-green for a quick rollback":                      {asked: record.BlueGreen, pod: []func(*corev1.Pod){ordinary}, sized: true},
		"autoscaled for ordinary pods":                         {asked: record.AutoscaledBlueGreen, pod: []func(*corev1.Pod){ordinary}, sized: true, served: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := upgrade.World{
				Request: record.Request{Strategy: c.asked},
				Group:   nodegroup.Group{Name: "workers", Can: map[bool]nodegroup.Capabilities{true: nodegroup.FullControl()}[c.sized], Autoscaler: nodegroup.Autoscaler{Serves: c.served}},
				Members: []nodegroup.Member{{Outdated: true, Pods: []*corev1.Pod{build.Pod("web", c.pod...)}}},
			}
			found := preflight.CheckUpgrade(&w, preflight.Facts{})
			if got := slices.ContainsFunc(found, func(f preflight.Finding) bool { return f.Rule == "NG005" }); got != c.want {
				t.Errorf("a note on the strategy: %t, want %t: %v", got, c.want, found)
			}
		})
	}
}
