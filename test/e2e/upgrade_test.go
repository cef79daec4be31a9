package e2e

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// rebalance is the process that is suspended during an upgrade.
const rebalance = "AZRebalance"

func TestUpgradesEndAsExpectedWithoutCloudFaults(t *testing.T) {
	t.Parallel()
	shared := fixture.ForTest(t, quickOptions()) // not commonFixture, because checkRefusedEvictions counts all evictions of the fixture
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"three nodes in three zones":                        testThreeNodes,
		"one outdated node of four":                         testOneOutdatedNodeOfFour,
		"a suspended process is resumed":                    testSuspendedProcessIsResumed,
		"mixed instances":                                   testMixedInstances,
		"to a template version":                             testToVersion,
		"to an image":                                       testToImage,
		"a node that cannot be drained: skip":               testSkipBlockedNode,
		"a node that cannot be drained: fail":               testFailAtBlockedNode,
		"a node that cannot be drained: force":              testForceBlockedNode,
		"a drain timeout without a process":                 testResumeAfterDrainTimeout,
		"a node without its label":                          testNodeWithoutLabelIsReplaced,
		"new nodes lack the label":                          testNewNodesLackLabel,
		"an abort without --current":                        testAbortWithoutCurrentFlag,
		"a zone without capacity":                           testZoneWithoutCapacity,
		"needed pods move last":                             testNeededPodsMoveLast,
		"nodes added by hand":                               testNodesAddedByHand,
		"nodes added in advance":                            testNodesAddedInAdvance,
		"nodes renewed in place":                            testNodesRenewedInPlace,
		"nodes renewed after the upgrade":                   testNodesRenewedAfterEnd,
		"a node added with a start-up taint":                testNodeAddedWithStartupTaint,
		"an only pod is moved first":                        testOnlyPodIsMovedFirst,
		"a dry run finds refused pods":                      testDryRunFindsRefusedPods,
		"a takeover":                                        testTakeover,
		"the group is current after the wait for the lease": testGroupIsCurrentOnceLeaseIsFree,
		"the lease's holder is alive":                       testExitIfLeaseIsRenewed,
		"resume with other settings":                        testResumeWithOtherSettings,
		"resume with fewer flags":                           testResumeWithFewerFlags,
		"the target moves":                                  testTargetMoves,
		"a do-not-disrupt annotation":                       testDoNotDisruptAnnotation,
		"two groups together":                               testTwoGroupsTogether,
		"a user lowers the maximum":                         testUserLowersMax,
		"a user protects instances":                         testUserProtectsInstances,
		"like GKE, zone by zone":                            testZoneByZone,
	}
	for name, i := range interruptions() {
		cases["interrupted: "+name] = func(t *testing.T, shared *fixture.Fixture) { i.run(t, shared, name) }
	}
	t.Run("case", func(t *testing.T) {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				skipUnlessSampled(t)
				t.Parallel()
				test(t, shared)
			})
		}
	})
	checkRefusedEvictions(t, shared, slices.Sorted(maps.Keys(cases)))
}

// checkRefusedEvictions checks that budgets refused at most one in fifty evictions, counted over all cases of the fixture.
func checkRefusedEvictions(t *testing.T, shared *fixture.Fixture, cases []string) {
	t.Helper()
	everywhere := *shared
	everywhere.Namespace = ""
	found, err := everywhere.Evictions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Calls == 0 || found.Refused*50 > found.Calls {
		t.Errorf("%d of %d evictions were refused, in %d cases", found.Refused, found.Calls, len(cases))
	}
}

func testThreeNodes(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "three", Zones: []string{zoneA, zoneB, zoneC}, Counts: []int{1, 1, 1}, Suspended: []string{rebalance}})
	file := filepath.Join(t.TempDir(), "three.html")
	c := s.runUpgrade(0, "--output=json", "--report="+file)
	s.checkUpgraded()
	checkReport(t, file, c)
	if changed := s.groupRequests("SuspendProcesses", "ResumeProcesses"); len(changed) > 0 {
		t.Errorf("a process that was suspended before the upgrade was changed: %v", changed)
	}
}

