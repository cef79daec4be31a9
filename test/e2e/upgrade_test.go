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

// TestUpgrade runs the cases in which the cloud works without faults.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	shared := fixture.ForTest(t, quick()) // not the common one, because checkRefusals counts all its evictions
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"three nodes in three zones":           threeNodes,
		"one outdated node of four":            oneOfFour,
		"a process that was not suspended":     ownSuspension,
		"a group that cannot launch in zone":   mixedInstances,
		"to a template version":                toVersion,
		"to an image":                          toImage,
		"a node that cannot be drained: skip":  skipNode,
		"a node that cannot be drained: fail":  failNode,
		"a node that cannot be drained: force": forceNode,
		"a limit while nobody is at work":      resumeLate,
		"a current machine without its label":  relabelled,
		"labels that no new node has":          unlabelled,
		"an abort of one with --current":       abortLabelled,
		"a zone without capacity":              noCapacity,
		"pods that others need":                neededLast,
		"nodes brought by hand":                byHand,
		"nodes brought in advance":             inAdvance,
		"nodes renewed in place":               renewedInPlace,
		"nodes renewed after the end":          renewedAfterEnd,
		"nodes brought with a start-up taint":  broughtTainted,
		"an only pod that is moved first":      movedFirst,
		"pods that could not be created":       createsRefused,
		"two runs on one group":                twoRuns,
		"a second run that waited":             lateSecond,
		"a second run at the first renewal":    secondGivesWay,
		"other settings than at first":         otherSettings,
		"flags that are not given":             fewerFlags,
		"a target that moves":                  targetMoves,
		"a pod that must not be disrupted":     doNotDisrupt,
		"two groups at once":                   twoGroups,
		"somebody lowers the maximum":          lowersMax,
		"somebody protects its instances":      protects,
		"by GKE's numbers, zone by zone":       zoneByZone,
	}
	for name, i := range interruptions() {
		cases["interrupted: "+name] = func(t *testing.T, shared *fixture.Fixture) { i.run(t, shared, name) }
	}
	t.Run("case", func(t *testing.T) {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				inSample(t)
				t.Parallel()
				test(t, shared)
			})
		}
	})
	checkRefusals(t, shared, slices.Sorted(maps.Keys(cases)))
}

// checkRefusals checks that budgets refused at most one in fifty of the evictions that all cases of the fixture requested.
func checkRefusals(t *testing.T, shared *fixture.Fixture, cases []string) {
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

func threeNodes(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "three", Zones: []string{zoneA, zoneB, zoneC}, Counts: []int{1, 1, 1}, Suspended: []string{rebalance}})
	file := filepath.Join(t.TempDir(), "three.html")
	c := s.upgrade(0, "--output=json", "--report="+file)
	s.checkDone()
	checkReport(t, file, c)
	if changed := s.operations("SuspendProcesses", "ResumeProcesses"); len(changed) > 0 {
		t.Errorf("a suspension that was there before was touched: %v", changed)
	}
}

func oneOfFour(t *testing.T, shared *fixture.Fixture) {
	s := openEmpty(t, shared, fixture.Group{Name: "one", Zones: []string{zoneA, zoneB}, Counts: []int{1}, Max: 4, Suspended: []string{rebalance}})
	if err := s.Cloud.SetDesired(s.group, 4); err != nil { // the nodes that it launches are current
		t.Fatal(err)
	}
	s.waitForNodes(4)
	s.addWorkloads()
	s.ready()
	if len(s.before.moves) == 0 {
		t.Fatal("no pod is on the outdated node")
	}
	s.surge = 1 // never more than the number of outdated nodes
	s.upgrade(0)
	s.checkDone()
}

func ownSuspension(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "rebalanced", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	s.upgrade(0)
	s.checkDone()
	if changed := s.operations("SuspendProcesses", "ResumeProcesses"); !slices.Equal(changed, []string{"SuspendProcesses", "ResumeProcesses"}) {
		t.Errorf("processes were changed by %v, want one suspension and one end of it", changed)
	}
}

// mixedInstances has On-Demand and Spot instances, so LaunchInstances is impossible. The upgrade raises the size of the whole
// group instead.
func mixedInstances(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{
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
	s.upgrade(0)
	s.checkDone()
	if launched := s.operations("LaunchInstances"); len(launched) > 0 {
		t.Errorf("%d launches named a zone, which this group refuses", len(launched))
	}
}

func toVersion(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "pinned", Zones: []string{zoneA}, Counts: []int{1}, Version: "1", Suspended: []string{rebalance}})
	s.upgrade(0, "--to=2")
	s.checkDone()
}

