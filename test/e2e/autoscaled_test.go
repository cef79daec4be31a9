package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestAutoscaledUpgradesUseNodesThatAutoscalerAdds checks upgrades whose new nodes come from an autoscaler (GKE G70–G82). The case
// "expire" has short-lived nodes, which the group itself replaces (GKE G90).
func TestAutoscaledUpgradesUseNodesThatAutoscalerAdds(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"served":   testAutoscaledUpgrade,
		"waits":    testAutoscaledWaitOfDays,
		"unserved": testNoAutoscaler,
		"expire":   testShortLivedNodes,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			writeAutoscalerStatus(t, shared, "served", "waits") // just before the test, because an old status is ignored
			test(t, shared)
		})
	}
}

// writeAutoscalerStatus writes the status of cluster-autoscaler with the groups that it scales.
func writeAutoscalerStatus(t *testing.T, s *fixture.Fixture, groups ...string) {
	t.Helper()
	text := "autoscalerStatus: Running\nnodeGroups:\n"
	for _, group := range groups {
		text += fmt.Sprintf("- name: %s\n  health:\n    status: Healthy\n", group)
	}
	status := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "cluster-autoscaler-status",
			Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/last-updated": time.Now().Format("2006-01-02 15:04:05.999999999 -0700 MST")},
		},
		Data: map[string]string{"status": text},
	}
	configMaps := s.Cluster.Client().CoreV1().ConfigMaps(metav1.NamespaceSystem)
	_, err := configMaps.Update(t.Context(), status, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(t.Context(), status, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) { // another case has created it
		t.Fatal(err)
	}
}

// startAutoscaler starts an autoscaler that adds nodes to the group while pods of the case are unschedulable.
func (s *testCase) startAutoscaler() {
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) { return false, s.addNodeForPendingPods(ctx) })
		if ctx.Err() == nil {
			s.t.Errorf("the autoscaler ended: %v", err)
		}
	}()
	s.t.Cleanup(func() {
		stop()
		<-done
	})
}

func (s *testCase) addNodeForPendingPods(ctx context.Context) error {
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil || !slices.ContainsFunc(pods.Items, isUnschedulable) {
		return err
	}
	nodes, err := s.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + s.group})
	if err != nil {
		return err
	}
	group, err := s.Cloud.Group(s.group)
	if err != nil || group.Desired >= group.Max || slices.ContainsFunc(group.Instances, func(i awscloud.InstanceStatus) bool { return isBooting(i, nodes.Items) }) {
		return err
	}
	return s.Cloud.SetDesired(s.group, group.Desired+1)
}

func isUnschedulable(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// isBooting reports whether the instance does not yet have a node that accepts pods.
func isBooting(i awscloud.InstanceStatus, nodes []corev1.Node) bool {
	node := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == i.Node })
	joined := node >= 0 && !slices.ContainsFunc(nodes[node].Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
	return i.State == at.LifecycleStatePending || i.State == at.LifecycleStateInService && !joined
}

// autoscaledFlags returns the flags of an autoscaled blue-green upgrade.
func autoscaledFlags(flags ...string) []string {
	return append([]string{"--strategy=autoscaled-blue-green"}, flags...)
}

// testAutoscaledUpgrade drains all outdated nodes together after the wait. Only budgets limit the drains. The autoscaler adds the
// nodes that the pods need (GKE G70, G74, G75).
func testAutoscaledUpgrade(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "served", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	s.startAutoscaler()
	s.runUpgrade(0, autoscaledFlags("--wait-for-drain=2s")...).checkOutput("nodegroup/served upgraded")
	s.waitFor("all pods to be ready", func() bool { return maps.Equal(s.takeSnapshot().ready, s.before.ready) })
	after := s.takeSnapshot()
	for _, node := range s.nodes() {
		if !s.isCurrent(&node, after.group) {
			t.Errorf("node %s is not current", node.Name)
		}
		s.checkNoMarks(&node)
	}
	if a, b := after.group, s.before.group; a.Min != b.Min || a.Max != b.Max || !slices.Equal(a.Suspended, b.Suspended) {
		t.Errorf("min %d, max %d, suspended %v; before %d, %d, %v", a.Min, a.Max, a.Suspended, b.Min, b.Max, b.Suspended)
	}
	s.checkTerminations()
	s.checkBudgetsKept()
	s.checkEvictions()
}

// testAutoscaledWaitOfDays checks that the command exits if the wait takes days, and that only pause and abort are possible during
// the wait (GKE G71, G78).
func testAutoscaledWaitOfDays(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "waits", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	s.runUpgrade(6, autoscaledFlags()...).checkOutput("it waits with the drain until ")
	if most, room := s.cloudGroup().Max, s.before.group.Max+3; most != room {
		t.Errorf("the group's maximum is %d, want %d, which has room for as many new nodes", most, room)
	}
	s.startVerb("complete").checkRefusal("its strategy is autoscaled-blue-green, which has no soak to end")
	s.startVerb("rollback", "--yes").checkRefusal("its strategy is autoscaled-blue-green, which has no rollback")
	s.runVerb(0, "pause").checkOutput("paused by ")
	s.runVerb(6, "resume", "--yes", "--parallel-groups").checkOutput("it waits with the drain until ")
	s.runVerb(0, "abort", "--yes")
	s.settle()
	after := s.takeSnapshot()
	s.checkSizeRestored(after)
	for _, node := range s.nodes() {
		s.checkNoMarks(&node)
	}
	if !maps.Equal(after.movingPods, s.before.movingPods) {
		t.Errorf("pods on outdated nodes %v, before %v", after.movingPods, s.before.movingPods)
	}
}

// testNoAutoscaler checks that the upgrade is refused if no autoscaler scales the group (GKE G80).
func testNoAutoscaler(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "unserved", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	c := s.runUpgrade(2, autoscaledFlags()...)
	for _, word := range []string{"no sign of an autoscaler for group", "does not name it", "blue-green"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, word) {
			t.Errorf("the error does not say %q: %s", word, errorLine)
		}
	}
	s.checkUnchanged()
}
