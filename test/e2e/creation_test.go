package e2e

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// testDryRunFindsRefusedPods checks that --dry-run=server reports what would prevent new pods: a PodSecurity level that was enforced
// after the pods were created, and a quota below the present use. A quota that is exactly used up is no problem, because each old
// pod ends before its replacement is created. The dry run creates no pod.
func testDryRunFindsRefusedPods(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "refused"})
	s.addNode("refused-old", "v1")
	s.waitForNodes(1)
	s.deploy(fixture.Workload{Name: "web", Replicas: 2, MaxUnavailable: "1"})
	s.settle()
	s.addNode("refused-new", "v2")
	s.waitForNodes(2)
	s.startObserving()
	const asked = "Probe       new pod of Deployment refused/web: "
	s.awaitProbe(0, asked+"may be created now")

	level := "pod-security.kubernetes.io/enforce"
	s.kubectl("label", "namespace", s.Namespace, level+"=restricted")
	s.awaitProbe(3, asked+"refused: ", `violates PodSecurity "restricted:latest"`, level)
	s.kubectl("label", "namespace", s.Namespace, level+"-")
	s.awaitProbe(0, asked+"may be created now")

	s.kubectl("create", "quota", "few", "-n", s.Namespace, "--hard=pods=2")
	s.awaitProbe(0, asked+"may be created after an old one has ended: ", "exceeded quota: few")
	s.kubectl("patch", "quota", "few", "-n", s.Namespace, "--type=merge", "-p", `{"spec":{"hard":{"pods":"1"}}}`)
	s.awaitProbe(3, asked+"refused: ", "raise ResourceQuota few")
	if pods := s.pods(); len(pods) != 2 {
		t.Errorf("there are %d pods, want 2 as before", len(pods))
	}
}

// awaitProbe waits until the plan with --dry-run=server has the exit code and contains the texts. It waits because admission
// applies changes with a short delay.
func (s *testCase) awaitProbe(code int, says ...string) {
	s.t.Helper()
	var plan fixture.Result
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the plan ended with %d: %s%s", plan.Code, plan.Stdout, plan.Stderr)
		}
	})
	s.waitFor("the plan to say "+strings.Join(says, " and "), func() bool {
		plan = runKubectl(s.t, s.Fixture, "nodeupgrade", "-l", "pool="+s.group, "--current", "image=v2", "--dry-run=server")
		for _, text := range says {
			if !strings.Contains(plan.Stdout, text) {
				return false
			}
		}
		return plan.Code == code
	})
}
