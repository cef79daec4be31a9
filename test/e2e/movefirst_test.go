package e2e

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// testOnlyPodIsMovedFirst has a budget for the only pod of a Deployment. The upgrade must be refused and must name --move=surge. With
// this flag the pod must move without an eviction, and its budget must never be broken (L23, PDB009).
func testOnlyPodIsMovedFirst(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "only"})
	s.addNode("only-old", "v1")
	s.waitForNodes(1)
	s.deploy(fixture.Workload{Name: "solo", Replicas: 1, MinAvailable: "1"}, fixture.Workload{Name: "web", Replicas: 2, MinAvailable: "1"})
	s.settle()
	s.addNode("only-new", "v2")
	s.waitForNodes(2)
	s.startObserving()
	labelled := []string{"nodeupgrade", "-l", "pool=" + s.group, "--current", "image=v2", "--wait-replacement=false", "--parallel-groups", "--settle=0s"}
	for _, how := range []string{"--dry-run", "--yes"} {
		if refused := runKubectl(t, s.Fixture, append(labelled, how)...); refused.Code != 3 || !strings.Contains(refused.Stdout+refused.Stderr, "--move=surge") {
			t.Errorf("%s ended with %d and does not offer to move the pod: %s%s", how, refused.Code, refused.Stdout, refused.Stderr)
		}
	}
	for _, how := range [][]string{{"--dry-run"}, {"--dry-run", "--forecast=false"}} {
		if plan := runKubectl(t, s.Fixture, append(append(labelled, "--move=surge"), how...)...); plan.Code != 0 || strings.Contains(plan.Stdout, "PDB009") {
			t.Errorf("%v with --move=surge ended with %d: %s%s", how, plan.Code, plan.Stdout, plan.Stderr)
		}
	}
	s.startLabelled("--wait-replacement=false", "--move=surge").awaitExit(0)
	maps.DeleteFunc(s.before.movingPods, func(_ types.UID, pod string) bool { return strings.HasPrefix(pod, "solo-") }) // this pod was not evicted
	s.checkManualUpgrade(1)
}
