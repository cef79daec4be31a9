package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// unhealthyLimit is the time limit for an upgrade that stops because a workload does not recover. The upgrade waits five minutes for
// the workload. Parallel cases keep the machine busy, so the limit is longer.
const unhealthyLimit = 12 * time.Minute

// publicCase repeats a problem from a public report: an upgrade with another tool took a workload down. Its objects are in
// testdata/cases. NAME.0.yaml contains custom resource definitions and quotas. NAME.1.yaml contains the outdated nodes and the
// workloads. NAME.2.yaml contains the current nodes. NAME.3.yaml contains changes before the upgrade.
type publicCase struct {
	// pool is the value of the nodes' label pool, and the name of the namespace.
	pool string
	// flags are added to the command.
	flags []string
	// result is the expected result of the upgrade. "" means that the upgrade is refused before it begins.
	result record.Result
	// says are parts of the error message if the upgrade does not succeed.
	says []string
	// ready is the number of pods of each workload that must be ready at any time, by the workload's label app.
	ready map[string]int
	// force is true if the error message may offer force, because force helps in this case.
	force bool
	// fenced is the number of outdated nodes that must be fenced at the end: the nodes that were started.
	fenced int
	// before acts as a user before the upgrade, after the current nodes were added.
	before func(*testCase)
	// duringUpgrade acts as a user during the upgrade.
	duringUpgrade func(*testCase, *command)
}

// publicCases contains the cases, by the repository and number of the report.
var publicCases = map[string]publicCase{
	"sregym-887-psa": {
		pool: "psa", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 2}, fenced: 1,
		says: []string{"psa/Deployment/web (2 of 3 ready)", "1 pod is not created", `violates PodSecurity "restricted:latest"`},
	},
	"k8s-89209-quota": { // a second node is started too, and its drain is blocked by the workload's budget
		pool: "quo", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 2}, fenced: 2,
		says: []string{"quo/Deployment/web (2 of 3 ready)", "1 pod is not created", "exceeded quota: q"},
	},
	"k8s-device-plugin-291": {
		pool: "gpu", result: record.WorkloadUnhealthy, ready: map[string]int{"infer": 2}, fenced: 1,
		says: []string{"gpu/Deployment/infer (2 of 3 ready)", "Insufficient nvidia.com/gpu"},
	},
	"k8s-66568-hostport": { // the two current nodes have room for only two of the three pods
		pool: "hp", result: record.WorkloadUnhealthy, ready: map[string]int{"edge": 2}, fenced: 3,
		says: []string{"hp/Deployment/edge (2 of 3 ready)", "didn't have free ports for the requested pod ports"},
	},
	"cilium-29405-custom-startup-taint": {
		pool: "cus", flags: []string{"--wait-replacement"}, result: record.Succeeded, ready: map[string]int{"web": 2}, fenced: 3,
		duringUpgrade: addTaintedNodes,
	},
	"suc-9-inplace-no-budget": {
		pool: "ipn", flags: []string{"--wait-replacement"}, result: record.Succeeded, ready: map[string]int{"web": 2},
		duringUpgrade: renewDrainedNodes,
	},
	"karpenter-2689-antiaffinity": {
		pool: "drf", result: record.Succeeded, ready: map[string]int{"web": 1}, fenced: 2,
	},
	"kubernetes-31487-one-node": {
		pool: "one", result: record.Succeeded, ready: map[string]int{"web": 1}, fenced: 1,
	},
	"kured-874-slow-start": { // the workload has no budget
		pool: "slo", result: record.Succeeded, ready: map[string]int{"web": 3}, fenced: 4,
	},
	"autoscaler-6031-daemonset-full": {
		pool: "dsf", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 3, "agent": 3},
		says: []string{"dsf/DaemonSet/agent (0 of 3 ready)", "no node takes it", "Insufficient cpu"},
	},
	"aks-828-daemonset-refused": {
		pool: "dsm", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 2, "agent": 3}, fenced: 1,
		says: []string{"dsm/DaemonSet/agent (0 of 3 ready)", "3 pods are not created", "exceeded quota: three"},
	},
	"cluster-api-13530-name-reused": {
		pool: "reu", flags: []string{"--wait-replacement"}, result: record.Succeeded, ready: map[string]int{"web": 2},
		duringUpgrade: replaceUnderSameName,
	},
	"cluster-api-6894-tolerates-all": {
		pool: "tol", ready: map[string]int{"web": 3}, force: true,
		says: []string{"tol/web-", "it tolerates the cordon and the fence's taint"},
	},
	"autoscaler-4517-attach-limit": {
		pool: "csi", result: record.WorkloadUnhealthy, ready: map[string]int{"db": 1}, fenced: 1,
		says: []string{"csi/StatefulSet/db (1 of 2 ready)", "exceed max volume count"},
	},
	"istio-21147-webhook": {
		pool: "whk", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 2}, fenced: 1,
		says: []string{"1 pod is not created", "injector.example.com"},
	},
	"karpenter-2984-affinity-to-daemonset": {
		pool: "aff", result: record.WorkloadUnhealthy, ready: map[string]int{"relay": 1}, fenced: 1,
		says: []string{"aff/Deployment/relay (1 of 2 ready)", "didn't match pod affinity rules"},
	},
	"kured-145-single-node": {
		pool: "sin", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 1}, fenced: 1,
		says: []string{"sin/Deployment/web (1 of 2 ready)", "no node takes it"},
	},
	"kops-7258-image-pull": {
		pool: "img", result: record.WorkloadUnhealthy, ready: map[string]int{"web": 2}, fenced: 1,
		says: []string{"img/Deployment/web (2 of 3 ready)", "CrashLoopBackOff"},
	},
	"arc-4618-runner": {
		pool: "arc", result: record.Succeeded, fenced: 2, before: prepareRunners, duringUpgrade: endAwaitedRunners,
	},
	"openshift-router-331-one-new-node": {
		pool: "rou", result: record.WorkloadUnhealthy, ready: map[string]int{"router": 1}, fenced: 2,
		says: []string{"rou/Deployment/router (1 of 2 ready)", "didn't match pod anti-affinity rules"},
	},
}

