package simulate_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// byHand are two outdated nodes that no cloud knows, and what asks for replacements of them.
func byHand() (simulate.Spec, upgrade.Request) {
	spec, req := twoNodes(), request()
	revision := nodegroup.Revision{ID: "image=v2", Name: "image=v2"}
	spec.Group = nodegroup.Group{Name: "workers", Provider: "manual", Wanted: revision, Pointed: revision}
	spec.Outdated = func(*corev1.Node) bool { return true }
	req.Surge, req.WaitReplacement = 0, true
	return spec, req
}

// TestEndlessWait: nobody brings replacements up in virtual time. That is found out with a bounded number of steps, and named.
func TestEndlessWait(t *testing.T) {
	spec, req := byHand()
	steps := 0
	_, err := simulate.New(spec).Run(t.Context(), req, func(upgrade.World, upgrade.Step) { steps++ })
	endless, ok := errors.AsType[*simulate.EndlessError](err)
	if !ok || endless.Waiting != "a replacement to be ready" || steps > 11_000 {
		t.Errorf("after %d steps: %v", steps, err)
	}
}
