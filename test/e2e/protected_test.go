package e2e

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// testDoNotDisruptAnnotation has a pod with an annotation that forbids autoscalers to disrupt it. The plan must name the pod. With
// --respect-do-not-disrupt the upgrade must wait until the annotation is removed (POD008).
func testDoNotDisruptAnnotation(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "undisrupted", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	const pod = "db-0"
	annotatePod(t, s, pod, drain.AnnotationSafeToEvict+"=false")
	if plan := runKubectl(t, s.Fixture, "nodeupgrade", s.group, "--dry-run"); plan.Code != 0 || !strings.Contains(plan.Stdout, "safe-to-evict=false") {
		t.Errorf("the plan ended with %d and does not name the pod: %s%s", plan.Code, plan.Stdout, plan.Stderr)
	}
	if plan := runKubectl(t, s.Fixture, "nodeupgrade", s.group, "--dry-run", "--respect-do-not-disrupt"); plan.Code != 3 || !strings.Contains(plan.Stdout, "(do-not-disrupt)") {
		t.Errorf("the plan that respects it ended with %d: %s%s", plan.Code, plan.Stdout, plan.Stderr)
	}

	c := s.start("--respect-do-not-disrupt")
	awaitDrainBlockedBy(pod)(s, c)
	annotatePod(t, s, pod, drain.AnnotationSafeToEvict+"-")
	c.awaitExit(0)
	s.checkUpgraded()
}

// annotatePod changes an annotation of a pod, as kubectl annotate takes it.
func annotatePod(t *testing.T, s *testCase, pod, change string) {
	t.Helper()
	if r := runKubectl(t, s.Fixture, "annotate", "pod", "-n", s.group, pod, change); r.Code != 0 {
		t.Fatalf("annotating pod %s: %s", pod, r.Stderr)
	}
}