func TestUpgradeAvoidsProblemsReportedAboutOtherTools(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	for name, c := range publicCases {
		t.Run(name, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			c.run(t, shared, name)
		})
	}
}

func (c publicCase) run(t *testing.T, shared *fixture.Fixture, name string) {
	own := *shared
	own.Namespace = c.pool
	s := &testCase{Fixture: &own, t: t, group: c.pool}
	t.Cleanup(s.logStateIfFailed)
	s.applyStep(name, 0)
	s.applyStep(name, 1, "-l", "pool="+c.pool) // the nodes first, because otherwise the first Ready node would get all pods
	s.waitForReadyNodes()
	s.applyStep(name, 1)
	s.waitForDaemonSets()
	s.settle()
	s.waitForFullQuotas()
	s.applyStep(name, 2)
	s.waitForReadyNodes()
	t.Cleanup(s.removeWebhooks)
	s.applyStep(name, 3)
	s.waitForFullQuotas()
	if c.before != nil {
		c.before(s)
	}
	ready := s.watchReadyPods()

	command := s.startLabelled(append([]string{"--wait-replacement=false"}, c.flags...)...)
	if c.duringUpgrade != nil {
		c.duringUpgrade(s, command)
	}
	command.awaitExitWithin(unhealthyLimit, c.exitCode())
	c.check(s, command, ready)
}

// exitCode returns the exit code of the case.
func (c publicCase) exitCode() int {
	switch c.result {
	case record.Succeeded:
		return 0
	case "":
		return 3
	default:
		return 1
	}
}

func (c publicCase) check(s *testCase, command *command, ready *readyWatch) {
	s.t.Helper()
	if got := s.manualStatus().Result; got != report.KebabCase(string(c.result)) {
		s.t.Errorf("the result is %q, want %q", got, report.KebabCase(string(c.result)))
	}
	if c.result != record.Succeeded {
		message := command.errorLine()
		for _, part := range c.says {
			if !strings.Contains(message, part) {
				s.t.Errorf("the message does not say %q: %s", part, message)
			}
		}
		if !c.force && strings.Contains(message, "force") {
			s.t.Errorf("the message offers force, which does not help: %s", message)
		}
	}
	least := ready.stop(s.t)
	for app, n := range c.ready {
		if least[app] < n {
			s.t.Errorf("at one moment %d pods of %s were ready, want at least %d", least[app], app, n)
		}
	}
	c.checkFences(s)
	if c.result == record.Succeeded && len(c.ready) > 0 {
		s.settle()
	}
}

// checkFences checks that no current node is fenced, and that the number of fenced outdated nodes is right.
func (c publicCase) checkFences(s *testCase) {
	s.t.Helper()
	fenced := 0
	for _, node := range s.nodes() {
		switch left := toolMarks(&node); {
		case len(left) > 0 && node.Labels["image"] == "v2":
			s.t.Errorf("current node %s is fenced: %v", node.Name, left)
		case len(left) > 0:
			fenced++
		}
	}
	if fenced != c.fenced {
		s.t.Errorf("%d outdated nodes are fenced at the end, want %d", fenced, c.fenced)
	}
}

// addTaintedNodes adds a current node with a taint for each drained node. It removes the taint, as an agent would, after the upgrade
// has reported that it waits for that.
func addTaintedNodes(s *testCase, c *command) {
	const agent = "example.com/agent-not-ready"
	for i := range 3 {
		c.awaitEvent("a drained node", nodeReached("Drained"))
		fresh := controlplane.NodeSpec{
			Name: fmt.Sprintf("%s-new-%d", s.group, i), Labels: map[string]string{"pool": s.group, "image": "v2"},
			Taints: []corev1.Taint{{Key: agent, Effect: corev1.TaintEffectNoSchedule}},
		}
		if err := s.Cluster.AddNode(s.t.Context(), fresh); err != nil {
			s.t.Fatal(err)
		}
		s.waitFor("the taint to be named", func() bool {
			return strings.Contains(s.manualStatus().Status.Waiting, "node "+fresh.Name+" has taint "+agent)
		})
		s.changeNode(fresh.Name, func(node *corev1.Node) {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == agent })
		})
	}
}