func testOneOutdatedNodeOfFour(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "one", Zones: []string{zoneA, zoneB}, Counts: []int{1}, Max: 4, Suspended: []string{rebalance}})
	if err := s.Cloud.SetDesired(s.group, 4); err != nil { // the three additional nodes are current
		t.Fatal(err)
	}
	s.waitForNodes(4)
	s.addDefaultWorkloads()
	s.startObserving()
	if len(s.before.movingPods) == 0 {
		t.Fatal("no pod is on the outdated node")
	}
	s.surge = 1 // never more than the number of outdated nodes
	s.runUpgrade(0)
	s.checkUpgraded()
}

func testSuspendedProcessIsResumed(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "rebalanced", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	s.runUpgrade(0)
	s.checkUpgraded()
	if changed := s.groupRequests("SuspendProcesses", "ResumeProcesses"); !slices.Equal(changed, []string{"SuspendProcesses", "ResumeProcesses"}) {
		t.Errorf("processes were changed by %v, want one suspension and one resumption", changed)
	}
}

// testMixedInstances has a group with On-Demand and Spot instances, for which LaunchInstances is impossible. The upgrade must raise
// the size of the whole group instead.
func testMixedInstances(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{
		Name: "mixed", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance},
		More: func(spec *awscloud.GroupSpec) {
			spec.Mixed = &at.MixedInstancesPolicy{
				LaunchTemplate: &at.LaunchTemplate{
					LaunchTemplateSpecification: &at.LaunchTemplateSpecification{LaunchTemplateId: aws.String(spec.Template.ID), Version: aws.String(spec.Template.Version)},
				},
				InstancesDistribution: &at.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(1), OnDemandPercentageAboveBaseCapacity: aws.Int32(50)},
			}
			spec.Template = awscloud.TemplateRef{}
		},
	})
	s.runUpgrade(0)
	s.checkUpgraded()
	if launched := s.groupRequests("LaunchInstances"); len(launched) > 0 {
		t.Errorf("%d instances were launched in a zone, which is impossible for this group", len(launched))
	}
}

func testToVersion(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "pinned", Zones: []string{zoneA}, Counts: []int{1}, Version: "1", Suspended: []string{rebalance}})
	s.runUpgrade(0, "--to=2")
	s.checkUpgraded()
}

func testToImage(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "image", Zones: []string{zoneA}, Counts: []int{1}, Version: "1", Suspended: []string{rebalance}})
	s.runUpgrade(0, "--to="+fixture.NewImage)
	s.checkUpgraded()
	made := 0
	for _, r := range s.Cloud.Requests() {
		if r.Operation == "CreateLaunchTemplateVersion" { // no other case creates a version
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d template versions were created, want 1", made)
	}
}

// stubbornWorkload returns a workload with a budget that allows no eviction. The scheduler chooses its node.
func stubbornWorkload() fixture.Workload {
	return fixture.Workload{Name: "stubborn", Replicas: 1, MaxUnavailable: "0"}
}

// ampleDrainTimeout is much longer than the drain of an unblocked node, even on a slow machine.
const ampleDrainTimeout = "--drain-timeout=20s"

func testSkipBlockedNode(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "skip", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubbornWorkload())
	stuck := s.nodeOf("stubborn")
	s.addUserMarks(stuck)
	c := s.runUpgrade(4, "--on-timeout=skip", ampleDrainTimeout)
	if text := c.out.String(); !strings.Contains(text, stuck) || !strings.Contains(text, "stubborn") {
		t.Errorf("stdout names neither the node %s nor its pod:\n%s", stuck, text)
	}
	s.checkUserMarks(stuck)
	after := s.takeSnapshot()
	if after.ready["stubborn"] != 1 {
		t.Errorf("workloads ready %v: the pod with the blocking budget is not ready", after.ready)
	}
	for _, node := range s.nodes() {
		if node.Name != stuck && !s.isCurrent(&node, after.group) {
			t.Errorf("node %s is not current", node.Name)
		}
	}
	s.checkBudgetsKept()
}

