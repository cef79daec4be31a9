package simulate_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// groupWithoutCloud returns two outdated nodes without a cloud, and a request that waits for their replacements.
func groupWithoutCloud() (simulate.Spec, record.Request) {
	spec, req := twoNodes(), request()
	revision := nodegroup.Revision{ID: "image=v2", Name: "image=v2"}
	spec.Group = nodegroup.Group{Name: "workers", Provider: "manual", Wanted: revision, Pointed: revision}
	spec.Outdated = func(*corev1.Node) bool { return true }
	req.Surge, req.WaitReplacement = 0, true
	return spec, req
}

// TestSimulationDetectsEndlessWait: nobody adds replacements in the simulation. The simulation detects that after a limited number of
// steps and reports what it waits for.
func TestSimulationDetectsEndlessWait(t *testing.T) {
	spec, req := groupWithoutCloud()
	steps := 0
	_, err := simulate.New(spec).Run(t.Context(), req, func(upgrade.World, upgrade.Step) { steps++ })
	endless, ok := errors.AsType[*simulate.EndlessError](err)
	if !ok || endless.Waiting != "1 new node that you add" || steps > 11_000 {
		t.Errorf("after %d steps: %v", steps, err)
	}
}

// TestForecastReplacesDrainedNodes: in a group without a cloud and without current nodes, a forecast replaces each drained node at
// once. If the group has current nodes, the forecast assumes that no more are added.
func TestForecastReplacesDrainedNodes(t *testing.T) {
	for _, current := range []bool{false, true} {
		spec, req := groupWithoutCloud()
		pod := build.Pod("web-0", build.On("old-a-1"))
		for _, n := range spec.Nodes {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		}
		spec.Pods = []*corev1.Pod{pod, build.Pod("web-1", build.On("cur-b-1"))}
		spec.Outdated = func(n *corev1.Node) bool { return n.Name == "old-a-1" || n.Name == "cur-b-1" && !current }
		req.Current = map[string]string{"image": "v2"}
		f, err := simulate.Predict(t.Context(), spec, req)
		if err != nil {
			t.Fatal(err)
		}
		want := record.Succeeded
		if current {
			want = record.WorkloadUnhealthy // no node has room for the pod
		}
		if f.Slow.Result != want || f.Refilled == current {
			t.Errorf("with a current node %t: it ends %+v, nodes are brought %t", current, f.Slow, f.Refilled)
		}
	}
}