// replaceUnderSameName deletes each drained node, and adds a current node with the same name.
func replaceUnderSameName(s *testCase, c *command) {
	for range 3 {
		name := c.awaitEvent("a drained node", nodeReached("Drained")).Node
		if err := s.Cluster.Client().CoreV1().Nodes().Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.addNode(name, "v2")
	}
}

// renewDrainedNodes makes each drained node current, as a tool that upgrades nodes in place would.
func renewDrainedNodes(s *testCase, c *command) {
	for range 3 {
		s.setCurrentLabel(c.awaitEvent("a drained node", nodeReached("Drained")).Node)
	}
}

// applyStep applies the objects of a step of the case, if they exist.
func (s *testCase) applyStep(name string, step int, flags ...string) {
	s.t.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", "cases", fmt.Sprintf("%s.%d.yaml", name, step)))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := os.Stat(file); os.IsNotExist(err) && step != 1 {
		return
	}
	if r := runKubectl(s.t, s.Fixture, append([]string{"apply", "-f", file}, flags...)...); r.Code != 0 {
		s.t.Fatalf("applying %s: %s", file, r.Stderr)
	}
}

// removeWebhooks deletes the case's webhooks. Otherwise they would affect other tests of the fixture.
func (s *testCase) removeWebhooks() {
	result, err := s.Kubectl(context.WithoutCancel(s.t.Context()), "delete", "mutatingwebhookconfigurations", "-l", "pool="+s.group)
	if err != nil || result.Code != 0 {
		s.t.Errorf("deleting the webhooks: %v: %s", err, result.Stderr)
	}
}

// waitForDaemonSets waits until the DaemonSets have a ready pod on each of their nodes.
func (s *testCase) waitForDaemonSets() {
	s.t.Helper()
	s.waitFor("the DaemonSets' pods", func() bool {
		sets, err := s.Cluster.Client().AppsV1().DaemonSets(s.Namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		return !slices.ContainsFunc(sets.Items, func(set appsv1.DaemonSet) bool {
			return set.Status.ObservedGeneration == 0 || set.Status.NumberReady != set.Status.DesiredNumberScheduled
		})
	})
}

// waitForFullQuotas waits until the quota controller has counted the case's pods, so that the quotas refuse more pods.
func (s *testCase) waitForFullQuotas() {
	s.t.Helper()
	s.waitFor("the quotas to be full", func() bool {
		quotas, err := s.Cluster.Client().CoreV1().ResourceQuotas(s.Namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		return !slices.ContainsFunc(quotas.Items, func(q corev1.ResourceQuota) bool {
			used, hard := q.Status.Used[corev1.ResourcePods], q.Spec.Hard[corev1.ResourcePods]
			return used.Cmp(hard) < 0
		})
	})
}

// waitForReadyNodes waits until each node of the group is Ready. Other taints do not matter.
func (s *testCase) waitForReadyNodes() {
	s.t.Helper()
	s.waitFor("the nodes to be Ready", func() bool {
		return !slices.ContainsFunc(s.nodes(), func(node corev1.Node) bool {
			return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady }) ||
				!slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
				})
		})
	})
}

// readyWatch watches the pods of a namespace and records the minimum number of ready pods of each workload.
type readyWatch struct {
	watcher watch.Interface
	ended   chan struct{}
	pods    map[types.UID]string // the workload of each ready pod
	minimum map[string]int
}

// watchReadyPods starts to watch the pods, and counts the present ones.
func (s *testCase) watchReadyPods() *readyWatch {
	s.t.Helper()
	// The watch must outlive the test's context, because it is read after the upgrade has ended.
	ctx, pods := context.WithoutCancel(s.t.Context()), s.Cluster.Client().CoreV1().Pods(s.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	w := &readyWatch{ended: make(chan struct{}), pods: map[types.UID]string{}}
	for i := range list.Items {
		w.noteEvent(watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	w.minimum = w.countByWorkload()
	if w.watcher, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.watcher.Stop)
	go func() {
		defer close(w.ended)
		for e := range w.watcher.ResultChan() {
			w.noteEvent(e)
		}
	}()
	return w
}

func (w *readyWatch) countByWorkload() map[string]int {
	sums := map[string]int{}
	for _, app := range w.pods {
		sums[app]++
	}
	return sums
}

func (w *readyWatch) noteEvent(e watch.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	if delete(w.pods, pod.UID); e.Type != watch.Deleted && pod.DeletionTimestamp == nil && drain.Ready(pod) {
		w.pods[pod.UID] = pod.Labels["app"]
	}
	now := w.countByWorkload()
	for app, least := range w.minimum {
		if now[app] < least {
			w.minimum[app] = now[app]
		}
	}
}

// stop ends the watch. It returns the minimum number of ready pods of each workload that had ready pods at the start.
func (w *readyWatch) stop(t *testing.T) map[string]int {
	t.Helper()
	select {
	case <-w.ended:
		t.Error("the watch of the pods ended before the upgrade")
	default:
	}
	w.watcher.Stop()
	<-w.ended
	return w.minimum
}