func testFailAtBlockedNode(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "fail", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubbornWorkload())
	stuck := s.nodeOf("stubborn")
	if plan := document[report.Plan](t, s.Fixture, 3, "nodeupgrade", s.group, "--dry-run"); len(plan.Findings) == 0 {
		t.Errorf("the plan finds nothing: %+v", plan)
	}
	c := s.runUpgrade(1, ampleDrainTimeout)
	if found := s.status(); found.Result != "pod-eviction-failure" {
		t.Errorf("the status is %+v", found)
	}
	errorLine := c.errorLine()
	for _, part := range []string{
		"PodEvictionFailure", `draining node "` + stuck + `"`, "pod fail/stubborn-", "PDB fail/stubborn", "needs 1 healthy, has 1", "--on-timeout=force", " to continue",
	} {
		if !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	for _, node := range s.nodes() {
		if node.Name != stuck {
			s.checkNoMarks(&node)
		}
	}
	s.deleteBudget("stubborn")
	s.runUpgrade(0, ampleDrainTimeout)
	s.checkUpgraded()
}

func testForceBlockedNode(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "force", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubbornWorkload())
	for uid, name := range s.before.movingPods {
		if strings.HasPrefix(name, "stubborn-") {
			delete(s.before.movingPods, uid) // it is deleted instead of evicted
		}
	}
	s.runUpgrade(0, "--on-timeout=force", ampleDrainTimeout)
	if deleted := s.deletedPods(); len(deleted) != 1 || !strings.HasPrefix(deleted[0], "stubborn-") {
		t.Errorf("deleted %v, want only the pod with the blocking budget", deleted)
	}
	s.mayBreak = true // force deletes pods against their budgets
	s.checkUpgraded()
}

// testZoneWithoutCapacity has a zone in which the cloud cannot launch instances. The upgrade must fail and change nothing.
func testZoneWithoutCapacity(t *testing.T, shared *fixture.Fixture) {
	shared.Cloud.LimitCapacity(zoneF, 0)
	s := openCase(t, shared, fixture.Group{Name: "scarce", Zones: []string{zoneA, zoneF}, Counts: []int{1, 1}})
	c := s.runUpgrade(1, "--boot-timeout=5s")
	errorLine := c.errorLine()
	for _, part := range []string{"NodeCreationFailure", "InsufficientInstanceCapacity", zoneF, "allow more instance types or zones", " to continue"} {
		if !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.settle()
	s.checkSizeHistory()
	s.checkUnchanged()
}

// addUserMarks adds a taint, a label, an annotation and a cordon to a node, as a user might.
func (s *testCase) addUserMarks(name string) {
	s.t.Helper()
	s.changeNode(name, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "team", Value: "blue", Effect: corev1.TaintEffectNoSchedule})
		node.Labels["rack"], node.Annotations["note"] = "r7", "ask ann"
		node.Spec.Unschedulable = true
	})
}

// checkUserMarks checks that the marks of addUserMarks are still on the node.
func (s *testCase) checkUserMarks(name string) {
	s.t.Helper()
	for _, node := range s.nodes() {
		if node.Name != name {
			continue
		}
		tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "team" && taint.Value == "blue" })
		if !tainted || !node.Spec.Unschedulable || node.Labels["rack"] != "r7" || node.Annotations["note"] != "ask ann" {
			s.t.Errorf("node %s has lost marks of a user: %+v", name, marksOf(&node))
		}
		return
	}
	s.t.Errorf("node %s is gone", name)
}
