package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func setGPUs(node *corev1.Node, count string) {
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)}
}

func offersGPU(node *corev1.Node) { setGPUs(node, "1") }

func requestsGPU(pod *corev1.Pod) {
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}}
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

// A new node that is Ready but takes no pods is no replacement: no further node is drained for it, and the upgrade says
// what keeps pods from it.
func TestNewNodeThatTakesNoPodsDoesNotCountAsReplacement(t *testing.T) {
	tolerating := build.Tolerating(corev1.Toleration{Key: "example.com/agent", Operator: corev1.TolerationOpExists})
	const taint = "node new-a-1 has taint example.com/agent:NoSchedule, which the outdated nodes did not have and pod "
	const missing = "node new-a-1 does not offer nvidia.com/gpu, which the outdated nodes offered and pod "
	cases := map[string]struct {
		old, fresh func(*corev1.Node)
		pod        func(*corev1.Pod)
		want       string // "" for a node that counts
	}{
		"open":                             {nil, nil, nil, ""},
		"cordoned":                         {nil, cordoned, nil, "node new-a-1 is cordoned: run kubectl uncordon new-a-1"},
		"with a start-up taint":            {nil, build.Tainted("example.com/agent"), nil, taint},
		"with a taint that pods bear":      {nil, build.Tainted("example.com/agent"), tolerating, ""},
		"with the taint of all old":        {build.Tainted("example.com/agent"), build.Tainted("example.com/agent"), nil, ""},
		"with the GPU of all old":          {offersGPU, offersGPU, requestsGPU, ""},
		"without a GPU that pods request":  {offersGPU, nil, requestsGPU, missing},
		"with a GPU whose plugin has gone": {offersGPU, func(node *corev1.Node) { setGPUs(node, "0") }, requestsGPU, missing},
		"without a GPU that no pod uses":   {offersGPU, nil, nil, ""},
		"without a GPU that one old lacks": {func(node *corev1.Node) {
			if node.Name != "old-a-2" {
				offersGPU(node)
			}
		}, nil, requestsGPU, ""},
		"with a taint that only prefers": {nil, func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "example.com/agent", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, nil, ""},
	}
	for name, c := range cases {
		for _, provider := range []string{"manual", "aws"} {
			t.Run(name+" with "+provider, func(t *testing.T) {
				s := newManualScene(t, "old-a-1", "old-a-2", "old-a-3")
				if provider == "aws" {
					s = newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"))
					s.Request.Settle = duration(0)
				}
				for i := range s.Members {
					pod := build.Pod("web-"+s.Members[i].Name(), build.On(s.Members[i].Name()))
					if c.pod != nil {
						c.pod(pod)
					}
					if s.Members[i].Pods = []*corev1.Pod{pod}; c.old != nil {
						c.old(s.Members[i].Node)
					}
				}
				s.do(s.next().Actions...)
				s.do(s.next().Actions...)
				first := started(s.Record)
				s.empty(first)
				s.rest()
				s.replaceNode(first, provider, c.fresh)
				step := s.rest()
				if begun := strings.Contains(strings.TrimPrefix(started(step.Record), first), "old-"); begun != (c.want == "") {
					t.Errorf("a further node is started: %t; it waits for %q", begun, step.Status.Waiting)
				}
				if !strings.Contains(step.Status.Waiting, c.want) {
					t.Errorf("it waits for %q, want %q in it", step.Status.Waiting, c.want)
				}
				if provider == "manual" || c.want == "" {
					return
				}
				s.pass(time.Hour)
				if step = s.next(); step.Record.Stopping != record.NodeCreationFailure || !strings.Contains(step.Record.Message, c.want) {
					t.Errorf("after an hour it stops with %q: %s", step.Record.Stopping, step.Record.Message)
				}
			})
		}
	}
}

// replaceNode removes the machine of a drained node and adds another node.
func (s *scene) replaceNode(name, provider string, change func(*corev1.Node)) {
	s.pass(time.Minute)
	fresh := current("new-a-1")
	if provider == "manual" {
		fresh.Instance = nodegroup.Instance{}
	}
	if change != nil {
		change(fresh.Node)
	}
	s.remove(name)
	s.add(fresh)
}

// The surge is not usable while one of its nodes takes no pods.
func TestScaleUpWaitsForCordonedNewNode(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Request.Surge = 1
	s.do(s.next().Actions...)
	s.do(s.next().Actions...)
	fresh := current("new-a-1")
	cordoned(fresh.Node)
	s.add(fresh)
	s.pass(time.Minute)
	step := s.rest()
	if step.Record.Phase != record.PhaseScaleUp || !strings.Contains(step.Status.Waiting, "new-a-1 is cordoned") {
		t.Errorf("in phase %q it waits for %q", step.Record.Phase, step.Status.Waiting)
	}
	s.mark("new-a-1", func(node *corev1.Node) { node.Spec.Unschedulable = false })
	if step = s.rest(); step.Record.Phase != record.PhaseUpgrade {
		t.Errorf("in phase %q it waits for %q", step.Record.Phase, step.Status.Waiting)
	}
}
