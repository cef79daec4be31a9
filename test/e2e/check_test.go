package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// checkUpgraded checks the state after a successful upgrade: all nodes are current, and nothing else has changed.
func (s *testCase) checkUpgraded() {
	s.t.Helper()
	s.checkAllReplaced()
	s.checkEvictions()
}

// checkAllReplaced is checkUpgraded without the check of evictions, for upgrades in which pods may move more than once.
func (s *testCase) checkAllReplaced() {
	s.t.Helper()
	s.settle()
	after := s.takeSnapshot()
	s.checkSizeRestored(after)
	for _, node := range s.nodes() {
		if !s.isCurrent(&node, after.group) {
			s.t.Errorf("node %s is not current", node.Name)
		}
		s.checkNoMarks(&node)
	}
	if nodes := len(s.nodes()); nodes != s.before.group.Desired {
		s.t.Errorf("%d nodes are left, want %d", nodes, s.before.group.Desired)
	}
	if !maps.Equal(after.ready, s.before.ready) {
		s.t.Errorf("pods ready %v, before %v", after.ready, s.before.ready)
	}
	s.checkSizeHistory()
	s.checkTerminations()
	s.checkBudgetsKept()
}

// checkSizeRestored compares the group's sizes and suspended processes in the cloud with those before.
func (s *testCase) checkSizeRestored(after snapshot) {
	s.t.Helper()
	a, b := after.group, s.before.group
	if a.Desired != b.Desired || a.Min != b.Min || a.Max != b.Max || !maps.Equal(a.Zones, b.Zones) {
		s.t.Errorf("desired %d, min %d, max %d, zones %v; before %d, %d, %d, %v", a.Desired, a.Min, a.Max, a.Zones, b.Desired, b.Min, b.Max, b.Zones)
	}
	if !slices.Equal(a.Suspended, b.Suspended) {
		s.t.Errorf("suspended %v, before %v", a.Suspended, b.Suspended)
	}
}

// checkNoMarks fails the test if the node has a mark of this tool.
func (s *testCase) checkNoMarks(node *corev1.Node) {
	s.t.Helper()
	if left := toolMarks(node); len(left) > 0 {
		s.t.Errorf("node %s still has marks of this tool: %s", node.Name, strings.Join(left, ", "))
	}
}

// toolMarks lists the marks of this tool on the node.
func toolMarks(node *corev1.Node) []string {
	var found []string
	for _, provider := range []string{"aws", "manual"} {
		if nodemark.HasTaint(node, nodegroup.FenceTaint(provider)) {
			found = append(found, "taint "+nodegroup.FenceTaint(provider).Key)
		}
	}
	if node.Spec.Unschedulable {
		found = append(found, "a cordon")
	}
	for key := range node.Annotations {
		if strings.HasPrefix(key, nodemark.Domain) {
			found = append(found, "annotation "+key)
		}
	}
	for key := range node.Labels {
		if strings.HasPrefix(key, nodemark.Domain) || key == corev1.LabelNodeExcludeBalancers {
			found = append(found, "label "+key)
		}
	}
	return found
}

// checkSizeHistory checks every size that the group has had. At most surge nodes may be added, and at most max-unavailable machines
// may be missing.
func (s *testCase) checkSizeHistory() {
	s.t.Helper()
	sizes := s.Cloud.Timeline(s.group)
	if len(sizes) < 2 {
		s.t.Errorf("the group's size never changed: %v", sizes)
	}
	before := s.before.group.Desired
	began := slices.IndexFunc(sizes, func(z awscloud.Size) bool { return z.InService == before })
	for _, z := range sizes[max(0, began):] {
		if z.Desired > before+s.surge || z.Desired < before-s.unavailable || z.InService < before-s.unavailable {
			s.t.Errorf("at %s desired %d with %d in service: before %d, surge %d, max-unavailable %d", z.At, z.Desired, z.InService, before, s.surge, s.unavailable)
		}
	}
}

// checkTerminations fails the test if an instance was terminated twice, or if an outdated instance was not terminated.
func (s *testCase) checkTerminations() {
	s.t.Helper()
	asked := s.countTerminations()
	for id, times := range asked {
		if times > 1 {
			s.t.Errorf("instance %s was terminated %d times", id, times)
		}
	}
	for _, i := range s.before.group.Instances {
		if i.Image != "" && asked[i.ID] == 0 && s.hasOutdatedImage(i) {
			s.t.Errorf("outdated instance %s was not terminated", i.ID)
		}
	}
}

func (s *testCase) hasOutdatedImage(i awscloud.InstanceStatus) bool {
	return !s.isCurrent(&corev1.Node{}, awscloud.GroupStatus{Instances: []awscloud.InstanceStatus{{Image: i.Image}}})
}

// countTerminations returns how often each instance was terminated. It counts requests that succeeded or whose answer was lost.
func (s *testCase) countTerminations() map[string]int {
	counts := map[string]int{}
	for _, r := range s.Cloud.Requests() {
		if r.Operation == "TerminateInstanceInAutoScalingGroup" && (r.Status == http.StatusOK || r.Status == 0) {
			counts[r.Params["InstanceId"]]++
		}
	}
	return counts
}

// checkEvictions checks that each pod that had to move was evicted exactly once, and that no other pod was.
func (s *testCase) checkEvictions() {
	s.t.Helper()
	found, err := s.Evictions(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for uid, name := range s.before.movingPods {
		if times := found.EvictionsOf(uid); times != 1 {
			s.t.Errorf("pod %s was evicted %d times, want once", name, times)
		}
	}
	for uid, times := range found.Accepted {
		if _, had := s.before.movingPods[uid]; !had {
			s.t.Errorf("pod %s did not have to move and was evicted %d times", uid, times)
		}
	}
	s.t.Logf("%d evictions accepted, %d of %d calls refused", len(found.Accepted), found.Refused, found.Calls)
}

// checkBudgetsKept checks that no budget was ever broken, unless mayBreak is set.
func (s *testCase) checkBudgetsKept() {
	s.t.Helper()
	broken, seen := s.budgets.Stop()
	if len(broken) > 0 && !s.mayBreak || seen == 0 {
		s.t.Errorf("%d states of the budgets were seen, broken budgets: %v", seen, broken)
	}
}