func toImage(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "image", Zones: []string{zoneA}, Counts: []int{1}, Version: "1", Suspended: []string{rebalance}})
	s.upgrade(0, "--to="+fixture.NewImage)
	s.checkDone()
	made := 0
	for _, r := range s.Cloud.Requests() {
		if r.Operation == "CreateLaunchTemplateVersion" { // no other case creates a version
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d template versions were made, want 1", made)
	}
}

// stubborn returns a workload with a budget that allows no eviction. The scheduler chooses its node.
func stubborn() fixture.Workload {
	return fixture.Workload{Name: "stubborn", Replicas: 1, MaxUnavailable: "0"}
}

// ampleTime is much longer than the drain of an unblocked node, even on a slow machine.
const ampleTime = "--drain-timeout=20s"

func skipNode(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "skip", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubborn())
	stuck := s.nodeOf("stubborn")
	s.mark(stuck)
	c := s.upgrade(4, "--on-timeout=skip", ampleTime)
	if text := c.out.String(); !strings.Contains(text, stuck) || !strings.Contains(text, "stubborn") {
		t.Errorf("stdout names neither the node %s nor its pod:\n%s", stuck, text)
	}
	s.checkMarked(stuck)
	after := s.takeSnapshot()
	if after.ready["stubborn"] != 1 {
		t.Errorf("workloads ready %v: the pod that may not be disrupted was", after.ready)
	}
	for _, node := range s.nodes() {
		if node.Name != stuck && !s.current(&node, after.group) {
			t.Errorf("node %s is not current", node.Name)
		}
	}
	s.checkBudgets()
}

func failNode(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "fail", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubborn())
	stuck := s.nodeOf("stubborn")
	if plan := document[report.Plan](t, s.Fixture, 3, "nodeupgrade", s.group, "--dry-run"); len(plan.Findings) == 0 {
		t.Errorf("the plan finds nothing: %+v", plan)
	}
	c := s.upgrade(1, ampleTime)
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
			s.checkClean(&node)
		}
	}
	s.unblock("stubborn")
	s.upgrade(0, ampleTime)
	s.checkDone()
}

func forceNode(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "force", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Suspended: []string{rebalance}}, stubborn())
	for uid, name := range s.before.moves {
		if strings.HasPrefix(name, "stubborn-") {
			delete(s.before.moves, uid) // it is deleted, and not evicted
		}
	}
	s.upgrade(0, "--on-timeout=force", ampleTime)
	if deleted := s.deletions(); len(deleted) != 1 || !strings.HasPrefix(deleted[0], "stubborn-") {
		t.Errorf("deleted %v, want the one pod that its budget held", deleted)
	}
	s.mayBreak = true // because force breaks budgets
	s.checkDone()
}

// noCapacity has a zone without capacity for launches.
func noCapacity(t *testing.T, shared *fixture.Fixture) {
	shared.Cloud.LimitCapacity(zoneF, 0)
	s := open(t, shared, fixture.Group{Name: "scarce", Zones: []string{zoneA, zoneF}, Counts: []int{1, 1}})
	c := s.upgrade(1, "--boot-timeout=5s")
	errorLine := c.errorLine()
	for _, part := range []string{"NodeCreationFailure", "InsufficientInstanceCapacity", zoneF, "allow more instance types or zones", " to continue"} {
		if !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.settle()
	s.checkTimeline()
	s.checkUntouched()
}

// mark puts marks on a node that a user could have put there.
func (s *testCase) mark(name string) {
	s.t.Helper()
	s.change(name, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "team", Value: "blue", Effect: corev1.TaintEffectNoSchedule})
		node.Labels["rack"], node.Annotations["note"] = "r7", "ask ann"
		node.Spec.Unschedulable = true
	})
}

// checkMarked checks that the marks of mark are still on the node.
func (s *testCase) checkMarked(name string) {
	s.t.Helper()
	for _, node := range s.nodes() {
		if node.Name != name {
			continue
		}
		tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "team" && taint.Value == "blue" })
		if !tainted || !node.Spec.Unschedulable || node.Labels["rack"] != "r7" || node.Annotations["note"] != "ask ann" {
			s.t.Errorf("node %s lost what a person put there: %+v", name, marksOf(&node))
		}
		return
	}
	s.t.Errorf("node %s is gone", name)
}
